"""CuPPL beside its peers on this machine's CPU, in one run.

    python benchmarks/cuppl.py [--webppl FOLDER] [--peers PYTHON] [--sizes 1000,10000]
    python benchmarks/cuppl.py --write docs/cuppl.md   # rewrite the document's tables from the rows

The birth-death model against a bootstrap filter written by hand in C (compiled here with gcc) and,
if `--webppl` names a folder for npm to install it in, WebPPL. With `--peers`, a Python that has
them: NumPyro's NUTS on a regression and GenJAX's importance sampling of a curve (programs that have
a fixed number of choices). Times are processor seconds, so that other work on the machine counts
less; start-up is measured by itself. What two threads gain is a matter of wall time, which other
work falsifies: a row has the machine's load beside it, and two runs of the filter in C at once, in
processes of their own, say what two cores can give. One JSON object a row in `results/cuppl.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from cuppl_cases import CURVE, EXAMPLES, LOG_Z, birth_death, crbd, epidemic
from cuppl_tables import PLACE, RESULTS, Row, made, milliseconds, read, table
from rows import commit

from tawa import cuppl

HERE = Path(__file__).parent
SEEDS = (1, 2, 3)
LINE = """
input xs : vector[float]
input ys : vector[float]
def main () =
  let a = sample (normal 0 1) in
  let b = sample (normal 0 1) in
  let s = sample (gamma 2 0.5) in
  iter (fn (x, y) -> observe (normal (a + b * x) s) y) (zip xs ys);
  (a, b, s)
"""


class Rows:
    """The rows of one run."""

    def __init__(self) -> None:
        self.all: list[Row] = []
        self.run = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
        self.shared: Row = {
            "run": self.run, "suite": "cuppl", "device": processor(), "commit": commit(),
            "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "versions": {p: metadata.version(p) for p in ("llvmlite", "numpy")},
        }  # fmt: skip

    def add(self, case: Row, impl: str, seconds: list[float], **more: Any) -> None:
        """Write a row, and a line for people."""
        row: Row = {**self.shared, "case": case, "impl": impl}
        if seconds:
            ms = [1000 * s for s in seconds]
            row |= {
                "ms": round(statistics.median(ms), 3), "ms_min": round(min(ms), 3),
                "ms_max": round(max(ms), 3), "reps": len(ms),
            }  # fmt: skip
        row |= {"load": round(os.getloadavg()[0], 1), **more}
        self.all.append(row)
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        shown = f"{min(seconds):10.4f} s" if seconds else f"{more.get('error_text', '')}"
        print(f"{json.dumps(case):60} {impl:22} {shown}", flush=True)

    def of(self, model: str) -> list[Row]:
        """Our own rows of a model so far."""
        return [r for r in self.all if r["impl"] == "tawa" and r["case"]["model"] == model]


def processor() -> str:
    """The CPU's name."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.split(": ", 1)[1] for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(names)} cores"


def spent(work: Callable[[], Any], children: bool = False) -> tuple[float, Any]:
    """Processor seconds of this process (or of the processes that it waits for)."""
    who = resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF
    before = resource.getrusage(who)
    found = work()
    after = resource.getrusage(who)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, found


def tawa_and_c(rows: Rows, sizes: list[int]) -> None:
    """The two in turn: A B A B."""
    data = birth_death()
    text = "\n".join(f"{p} {a} {int(x)}" for p, a, x in data["crbd_branches"]["branches"])
    with tempfile.TemporaryDirectory() as folder:
        binary = c_filter(Path(folder))
        for name in ("crbd_branches", "crbd"):
            model = cuppl.load(EXAMPLES / f"{name}.ppl")
            model.smc(100, data=data[name], threads=1)
            for n in sizes:
                turns(rows, model, name, data[name], n, binary, text)
        if binary is not None:
            two_at_once(rows, binary, text)
    model = cuppl.load(EXAMPLES / "sir.ppl")
    days = epidemic()
    model.smc(100, data=days, threads=1)
    once = [
        spent(lambda s=s: model.smc(1000, data=days, seed=s, threads=1, ess_threshold=1.0))[0]
        for s in SEEDS
    ]
    rows.add({"model": "sir", "particles": 1000, "threads": 1}, "tawa", once)


