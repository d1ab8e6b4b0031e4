"""Random edits of one synchronisation op of a compiled kernel, and what the checker says of each."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation, SSAValue

from tawa.base.errors import TawaError
from tawa.hopper.dialect.structure import Barriers
from tawa.hopper.dialect.types import BarrierType
from tawa.ir.elementwise import Map
from tawa.simulate import check
from tawa.simulate.interpret.errors import ProtocolError
from tawa.simulate.interpret.launch import kernel_of, spec_of
from tawa.simulate.interpret.limits import Limits
from tawa.simulate.prove.code import Slice
from tawa.tile.analysis.zero import scalar_constant

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
    if mutant.kind in BOUNDS:
        BOUNDS[mutant.kind](loops(module)[mutant.number])
    else:
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


def _neighbour(op: Operation, way: str) -> Operation | None:
    """The next synchronisation op of its block, that way, with which it can change places."""
    found = getattr(op, way)
    while found is not None and found.name not in SYNCHRONISATION:
        found = getattr(found, way)
    if found is None or op.results:
        return None
    own = [v.owner for v in op.operands if isinstance(v.owner, Operation)]
    return found if way == "next_op" or all(_before(o, found) for o in own) else None


def _before(op: Operation, other: Operation) -> bool:
    """Whether an op that dominates a neighbour of another one dominates that one, too."""
    return op.parent is not other.parent or op.is_before_in_block(other)


def _moved(way: str) -> Callable[[Operation], None]:
    def edit(op: Operation) -> None:
        to = _neighbour(op, way)
        assert to is not None
        assert to.parent is not None
        op.detach()
        (to.parent.insert_op_after if way == "next_op" else to.parent.insert_op_before)(op, to)

    return edit


def _rows_beside(op: Operation) -> list[SSAValue]:
    """The other rows of mbarriers that have as many."""
    own = next((v for v in op.operands if isinstance(v.type, BarrierType)), None)
    module = op.get_toplevel_object()
    if own is None or op.name == "hopper.mbarrier_init":
        return []
    return [row.barrier for row in module.walk()
            if isinstance(row, Barriers) and row.barrier.type == own.type and row.barrier is not own]  # fmt: skip


def _other_row(op: Operation) -> None:
    at = next(n for n, v in enumerate(op.operands) if isinstance(v.type, BarrierType))
    op.operands[at] = _rows_beside(op)[0]


EDITS: dict[str, Callable[[Operation], None]] = {
    "delete": _delete,
    "duplicate": _duplicate,
    "phase": lambda op: _replaced(op, "parity", "xori"),
    "slot": lambda op: _replaced(op, "slot", "addi"),
    "more": _count(lambda n: n + (32 if n >= 32 else 1)),
    "less": _count(lambda n: n - (32 if n >= 32 else 1)),
    "later": _moved("next_op"),
    "earlier": _moved("prev_op"),
    "slot back": lambda op: _replaced(op, "slot", "subi"),
    "other row": _other_row,
}


def rewired(module: ModuleOp) -> list[Mutant]:
    """More edits: an op changes places with the next one, uses the slot before, or another row."""
    found: list[Mutant] = []
    for number, op in enumerate(sites(module)):
        kinds = [kind for kind, way in (("later", "next_op"), ("earlier", "prev_op"))
                 if _neighbour(op, way) is not None]  # fmt: skip
        kinds += ["slot back"] if getattr(op, "slot", None) is not None else []
        kinds += ["other row"] if _rows_beside(op) else []
        found += [Mutant(kind, op.name, number) for kind in kinds]
    return found


# --- loops that no longer run as often as another role's -------------------------------------------


def loops(module: ModuleOp) -> list[scf.ForOp]:
    """The loops that communication depends on."""
    kept = Slice(kernel_of(module), spec_of(module, kernel_of(module))).ops
    return [op for op in module.walk() if isinstance(op, scf.ForOp) and op in kept]


def bounds(module: ModuleOp) -> list[Mutant]:
    """Every edit of a loop's bounds that may change how often it turns."""
    return [
        Mutant(kind, "scf.for", n)
        for n, loop in enumerate(loops(module))
        for kind in BOUNDS
        if not _turns(loop, *SAME_TURNS.get(kind, (1, 0)))
    ]


