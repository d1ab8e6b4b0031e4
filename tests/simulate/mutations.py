"""Random edits of one synchronisation op of a compiled kernel, and what the checker says of each."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation

from tawa.base.errors import TawaError
from tawa.ir.elementwise import Map
from tawa.simulate import check
from tawa.simulate.interpret.errors import ProtocolError
from tawa.simulate.interpret.limits import Limits

SYNCHRONISATION = (
    "hopper.mbarrier_wait", "hopper.mbarrier_arrive", "hopper.mbarrier_expect",
    "hopper.mbarrier_init", "hopper.tma_load", "hopper.tma_store", "hopper.fence_proxy_async",
    "hopper.named_barrier_sync", "hopper.bulk_wait_read", "hopper.bulk_commit",
    "hopper.wgmma_fence", "hopper.wgmma_commit", "hopper.wgmma_wait", "hopper.cta_sync",
    "hopper.fence_barrier_init",
)  # fmt: skip
COUNTS = {
    "hopper.mbarrier_expect": "bytes", "hopper.mbarrier_init": "arrivals",
    "hopper.bulk_wait_read": "pending", "hopper.wgmma_wait": "pending",
    "hopper.named_barrier_sync": "threads",
}  # fmt: skip


LEAST = {"hopper.mbarrier_init": 1, "hopper.named_barrier_sync": 32, "hopper.mbarrier_expect": 32}
"""Counts that cannot be less."""


def _count_of(op: Operation) -> int:
    found = op.properties[COUNTS[op.name]]
    assert isinstance(found, IntegerAttr)
    return found.value.data


@dataclass(frozen=True)
class Mutant:
    """One edit of the `number`-th synchronisation op."""

    kind: str
    op: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind} {self.op} #{self.number}"


def sites(module: ModuleOp) -> list[Operation]:
    """The synchronisation ops."""
    return [op for op in module.walk() if op.name in SYNCHRONISATION]


def mutants(module: ModuleOp) -> list[Mutant]:
    """Every edit there is."""
    found: list[Mutant] = []
    for number, op in enumerate(sites(module)):
        kinds = ["delete", "duplicate"]
        kinds += ["phase"] if op.name == "hopper.mbarrier_wait" else []
        kinds += ["slot"] if getattr(op, "slot", None) is not None else []
        if op.name in COUNTS:
            kinds += ["more", "less"] if _count_of(op) > LEAST.get(op.name, 0) else ["more"]
        found += [Mutant(kind, op.name, number) for kind in kinds]
    return found


def mutate(module: ModuleOp, mutant: Mutant) -> ModuleOp:
    """A copy of the module with the edit made."""
    module = module.clone()
    EDITS[mutant.kind](sites(module)[mutant.number])
    return module


def _delete(op: Operation) -> None:
    values = list(getattr(op, "values", ()))
    for result, value in zip(op.results, values, strict=False):
        result.replace_all_uses_with(value)
    op.detach()
    op.erase()


def _duplicate(op: Operation) -> None:
    assert op.parent is not None
    if op.results:  # a wait of registers: the second one waits for none
        return
    op.parent.insert_op_after(op.clone(), op)


def _replaced(op: Operation, name: str, function: str) -> None:
    """An operand plus, or exclusive or, 1."""
    value = getattr(op, name)
    assert op.parent is not None
    one = arith.ConstantOp(IntegerAttr(1, value.type))
    new = Map(function, [value, one.result])
    op.parent.insert_ops_before([one, new], op)
    op.operands[list(op.operands).index(value)] = new.result


def _count(change: Callable[[int], int]) -> Callable[[Operation], None]:
    def edit(op: Operation) -> None:
        old = op.properties[COUNTS[op.name]]
        assert isinstance(old, IntegerAttr)
        op.properties[COUNTS[op.name]] = IntegerAttr(change(_count_of(op)), old.type)

    return edit


EDITS: dict[str, Callable[[Operation], None]] = {
    "delete": _delete,
    "duplicate": _duplicate,
    "phase": lambda op: _replaced(op, "parity", "xori"),
    "slot": lambda op: _replaced(op, "slot", "addi"),
    "more": _count(lambda n: n + (32 if n >= 32 else 1)),
    "less": _count(lambda n: n - (32 if n >= 32 else 1)),
}


def verdict(module: ModuleOp, grid: Any, arguments: Any, right: Callable[[], bool]) -> str:
    """`caught by NAME`, `wrong numbers`, `survives`, or `unsure`."""
    try:
        report = check(
            module, grid, arguments, multiprocessors=1, schedules=0, limits=Limits(3000, 60_000)
        )
    except ProtocolError as error:
        return f"caught by {type(error).__name__}"
    except (TawaError, ValueError, KeyError) as error:
        return f"caught by {type(error).__name__}"
    if report.cut:
        return "caught by a limit"
    if not report.proved and not report.one_order:
        return "unsure: neither proved nor ordered"
    return "survives" if right() else "wrong numbers"


def sample(found: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Some of the mutants."""
    return random.Random(seed).sample(found, min(count, len(found)))


def same(c: np.ndarray, reference: np.ndarray) -> bool:
    """Whether the numbers are right."""
    return bool(np.linalg.norm(c - reference) < 1e-2 * np.linalg.norm(reference))