def c_filter(folder: Path) -> Path | None:
    """The filter in C, compiled; None without a compiler."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    binary = folder / "filter"
    flags = ["-O3", "-march=native", "-o", str(binary), str(HERE / "crbd_filter.c"), "-lm"]
    subprocess.run([compiler, *flags], check=True)
    return binary


def turns(
    rows: Rows, model: cuppl.Model, name: str, data: Row, n: int, binary: Path | None, text: str
) -> None:
    """Rounds of all in turn: one and two threads, and C.

    The least of each seed is kept, and their mean is shown: how much work a run of few particles is
    depends on its draws, which are not the same ones in C.
    """
    best: dict[str, dict[int, float]] = {"1": {}, "2": {}, "c": {}}
    walls: dict[int, list[float]] = {1: [], 2: []}

    def note(kind: str, seed: int, seconds: float) -> None:
        best[kind][seed] = min(best[kind].get(seed, math.inf), seconds)

    seeds = range(1, 1 + max(4, 10_000 // n))
    for _ in range(5 if n < 5000 else 3):
        for seed in seeds:
            for threads in (1, 2):
                start = time.perf_counter()
                seconds, _found = spent(
                    lambda s=seed, t=threads: model.smc(
                        n, data=data, seed=s, threads=t, ess_threshold=1.0
                    )
                )
                walls[threads].append(time.perf_counter() - start)
                note(str(threads), seed, seconds)
            if binary is not None and name == "crbd_branches":
                command = [str(binary), str(n), str(seed), str(crbd.RHO)]
                done = subprocess.run(command, input=text, text=True, capture_output=True)
                note("c", seed, float(done.stdout.split()[1]))
    for threads in (1, 2):
        case = {"model": name, "particles": n, "threads": threads}
        rows.add(case, "tawa", **of_seeds(best[str(threads)]), **wall(walls[threads]))
    if best["c"]:
        case = {"model": name, "particles": n, "threads": 1}
        rows.add(case, "c", **of_seeds(best["c"]))


def of_seeds(found: dict[int, float]) -> Row:
    """Seconds of each seed, and their mean."""
    seconds = list(found.values())
    return {"seconds": seconds, "ms_mean": round(1000 * statistics.mean(seconds), 3)}


def wall(seconds: list[float]) -> Row:
    """The least and the median wall time of some runs."""
    ms = [1000 * s for s in seconds]
    return {"ms_wall": round(min(ms), 2), "ms_wall_median": round(statistics.median(ms), 2)}


def two_at_once(rows: Rows, binary: Path, text: str, n: int = 50_000) -> None:
    """The filter in C once, and twice at once in two processes: what two cores can give."""
    command = [str(binary), str(n), "1", str(crbd.RHO)]
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(3):
        for count, found in times.items():
            start = time.perf_counter()
            running = [
                subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
                )
                for _process in range(count)
            ]  # fmt: skip
            for process in running:
                assert process.stdin is not None
                process.stdin.write(text)
                process.stdin.close()
            for process in running:
                process.wait()
            found.append(time.perf_counter() - start)
    for count, found in times.items():
        case = {"model": "crbd_branches", "particles": n, "processes at once": count}
        rows.add(case, "c", [], **wall(found))


COMPILE = """
import sys, time; start = time.process_time()
from tawa import cuppl; loaded = time.process_time()
cuppl.model(sys.stdin.read()).executable(suspend=True)
print(loaded - start, time.process_time() - loaded)
"""


def compiled(source: str, cache: str, bytecode: str) -> tuple[float, float]:
    """Processor seconds of importing, and of compiling a program in a new process.

    Python's bytecode is kept in a folder, as that of an installed package is.
    """
    environment = {**os.environ, "TAWA_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], input=source, capture_output=True, text=True, check=True,
        env=environment,
    )  # fmt: skip
    load, work = done.stdout.split()
    return float(load), float(work)


def compile_times(rows: Rows) -> None:
    """From a program's text to machine code: in a new installation, for a new program, and again.

    The first compiles the natives too, which programs share; the last finds all code on disk.
    """
    with tempfile.TemporaryDirectory() as bytecode:
        with tempfile.TemporaryDirectory() as cache:
            compiled("def main () = factor 1.0", cache, bytecode)
        for name in ("crbd_branches", "crbd", "sir"):
            times_of(rows, name, bytecode)


def times_of(rows: Rows, name: str, bytecode: str) -> None:
    """Those of one program."""
    source = (EXAMPLES / f"{name}.ppl").read_text()
    found: dict[str, list[float]] = {"first": [], "new": [], "again": [], "import": []}
    for turn in range(3):
        with tempfile.TemporaryDirectory() as cache:
            found["first"].append(compiled(source, cache, bytecode)[1])
            other = f"{source}\ndef unused{turn} () = {turn}\n".replace("1.0", f"1.0{turn + 1}")
            found["new"].append(compiled(other, cache, bytecode)[1])
            load, again = compiled(other, cache, bytecode)
            found["again"].append(again)
            found["import"].append(load)
    rows.add({"model": name, "what": "import"}, "tawa", found["import"])
    rows.add({"model": name, "what": "compile, nothing known"}, "tawa", found["first"])
    rows.add({"model": name, "what": "compile, natives known"}, "tawa", found["new"])
    rows.add({"model": name, "what": "compile, program known"}, "tawa", found["again"])


def webppl(rows: Rows, folder: Path, sizes: list[int]) -> None:
    """WebPPL; its start-up is the time of one particle. Work depends on draws: a mean of runs."""
    program = folder / "node_modules" / ".bin" / "webppl"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--prefix", str(folder), "webppl@0.9.15"], check=True)
    branches = birth_death()["crbd_branches"]["branches"]
    leaves = sum(leaf for _, _, leaf in branches)
    prefactor = (leaves - 1) * math.log(2.0) - math.lgamma(leaves + 1.0)

    def run(n: int) -> tuple[float, float]:
        head = (
            f"var branches = {json.dumps(branches)}; var rho = {crbd.RHO};"
            f"var prefactor = {prefactor}; var particles = {n};\n"
        )
        source = folder / "crbd.wppl"
        source.write_text(head + (HERE / "crbd.wppl").read_text())
        command = [str(program), str(source)]
        seconds, done = spent(
            lambda: subprocess.run(command, capture_output=True, text=True, check=True), True
        )
        return seconds, float(done.stdout.split()[0].replace("-Infinity", "-inf"))

    start = min(run(1)[0] for _ in range(2))
    rows.add({"model": "crbd_branches", "what": "start-up"}, "webppl", [start])
    compiling = min(webppl_compiles(folder) for _ in range(3))
    rows.add({"model": "crbd_branches", "what": "compile"}, "webppl", [compiling])
    ours = {row["case"].get("what"): row["ms_min"] / 1000 for row in rows.of("crbd_branches")}
    for n in sizes:
        runs = [run(n) for _ in range(max(1, 5000 // n))]
        seconds, evidence = sum(s for s, _ in runs) / len(runs), runs[0][1]
        case = {"model": "crbd_branches", "particles": n, "threads": 1}
        rows.add(case, "webppl", [seconds - start], log_evidence=evidence)
        (tawa,) = (milliseconds(r) / 1000 for r in rows.of("crbd_branches") if r["case"] == case)
        both = {**case, "with": "compiling"}
        rows.add(both, "tawa", [tawa + ours["compile, natives known"]])
        rows.add({**both, "program": "known"}, "tawa", [tawa + ours["compile, program known"]])
        rows.add(both, "webppl", [seconds - start + compiling])


def webppl_compiles(folder: Path) -> float:
    """Processor seconds of WebPPL's compiler on the model, in a process that has loaded it."""
    script = (
        f"const w = require({json.dumps(str(folder / 'node_modules/webppl/src/main.js'))});"
        f"const t = require('fs').readFileSync({json.dumps(str(folder / 'crbd.wppl'))}, 'utf8');"
        "const start = process.cpuUsage(); w.compile(t); const used = process.cpuUsage(start);"
        "console.log((used.user + used.system) / 1e6)"
    )
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    return float(done.stdout)