def _turns(loop: scf.ForOp, least: int, most: int) -> bool:
    """Whether a loop's bounds are constants, and give it from `least` to `most` turns."""
    found = [scalar_constant(value) for value in (loop.lb, loop.ub, loop.step)]
    if None in found:
        return False
    begin, end, step = (int(value) for value in found if value is not None)
    return least <= len(range(begin, end, step)) <= most


def _bound(operand: int, *steps: tuple[str, int, int]) -> Callable[[scf.ForOp], None]:
    """Replace an operand (0 the first, 1 the end, 2 the step) by what is computed of them.

    Each step is a function and which two values it takes: the operands, then the steps' results.
    """

    def edit(loop: scf.ForOp) -> None:
        values = list(loop.operands[:3])
        for function, a, b in steps:
            new = Map(function, [values[a], values[b]])
            assert loop.parent is not None
            loop.parent.insert_op_before(new, loop)
            values.append(new.result)
        loop.operands[operand] = values[-1]

    return edit


BOUNDS: dict[str, Callable[[scf.ForOp], None]] = {
    "one turn more": _bound(1, ("addi", 1, 2)),
    "one turn less": _bound(1, ("subi", 1, 2)),
    "a later begin": _bound(0, ("addi", 0, 2)),
    "twice the step": _bound(2, ("addi", 2, 2)),
    "one turn at most": _bound(1, ("addi", 0, 2), ("minsi", 1, 3)),
    "one turn at least": _bound(1, ("addi", 0, 2), ("maxsi", 1, 3)),
}

SAME_TURNS = {"one turn at most": (0, 1), "one turn at least": (1, 1 << 31)}
"""Turns that an edit leaves as they are, from the least to the most."""


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


# --- why an edit may change nothing ------------------------------------------------------------------

IDEMPOTENT = {
    "hopper.fence_barrier_init", "hopper.cta_sync", "hopper.mbarrier_wait", "hopper.wgmma_fence",
    "hopper.wgmma_commit", "hopper.wgmma_wait", "hopper.bulk_wait_read", "hopper.bulk_commit",
    "hopper.named_barrier_sync", "hopper.fence_proxy_async", "hopper.tma_store",
}  # fmt: skip
"""Ops that do the same done twice: waits, fences, meetings, an empty group, the same store again."""

REDUNDANT = {"hopper.wgmma_wait", "hopper.named_barrier_sync", "hopper.mbarrier_wait"}
"""Waits that may order nothing new: before the first product, or implied by other waits."""


def equivalent(mutant: Mutant) -> str | None:
    """Why an edit may change nothing; None if it must be caught."""
    if mutant.kind == "duplicate" and mutant.op in IDEMPOTENT:
        return "done twice"
    if mutant.kind == "less" and mutant.op in ("hopper.wgmma_wait", "hopper.bulk_wait_read"):
        return "waits for more"
    if mutant.kind in ("delete", "more") and mutant.op in REDUNDANT:
        return "redundant"
    return None


REGISTERS = ("AccumulatorInFlight", "MissingWgmmaFence", "StaleFragment")
UNAWAITED = {"hopper.mbarrier_arrive"}
"""Returns of the last slot, for which nobody waits in a kernel that is not persistent."""
ALONE = {"hopper.bulk_wait_read", "hopper.bulk_commit"}
"""Waits for stores that have not begun: the first of a kernel, and of a staging slot of its own."""


def why_it_is_safe(mutant: Mutant, found: str) -> str | None:
    """Why no result can differ, or what else finds the edit; None if nothing does."""
    if any(name in found for name in REGISTERS):
        return "registers"
    if found == "wrong numbers":
        return "not stored" if mutant.op == "hopper.tma_store" else None
    if found != "survives":
        return None
    if mutant.op in UNAWAITED and mutant.kind in ("delete", "duplicate"):
        return "nobody waits"
    if mutant.op in ALONE and mutant.kind in ("delete", "more"):
        return "nothing to wait for"
    return equivalent(mutant)
