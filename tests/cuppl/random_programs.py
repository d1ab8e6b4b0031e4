"""Random programs of finite choices, and what must hold for each of them.

Eight particles at once give the bits of one after the other, with and without resampling;
importance sampling, SMC and enumeration agree. Run it for more programs than a test has time for:
`python tests/cuppl/random_programs.py FIRST COUNT`.
"""

from __future__ import annotations

import random
import sys
import warnings

import numpy as np

from tawa import cuppl
from tawa.cuppl.cpu import executable as ex
from tawa.cuppl.inference.importance import run_importance
from tawa.cuppl.inference.settings import Limits
from tawa.cuppl.inference.smc import SmcRun, run_smc
from tawa.cuppl.lowering.pipeline import lower
from tawa.cuppl.typing.failures import FAILURES
from tawa.functional.errors import FunctionalError

SIGMAS = 6.0
PARTICLES = 4000
Outcome = dict[object, float] | str


class Writer:
    """Writes an expression of a type, given the names of each type that are in scope."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.choices = 0

    def pick(self, *texts: str) -> str:
        """One of some texts."""
        return self.random.choice(texts)

    def fresh(self) -> str:
        """A new name."""
        self.count += 1
        return f"v{self.count}"

    def known(self, scope: dict[str, str], type_: str) -> str | None:
        """A name of a type."""
        names = [name for name, kind in scope.items() if kind == type_]
        return self.random.choice(names) if names else None

    def write(self, type_: str, scope: dict[str, str], depth: int) -> str:
        """An expression."""
        name = self.known(scope, type_)
        if depth <= 0 or (name is not None and self.random.random() < 0.2):
            return name or self.constant(type_)
        kind = self.random.random()
        if kind < 0.2:
            return self.bound(type_, scope, depth)
        if kind < 0.35:
            test, yes, no = (self.write(t, scope, depth - 1) for t in ("bool", type_, type_))
            return f"(if {test} then {yes} else {no})"
        return {"int": self.integer, "bool": self.truth, "float": self.real}[type_](scope, depth)

    def constant(self, type_: str) -> str:
        """A literal."""
        if type_ == "int":
            return str(self.random.randint(0, 4))
        return self.pick("true", "false") if type_ == "bool" else f"{self.random.random():.3f}"

    def bound(self, type_: str, scope: dict[str, str], depth: int) -> str:
        """`let`, a function, or an effect before an expression."""
        name, other = self.fresh(), self.pick("int", "bool", "float")
        kind = self.random.random()
        if kind < 0.25:
            weight = self.pick(
                f"condition ({self.write('bool', scope, depth - 1)} || flip 0.5)",
                f"factor (0.0 - {self.write('float', scope, depth - 1)})",
                f"observe (bernoulli 0.3) {self.write('bool', scope, depth - 1)}",
            )
            return f"(let () = {weight} in {self.write(type_, scope, depth - 1)})"
        value = self.write(other, scope, depth - 1)
        if kind < 0.75:
            return f"(let {name} = {value} in {self.write(type_, {**scope, name: other}, depth)})"
        given = self.fresh()
        body = self.write(type_, {**scope, given: other}, depth - 1)
        return f"(let {name} {given} = {body} in {name} {value})"

    def integer(self, scope: dict[str, str], depth: int) -> str:
        """Arithmetic, draws, vectors, recursion."""
        a, b = (self.write("int", scope, depth - 1) for _ in range(2))
        x = self.write("float", scope, depth - 1)
        index, total = self.fresh(), self.fresh()
        inner = self.write("int", {**scope, index: "int", total: "int"}, depth - 2)
        plain = [
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} % ({b} * {b} + 1))",
            f"({a} // ({b} * {b} + 1))", f"(min {a} {b})", f"(abs {a})", f"(floor (3.0 * {x}))",
            f"([{a}, {b}, 1].[abs {a} % 3])", f"(sum (map (fn {index} -> {index} + 1) [{a}, {b}]))",
            f"(range_fold (fn {total} {index} -> ({inner}) % 7) {a} (abs {b} % 3))",
            f"(list_fold (fn {total} {index} -> {total} - {index}) {a} (Cons ({b}, Nil)))",
            f"(down {a} ({b}))",
        ]  # fmt: skip
        if self.choices < 5 and self.random.random() < 0.5:
            self.choices += 1
            return self.pick(
                "(sample (uniform_int 0 2))", f"(sample (categorical [0.2, abs {x}, 0.5, 0.0]))",
                f"(sample (binomial 2 (sigmoid {x})))",
            )  # fmt: skip
        return self.random.choice(plain)

    def truth(self, scope: dict[str, str], depth: int) -> str:
        """Comparisons, logic, coins."""
        a, b = (self.write("int", scope, depth - 1) for _ in range(2))
        p, q = (self.write("bool", scope, depth - 1) for _ in range(2))
        x, y = (self.write("float", scope, depth - 1) for _ in range(2))
        if self.choices < 6 and self.random.random() < 0.5:
            self.choices += 1
            return f"(flip (sigmoid {x}))"
        return self.pick(
            f"({a} < {b})", f"({a} == {b})", f"({p} && {q})", f"({p} || {q})", f"(not {p})",
            f"({x} < {y})", f"({p} == {q})", f"(({a}, {p}) == ({b}, {q}))",
        )  # fmt: skip

    def real(self, scope: dict[str, str], depth: int) -> str:
        """Bounded floats."""
        a = self.write("int", scope, depth - 1)
        x, y = (self.write("float", scope, depth - 1) for _ in range(2))
        return self.pick(
            f"(sigmoid ({x} - {y}))", f"(0.5 * ({x} + {y}))", f"(tanh (float {a}))", f"(sin {x})",
            f"(max {x} {y} * 0.9)", f"(exp (0.0 - abs {x}))",
        )  # fmt: skip


def program(seed: int) -> str:
    """A program."""
    writer = Writer(seed)
    parts = [writer.write(kind, {}, 4) for kind in ("int", "bool")]
    down = "def down n z = if n < 1 then z else if n > 4 then down 4 z else down (n - 1) (z + 1)"
    return f"{down}\ndef main () =\n  let r = {parts[0]} in\n  let s = {parts[1]} in\n  (r, s)"


def alone(model: cuppl.Model, lanes: bool) -> SmcRun:
    """A run of likelihood weighting, eight particles at once or not."""
    executable = ex.Executable.build(lower(model.elaborated, False), lanes=lanes)
    workers, _block = model.workers(None, 1)
    return run_importance(executable, workers, 200, 7, Limits())


def filtered(model: cuppl.Model, lanes: bool) -> SmcRun | str:
    """A run of SMC that resamples often, eight particles at once or not; or why it failed."""
    executable = ex.Executable.build(lower(model.elaborated, True), lanes=lanes)
    if executable.lowered.machine is None:
        return "no weights"
    workers, _block = model.workers(None, 1)
    try:
        return run_smc(executable, workers, 203, 7, 0.9, Limits())
    except FunctionalError as error:
        return str(error)


def same(one: SmcRun | str, other: SmcRun | str) -> bool:
    """Whether two runs have the same bits, or failed alike."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return np.array_equal(one.results, other.results) and np.array_equal(
        one.log_weights, other.log_weights
    )