NUMPYRO = """
import json, sys, time
import jax, numpyro, numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
numpyro.enable_x64()
data = json.loads(sys.stdin.read())
xs, ys = (jax.numpy.array(data[k]) for k in ("xs", "ys"))
def model():
    a = numpyro.sample("a", dist.Normal(0, 1)); b = numpyro.sample("b", dist.Normal(0, 1))
    s = numpyro.sample("s", dist.Gamma(2, 2))
    numpyro.sample("y", dist.Normal(a + b * xs, s), obs=ys)
mcmc = MCMC(NUTS(model), num_warmup=1000, num_samples=1000, progress_bar=False)
found = []
for seed in (1, 2, 3):
    begin = time.process_time(); mcmc.run(jax.random.PRNGKey(seed))
    mean = float(mcmc.get_samples()["b"].mean()); found.append(time.process_time() - begin)
print(json.dumps({"seconds": found, "mean": mean, "version": numpyro.__version__}))
"""


def numpyro(rows: Rows, python: str) -> None:
    """NUTS on a regression with 50 points: 1000 draws after 1000 to warm up, one chain."""
    import numpy as np

    random = np.random.default_rng(1)
    xs = random.normal(size=50)
    data = {"xs": xs.tolist(), "ys": (0.5 + 1.5 * xs + 0.3 * random.normal(size=50)).tolist()}
    model = cuppl.model(LINE)
    case = {"model": "regression", "method": "nuts", "draws": 1000}
    first, _ = spent(lambda: model.nuts(10, warm_up=10, chains=1, data=data))
    times = [spent(lambda s=s: model.nuts(1000, chains=1, data=data, seed=s)) for s in SEEDS]
    mean = times[-1][1].mean("b")
    rows.add(case, "tawa", [t for t, _ in times], seconds_to_compile=round(first, 2), mean=mean)
    done = subprocess.run(
        [python, "-c", NUMPYRO], input=json.dumps(data), capture_output=True, text=True
    )
    if done.returncode:
        rows.add(case, "numpyro", [], error_text=done.stderr.strip().splitlines()[-1])
        return
    found = json.loads(done.stdout)
    rows.add(
        case, "numpyro", found["seconds"][1:], mean=found["mean"],
        seconds_to_compile=round(found["seconds"][0] - min(found["seconds"][1:]), 2),
        peer_version=found["version"],
    )  # fmt: skip


