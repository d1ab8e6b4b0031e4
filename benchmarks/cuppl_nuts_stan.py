"""Stan's side of `cuppl_nuts.py`, for a Python that has PyStan.

What is timed is Stan's sampler in its own process: building the model is apart.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpstan.services_stub as stub
import numpy as np
import stan
from cuppl_nuts_server import serve
from httpstan.cache import cache_directory

SPENT = Path(tempfile.gettempdir()) / f"stan_seconds_{time.time_ns()}"
_SCHOOLS = "data { int n; vector[n] y; vector[n] sigma; } parameters { real mu; real<lower=0> tau; "
PROGRAMS = {
    "eight_schools_noncentered": (
        "mu tau",
        _SCHOOLS
        + """vector[n] z; } model {
  mu ~ normal(0, 5); tau ~ cauchy(0, 5); z ~ std_normal(); y ~ normal(mu + tau * z, sigma); }""",
    ),
    "eight_schools_centered": (
        "mu tau",
        _SCHOOLS
        + """vector[n] theta; } model {
  mu ~ normal(0, 5); tau ~ cauchy(0, 5); theta ~ normal(mu, tau); y ~ normal(theta, sigma); }""",
    ),
    "garch11": (
        "mu a0 a1 b1",
        """data { int n; vector[n] y; real sigma1; }
parameters { real mu; real<lower=0> a0; real<lower=0, upper=1> a1; real<lower=0, upper=1-a1> b1; }
model {
  vector[n] sigma; sigma[1] = sigma1;
  for (t in 2:n)
    sigma[t] = sqrt(a0 + a1 * square(y[t - 1] - mu) + b1 * square(sigma[t - 1]));
  mu ~ normal(0, 100); a0 ~ exponential(0.01); target += -log1m(a1);
  y ~ normal(mu, sigma); }""",
    ),
    "kidscore_interaction": (
        "b sigma",
        """data { int n; vector[n] kid; vector[n] hs; vector[n] iq; }
transformed data { matrix[n, 4] x;
  x[, 1] = rep_vector(1, n); x[, 2] = hs; x[, 3] = iq; x[, 4] = hs .* iq; }
parameters { vector[4] b; real<lower=0> sigma; }
model { b ~ normal(0, 100); sigma ~ cauchy(0, 2.5);
  target += normal_id_glm_lpdf(kid | x, 0, b, sigma); }""",
    ),
    "arK": (
        "a b sigma",
        """data { int n; vector[n] y; }
transformed data { matrix[n - 5, 5] x; for (k in 1:5) x[, k] = y[(6 - k):(n - k)]; }
parameters { real a; vector[5] b; real<lower=0> sigma; }
model { a ~ normal(0, 10); b ~ normal(0, 10); sigma ~ cauchy(0, 2.5);
  target += normal_id_glm_lpdf(y[6:n] | x, a, b, sigma); }""",
    ),
    "low_dim_gauss_mix": (
        "m1 m2 s theta",
        """data { int n; vector[n] y; }
parameters { real m1; real d; vector<lower=0>[2] s; real<lower=0, upper=1> theta; }
transformed parameters { real m2 = m1 + exp(d); }
model { m1 ~ normal(0, 2); d ~ normal(0, 2); s ~ normal(0, 2); theta ~ beta(5, 5);
  for (i in 1:n)
    target += log_mix(theta, normal_lpdf(y[i] | m1, s[1]), normal_lpdf(y[i] | m2, s[2])); }""",
    ),
    "diamonds": (
        "a sigma b.1 b.2 b.3 b.24",
        """data { int n; matrix[n, 24] xs; vector[n] y; }
parameters { vector[24] b; real a; real<lower=0> sigma; }
model { b ~ std_normal(); a ~ student_t(3, 8, 10); sigma ~ cauchy(0, 10);
  target += normal_id_glm_lpdf(y | xs, a, b, sigma); }""",
    ),
    "gp_pois_regr": (
        "rho alpha",
        """data { int n; array[n] real x; array[n] int k; }