def outcome(source: str, method: str) -> tuple[Outcome, float]:
    """The probability of each result (or the error's name), and the effective sample size."""
    try:
        model = cuppl.model(source)
        if method == "enumerate":
            return dict(model.enumerate(max_paths=200_000).probabilities()), np.inf
        found = getattr(model, method)(PARTICLES, seed=11)
        return dict(found.probabilities()), found.ess
    except FunctionalError as error:
        return type(error).__name__, 0.0


RUNTIME = {kind.__name__ for kind, _ in FAILURES.values()}


def problems(source: str) -> list[str]:
    """What is wrong with the answers for a program."""
    exact, _ = outcome(source, "enumerate")
    out: list[str] = []
    for method in ("importance", "smc"):
        found, size = outcome(source, method)
        if isinstance(exact, str) or isinstance(found, str):
            # Enumeration meets every failure, sampling only those that are probable.
            known = exact in RUNTIME and (exact == found or not isinstance(found, str))
            out += [] if known else [f"{method}: {found} where enumeration has {exact}"]
            continue
        for value in {*exact, *found}:
            p, q = exact.get(value, 0.0), found.get(value, 0.0)
            if abs(p - q) > SIGMAS * np.sqrt((p * (1.0 - p) + 1.0 / size) / size):
                out.append(f"{method}: {value} has {q}, not {p}")
    if isinstance(exact, str):
        return out
    model = cuppl.model(source)
    for run in (alone, filtered):
        if not same(run(model, True), run(model, False)):
            out.append(f"{run.__name__}: together, particles have other bits than one by one")
    return out


def main(first: int, count: int) -> None:
    """Try programs; print those that are wrong."""
    warnings.simplefilter("ignore")
    wrong = 0
    for seed in range(first, first + count):
        source = program(seed)
        for problem in problems(source):
            wrong += 1
            print(f"seed {seed}: {problem}\n{source}\n", flush=True)
    print(f"{count} programs, {wrong} problems")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