GENJAX = """
import json, sys, time
import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
from genjax import const, gen, normal, seed
from genjax.inference import init
from importlib.metadata import version
data = json.loads(sys.stdin.read())
xs, ys = jnp.array(data["xs"]), jnp.array(data["ys"])
@gen
def point(x, a, b, c):
    return normal(a + b * x + c * x * x, 0.5) @ "y"
@gen
def curve(xs):
    a = normal(0.0, 1.0) @ "a"
    b = normal(0.0, 1.0) @ "b"
    c = normal(0.0, 1.0) @ "c"
    return point.vmap(in_axes=(0, None, None, None))(xs, a, b, c) @ "ys"
def run(xs, ys):
    found = init(curve, (xs,), const(data["particles"]), {"ys": {"y": ys}})
    weights = jax.nn.softmax(found.log_weights)
    return found.log_marginal_likelihood(), (weights * found.traces.get_choices()["b"]).sum()
step, found = jax.jit(seed(run)), []
for k in range(10):
    begin = time.process_time()
    for i in range(data["repeats"]):
        evidence, mean = map(float, step(jax.random.key(k + 10 * i), xs, ys))
    found.append((time.process_time() - begin) / data["repeats"])
found = {"seconds": found, "mean": mean, "evidence": evidence, "version": version("genjax")}
print(json.dumps(found))
"""


def genjax(rows: Rows, python: str) -> None:
    """Likelihood weighting of a parabola through 50 points, with the mean and the evidence."""
    import numpy as np

    random = np.random.default_rng(1)
    xs = random.normal(size=50)
    ys = 0.3 - 0.7 * xs + 0.4 * xs * xs + 0.5 * random.normal(size=50)
    data = {"xs": xs.tolist(), "ys": ys.tolist()}
    model = cuppl.model(CURVE.replace("NOISE", "0.5"))
    model.importance(100, data=data)
    for n in (10_000, 100_000):
        case = {"model": "curve", "method": "importance", "particles": n, "threads": 1}

        repeats = 200_000 // n  # a few milliseconds are too few for the kernel's clock

        def often(seed: int, n: int = n, repeats: int = repeats) -> tuple[float, float]:
            for i in range(repeats):
                posterior = model.importance(n, data=data, seed=seed + 10 * i, threads=1)
                found = posterior.mean("b"), posterior.log_evidence
            return found

        times = [spent(lambda s=s: often(s)) for s in range(10)]
        mean, evidence = times[-1][1]
        rows.add(case, "tawa", [t / repeats for t, _ in times], mean=mean, log_evidence=evidence)
        done = subprocess.run(
            [python, "-c", GENJAX], text=True, capture_output=True,
            input=json.dumps({**data, "particles": n, "repeats": repeats}),
        )  # fmt: skip
        if done.returncode:
            rows.add(case, "genjax", [], error_text=done.stderr.strip().splitlines()[-1])
            return
        found = json.loads(done.stdout)
        rows.add(
            case, "genjax", found["seconds"][1:], mean=found["mean"],
            log_evidence=found["evidence"], peer_version=found["version"],
        )  # fmt: skip


def main() -> None:
    """Measure, or rewrite documents."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--webppl", type=Path, help="folder of an npm installation")
    parser.add_argument("--peers", help="a Python (3.12 or later) with numpyro and genjax")
    parser.add_argument("--sizes", default="1000,10000")
    parser.add_argument("--write", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    if options.write:
        for path in options.write:
            path.write_text(PLACE.sub(made, path.read_text()))
        return
    warnings.simplefilter("ignore", cuppl.InferenceWarning)
    sizes = [int(n) for n in options.sizes.split(",")]
    rows = Rows()
    print(f"{processor()}; exact log evidence {LOG_Z}; load {os.getloadavg()[0]:.1f}")
    compile_times(rows)
    tawa_and_c(rows, sizes)
    if options.peers:
        numpyro(rows, options.peers)
        genjax(rows, options.peers)
    if options.webppl is not None:
        webppl(rows, options.webppl, sizes)
    print(table(read()))


if __name__ == "__main__":
    main()