parameters { real<lower=0> rho; real<lower=0> alpha; vector[n] z; }
model {
  matrix[n, n] cov = add_diag(gp_exp_quad_cov(x, alpha, rho), 1e-10);
  rho ~ gamma(25, 4); alpha ~ normal(0, 2); z ~ std_normal();
  k ~ poisson_log(cholesky_decompose(cov) * z); }""",
    ),
    "lotka_volterra": (
        "a b c d u0 v0 s1 s2",
        """functions { vector slope(vector w, real a, real b, real c, real d) {
  return [(a - b * w[2]) * w[1], (d * w[1] - c) * w[2]]'; } }
data { int n; vector[n] hare; vector[n] lynx; }
parameters { real<lower=0> a; real<lower=0> b; real<lower=0> c; real<lower=0> d;
  real<lower=0> u0; real<lower=0> v0; real<lower=0> s1; real<lower=0> s2; }
model {
  vector[2] w = [u0, v0]';
  matrix[2, n] seen; seen[, 1] = w;
  for (t in 2:n) {
    for (i in 1:20) {
      vector[2] k1 = slope(w, a, b, c, d);
      vector[2] k2 = slope(w + 0.025 * k1, a, b, c, d);
      vector[2] k3 = slope(w + 0.025 * k2, a, b, c, d);
      vector[2] k4 = slope(w + 0.05 * k3, a, b, c, d);
      w = w + 0.05 / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
    }
    seen[, t] = w;
  }
  a ~ normal(1, 0.5); c ~ normal(1, 0.5); b ~ normal(0.05, 0.05); d ~ normal(0.05, 0.05);
  u0 ~ lognormal(log(10), 1); v0 ~ lognormal(log(10), 1);
  s1 ~ lognormal(-1, 1); s2 ~ lognormal(-1, 1);
  hare ~ lognormal(log(seen[1]'), s1); lynx ~ lognormal(log(seen[2]'), s2); }""",
    ),
    "hmm_example": (
        "m1 m2 t1.1 t2.1",
        """data { int n; vector[n] y; }
parameters { simplex[2] t1; simplex[2] t2; real<lower=0, upper=50> m1; real d; }
transformed parameters { real m2 = m1 + exp(d); }
model {
  vector[2] alpha; matrix[2, 2] moves = log([t1', t2']);
  m1 ~ normal(3, 1); d ~ normal(1.5, 1);
  alpha = [normal_lpdf(y[1] | m1, 1), normal_lpdf(y[1] | m2, 1)]';
  for (t in 2:n) {
    vector[2] next;
    next[1] = log_sum_exp(alpha + moves[, 1]) + normal_lpdf(y[t] | m1, 1);
    next[2] = log_sum_exp(alpha + moves[, 2]) + normal_lpdf(y[t] | m2, 1);
    alpha = next;
  }
  target += log_sum_exp(alpha); }""",
    ),
}
"""What is looked at, and the model."""
_RUN = stub._make_lazy_function_wrapper_helper


def _timed(*args: Any, **kwargs: Any) -> Any:
    """Run Stan's sampler, and leave the processor seconds that it took."""
    now = time.process_time()
    out = _RUN(*args, **kwargs)
    SPENT.write_text(repr(time.process_time() - now))
    return out


_timed.__module__, _timed.__qualname__ = _RUN.__module__, _RUN.__qualname__
stub._make_lazy_function_wrapper_helper = _timed


def main(model: str) -> None:
    """Serve one model's chains."""
    looked, text = PROGRAMS[model]

    def make(data: dict[str, Any]) -> tuple[Any, float]:
        data["n"] = len(next(v for v in data.values() if isinstance(v, list)))

        def run(seed: int, draws: int) -> tuple[float, Any]:
            for kept in cache_directory().glob("models/*/fits/*"):
                kept.unlink()  # a fit that is kept is not run again
            built = stan.build(text, data=data, random_seed=seed + 1)
            got = built.sample(num_chains=1, num_samples=draws, num_warmup=1000, refresh=100000)
            spent = float(SPENT.read_text())
            SPENT.unlink()
            return spent, got

        def chain(seed: int) -> tuple[float, float, Any]:
            warming, _ = run(seed, 1)
            seconds, fit = run(seed, 1000)
            return warming, seconds - warming, np.array(list(_columns(fit, looked))).T

        begin = time.perf_counter()
        stan.build(text, data=data, random_seed=1)
        return chain, time.perf_counter() - begin

    serve(make, f"pystan {stan.__version__}")


def _columns(fit: Any, looked: str) -> Iterator[Any]:
    for name in looked.split():
        whole, _, at = name.partition(".")
        yield from [fit[whole][int(at) - 1]] if at else fit[whole]


if __name__ == "__main__":
    main(sys.argv[1])
