"""Densities and draws where parameters are large: no cancellation, no time that grows with them.

The expected values are from a computation with 60 decimal digits.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from native_calls import Natives

from tawa import cuppl

stats = pytest.importorskip("scipy.stats")
EXPECTED = [
    ("negative_binomial", (2760, 5.0, 0.001), -8.782646090238815),
    ("negative_binomial", (9890, 999.0, 0.1), -10.94178318048113),
    ("negative_binomial", (9009, 1001.0, 0.1), -6.6233049331088205),
    ("negative_binomial", (998585, 1000000.0, 0.5), -8.673116337457328),
    ("negative_binomial", (9028460, 1000000.0, 0.1), -14.570448806607729),
    ("negative_binomial", (1000000000000, 1000000000000.0, 0.5), -15.081022681449044),
    ("negative_binomial", (998999000500125, 1000000000000.0, 0.001), -22.141703453359117),
    ("beta_binomial", (0, 50, 3.0, 2000.0), -0.07404128249451296),
    ("beta_binomial", (5, 50, 1000000.0, 3000000.0), -5.310789746449204),
    ("beta_binomial", (45, 50, 100000000000000.0, 10000000000000.0), -1.7120928853229367),
    ("beta_binomial", (50, 50, 0.4, 1000000000.0), -890.8318193230007),
    ("beta_binomial", (0, 1500, 1000000.0, 3000000.0), -431.42944848506573),
    ("beta_binomial", (150, 1500, 100000000000000.0, 10000000000000.0), -2767.2028227303235),
    ("beta_binomial", (0, 1500, 0.4, 1000000000.0), -5.999995501804497e-07),
    ("hypergeometric", (386, 5000, 2000, 1000), -4.055089359753154),
    ("hypergeometric", (16, 1000000000, 10000, 1000000), -3.831510174652969),
    ("hypergeometric", (1, 4611686018427387904, 2305843009213693952, 2), -0.6931471805599453),
    ("hypergeometric", (0, 1000000000000000, 3, 500000000000000), -2.079441541679839),
    ("inverse_gamma", (5000.0, 0.5, 2.5), -12.89050936411198),
    ("beta", (4.999750012499375e-05, 0.5, 10000.0), 8.484624017039872),
    ("beta", (0.00017996400719856028, 2.0, 10000.0), 7.998405005442631),
    ("gamma", (2100.0, 900.0, 2.5), -7.26111070609912),
    ("beta", (8.9999999919e-10, 900.0, 1000000000000.0), 23.310792609822936),
    ("gamma", (2998.746859276655, 1100.0, 2.5), -9.669241275436097),
    ("beta", (9.899999989109999e-10, 1100.0, 1000000000000.0), 17.419267383295853),
    ("beta", (9.9999990000001e-08, 100000.0, 1000000000000.0), 20.95561916690542),
    ("gamma", (25000025000.0, 10000000000.0, 2.5), -13.353155726723559),
    ("inverse_gamma", (2.4999975000025e-10, 10000000000.0, 2.5), 32.69854813315648),
    ("beta", (0.009900990099009901, 10000000000.0, 1000000000000.0), 15.214082614025065),
    ("student_t", (0.0, 100000000.0, 0.5, 2.0), -1.6433357165673523),
    ("student_t", (-7.0, 1e17, 0.5, 2.0), -8.643335713764618),
    ("von_mises", (0.5, 0.5, 10000.0), 3.6862191521583534),
    ("von_mises", (0.5000000948683299, 0.5, 1000000000000000.0), 11.850449659180132),
    ("binomial", (0, 1000000000000000, 1e-15), -1.0000000000000007),
    ("binomial", (300000, 1000000, 0.3), -7.046370251546539),
]


@pytest.fixture(scope="module")
def natives() -> Natives:
    return Natives(sorted({f"logpdf_{name}" for name, _, _ in EXPECTED}))


@pytest.mark.parametrize(("name", "arguments", "expected"), EXPECTED)
def test_densities(
    natives: Natives, name: str, arguments: tuple[float, ...], expected: float
) -> None:
    found = natives(f"logpdf_{name}", *arguments)
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize(
    "counts", [(1000, 300, 500), (1000, 700, 600), (1000, 950, 101), (5000, 4000, 4500)]
)
def test_hypergeometric_draws_of_any_number(counts: tuple[int, int, int]) -> None:
    """Good and bad, taken and left are told apart, and the shape is right."""
    law = stats.hypergeom(*counts)
    text = " ".join(map(str, counts))
    model = cuppl.model(f"def main () = sample (hypergeometric {text})")
    values, found = np.unique(model.importance(20_000, seed=3).values, return_counts=True)
    expected = law.pmf(values) * 20_000
    often = expected > 8
    assert expected[often].sum() > 19_700
    misfit = ((found - expected)[often] ** 2 / expected[often]).sum()
    assert stats.chi2(often.sum() - 1).sf(misfit) > 1e-4


def test_draws_of_huge_counts_take_no_longer() -> None:
    source = "input n : int\ndef main () = sample (hypergeometric n (n // 2) (n // 4))"
    for n in (10**12, (1 << 63) - 1):
        drawn = np.array(cuppl.model(source).importance(2000, data={"n": n}).values, dtype=float)
        spread = math.sqrt(n / 4 * 0.25 * 0.75)
        assert abs(drawn.mean() - n / 8) < 0.15 * spread
        assert drawn.std() == pytest.approx(spread, rel=0.1)


def test_gamma_draws_of_a_huge_shape_are_not_rounded() -> None:
    drawn = cuppl.model("def main () = sample (gamma 1e20 1e-20)").importance(4000)
    values = np.array(drawn.values)
    assert values.std() == pytest.approx(1e-10, rel=0.1)


def test_counts_whose_sum_overflows_have_no_probability() -> None:
    n = (1 << 63) - 1
    source = f"def main () = log_density (multinomial 0 [1.0, 1.0, 1.0, 1.0]) [{n}, {n}, 1, 1]"
    assert cuppl.model(source).importance(10).values[0] == -math.inf
    source = "def main () = log_density (multinomial 4000 [1.0, 1.0, 2.0]) [1010, 990, 2000]"
    law = stats.multinomial(4000, [0.25, 0.25, 0.5])
    found = cuppl.model(source).importance(10).values[0]
    assert found == pytest.approx(law.logpmf([1010, 990, 2000]), rel=1e-9)


@pytest.mark.parametrize("function", ["sin", "cos", "tan"])
def test_angles_beyond_precision_are_nan(function: str) -> None:
    assert math.isnan(cuppl.model(f"def main () = {function} 1e22").importance(10).values[0])
    exact = getattr(math, function)(1e8)
    assert cuppl.model(f"def main () = {function} 1e8").importance(10).values[0] == pytest.approx(
        exact, rel=1e-9
    )
