"""Break compiled kernels at random: no edit is proved for every launch that goes wrong in one.

python scripts/proof_mutants.py --seed 7               250 edits of one op, 30 of a loop's bounds
python scripts/proof_mutants.py --ops 20 --loops 4     fewer
python scripts/proof_mutants.py --summary              what the rows say, nothing run
python scripts/proof_mutants.py --write                the table in docs/protocols.md

An edit that is proved is launched with several sizes; it may survive that only for a reason which
says why no result can differ.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / p) for p in ("tests/simulate", "src")]

import numpy as np  # noqa: E402
from launches import LAUNCHES, Small  # noqa: E402
from mutations import (  # noqa: E402
    Mutant,
    bounds,
    mutants,
    mutate,
    rewired,
    sites,
    why_it_is_safe,
)
from xdsl.dialects.builtin import IntAttr, ModuleOp  # noqa: E402
from xdsl.ir import SSAValue  # noqa: E402

from tawa.base.errors import TawaError  # noqa: E402
from tawa.cli.check_sweep import Chosen, Sweep  # noqa: E402
from tawa.driver.compiled import spec_of  # noqa: E402
from tawa.hopper.dialect.structure import Role  # noqa: E402
from tawa.hopper.dialect.types import BarrierType  # noqa: E402
from tawa.simulate import check, prove  # noqa: E402
from tawa.simulate.interpret.launch import arrays_of  # noqa: E402
from tawa.simulate.interpret.limits import LimitReached, Limits  # noqa: E402

ROWS = ROOT / "benchmarks" / "results" / "proof-mutants.jsonl"
SECONDS = 30.0
"""For the proof of one edit: those of the kernels themselves take a few seconds."""
LIMITS = Limits(400, 60_000)
OTHER, UNEXPLAINED = "other numbers", "not explained"
ORDERED_TWICE = {"hopper.cta_sync", "hopper.fence_proxy_async", "hopper.wgmma_fence"}
"""Meetings and fences beside others that order the same."""
FIRST_OR_LAST = {"hopper.mbarrier_wait", "hopper.mbarrier_arrive"}
"""The first wait for a slot, which nobody has had before, and its last return, which nobody waits
for: they may name another slot, where a kernel has one tile."""
DOCUMENT = ROOT / "docs" / "protocols.md"
TABLE = re.compile(r"(?<=<!-- table: mutants -->\n).*?(?=<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Case:
    """A kernel with its options, and the launches that edits of it are held to."""

    name: str
    options: Chosen
    smalls: tuple[Small, ...]


def _half(*shape: int) -> Any:
    return np.random.default_rng(4).standard_normal(shape).astype(np.float16)


def _product(module: str, m: int, n: int, k: int, **more: Any) -> Small:
    """A product of one of the examples, with tiles of 64 x 64 x 32."""
    import importlib

    a, b, c = _half(m, k), _half(n, k), np.full((m, n), np.nan, np.float16)
    launch = importlib.import_module(module).launch
    return Small(module, lambda: launch(a, b, c, (64, 64, 32), **more))


def _attention(length: int, heads: int) -> Small:
    from attention import launch

    q, k, v = _half(3, heads, length, 64)
    return Small(
        "attention", lambda: launch(q, k, v, np.empty_like(q), causal=True, block=(64, 32))
    )


def cases() -> Iterator[Case]:
    """Rings, teams that take turns, clusters, tiles that follow each other, kept operands."""
    sizes = ((64, 64, 64), (192, 64, 160), (128, 128, 96))
    products = tuple(_product("gemm", *size) for size in sizes)
    for options in (
        {"num_stages": 3}, {"persistent": True, "num_stages": 2},
        {"persistent": True, "ping_pong": True, "num_stages": 2},
        {"cluster": 2, "num_stages": 2}, {"specialize": False},
    ):  # fmt: skip
        yield Case("gemm", options, products)
    owns = tuple(_product("persistent_gemm", *size, programs=2) for size in sizes)
    yield Case("persistent_gemm", {"num_stages": 2}, owns)
    attentions = tuple(_attention(*size) for size in ((64, 1), (128, 3)))
    yield Case("attention", {"num_stages": 2}, attentions)
    for name, options in (
        ("dual_gemm", {"num_stages": 2}), ("fused_mlp", {"num_stages": 2}),
        ("kernels/conv, windows", {}), ("gemm_layernorm", {"num_stages": 2}),
        ("stream_k", {"num_stages": 2, "staging": 1}),
    ):  # fmt: skip
        small = next(s for s in LAUNCHES if s.name == name)
        yield Case(name, {**small.fixed, **options}, (small,))


@dataclass
class Tried:
    """A case at the last level, ready to be edited."""

    case: Case
    module: ModuleOp
    sweeps: list[Sweep]

    @cached_property
    def roles(self) -> int:
        """How many roles the kernel has."""
        return sum(isinstance(op, Role) for op in self.module.walk())

    @cached_property
    def results(self) -> list[list[Any]]:
        """What the kernel itself gives, of each launch."""
        assert prove(self.module).proved, f"{self.case.name} is not proved itself"
        return [self.launched(self.module, sweep) for sweep in self.sweeps]

    def launched(self, module: ModuleOp, sweep: Sweep) -> list[Any]:
        """The arrays after a launch that is checked, on one multiprocessor."""
        given = [sweep.named[name] for name in spec_of(module).arguments]
        arrays = arrays_of(given)
        before = [a.copy() for a in arrays]
        try:
            check(module, sweep.grid, given, multiprocessors=1, schedules=1, limits=LIMITS)
            return [a.copy() for a in arrays]
        finally:
            for array, values in zip(arrays, before, strict=True):
                if array.flags.writeable:
                    array[...] = values

    def wrong(self, module: ModuleOp) -> str:
        """What goes wrong in a launch of an edited module; nothing if all go right."""
        for sweep, right in zip(self.sweeps, self.results, strict=True):
            try:
                found = self.launched(module, sweep)
            except LimitReached:
                return "stopped by a limit"
            except TawaError as error:
                return f"{type(error).__name__}: {error.message}"
            if any(a.tobytes() != b.tobytes() for a, b in zip(found, right, strict=True)):
                return OTHER
        return ""


@cache
def tried_cases() -> list[Tried]:
    """All cases, compiled."""
    found = [(case, [small.sweep() for small in case.smalls]) for case in cases()]
    return [Tried(case, sweeps[0].module(case.options), sweeps) for case, sweeps in found]


def drawn(tried: Sequence[Tried], ops: int, loops: int, seed: int) -> list[tuple[int, Mutant]]:
    """Edits of all cases, as many of one op and of one loop's bounds as asked for."""
    choice = random.Random(seed)
    single = [(n, m) for n, t in enumerate(tried) for m in [*mutants(t.module), *rewired(t.module)]]
    unequal = [(n, m) for n, t in enumerate(tried) for m in bounds(t.module)]
    chosen = choice.sample(single, min(ops, len(single)))
    return chosen + choice.sample(unequal, min(loops, len(unequal)))


def found_of(number: int, mutant: Mutant) -> dict[str, Any]:
    """A row: whether an edit of a case is proved, and then what its launches say."""
    tried = tried_cases()[number]
    broken = mutate(tried.module, mutant)
    begin = time.process_time()
    proof = prove(broken, SECONDS)
    row = {"kernel": tried.case.name, "options": tried.case.options, "edit": str(mutant),
           "proved": proof.proved, "seconds": round(time.process_time() - begin, 1)}  # fmt: skip
    if not proof.proved:
        return {**row, "why": proof.why[:160]}
    found = tried.wrong(broken) or "survives"
    return {**row, "launches": found, "why": why(tried, mutant, found)}


def why(tried: Tried, mutant: Mutant, found: str) -> str:
    """Why an edit that is proved gives no other result, or what else finds it."""
    known = why_it_is_safe(mutant, "wrong numbers" if found == OTHER else found)
    if known is not None:
        return known
    if mutant.op == "scf.for" and found == OTHER and tried.roles == 1:
        return "one role alone"
    if found == "survives" and mutant.kind in ("earlier", "later"):
        return "orders nothing there"
    if found == "survives" and mutant.kind == "delete" and mutant.op in ORDERED_TWICE:
        return "redundant"
    if found == "survives" and mutant.op in FIRST_OR_LAST:
        return "nobody waits"
    if found == "survives" and mutant.op == "hopper.mbarrier_init" and _waited_first(tried, mutant):
        return "nobody waits"
    return UNEXPLAINED


def _waited_first(tried: Tried, mutant: Mutant) -> bool:
    """Whether a barrier of one slot is waited for once: a launch that goes on found it passed.

    Then nobody had had the slot before, and whoever returns it returns it to nobody.
    """
    barrier: SSAValue = sites(tried.module)[mutant.number].operands[0]
    users = [use.operation for use in barrier.uses]
    waits = [op for op in users if op.name == "hopper.mbarrier_wait"]
    once = len(waits) == 1 and isinstance(waits[0].parent_op(), Role)
    return once and barrier.type == BarrierType(IntAttr(1))


def counted(rows: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """Why edits are proved: the reason, which edits, and how many."""
    proved = [row for row in rows if row["proved"]]
    edits: dict[str, set[str]] = {}
    for row in proved:
        edits.setdefault(row["why"], set()).add(row["edit"].rpartition(" #")[0])
    counts = Counter(row["why"] for row in proved)
    return [(reason, ", ".join(sorted(edits[reason])), counts[reason]) for reason in sorted(edits)]


def summary(rows: list[dict[str, Any]]) -> str:
    """How many are proved, and why that is no mistake."""
    head = f"{len(rows)} edits, {sum(row['proved'] for row in rows)} proved for every launch"
    lines = [f"{count:4} {reason}: {edits}" for reason, edits, count in counted(rows)]
    lines += [json.dumps(row) for row in rows if row["why"] == UNEXPLAINED]
    return "\n".join([head, *lines])


def table(rows: list[dict[str, Any]]) -> str:
    """The same as a table of docs/protocols.md."""
    lines = ["| why | proved | which |", "|---|---|---|"]
    lines += [f"| {reason} | {n} | {edits.replace('hopper.', '')} |"
              for reason, edits, n in counted(rows)]  # fmt: skip
    lines += [f"| not proved | {sum(not row['proved'] for row in rows)} | |"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Draw, try, and keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, default=250, help="edits of one op")
    parser.add_argument("--loops", type=int, default=30, help="edits of one loop's bounds")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--summary", action="store_true", help="of the rows that are kept")
    parser.add_argument("--write", action="store_true", help="them into docs/protocols.md")
    chosen = parser.parse_args()
    if not chosen.summary and not chosen.write:
        edits = drawn(tried_cases(), chosen.ops, chosen.loops, chosen.seed)
        with ROWS.open("w") as file, ProcessPoolExecutor(chosen.jobs) as pool:
            for row in pool.map(found_of, *zip(*edits, strict=True)):
                print(json.dumps({"seed": chosen.seed, **row}), file=file, flush=True)
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    if chosen.write:
        DOCUMENT.write_text(TABLE.sub(lambda _: table(rows), DOCUMENT.read_text(), count=1))
    print(summary(rows))


if __name__ == "__main__":
    main()
