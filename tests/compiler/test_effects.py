"""Passes treat ops by what they declare to read and write, those that they have not heard of too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import MemoryEffect, Pure, get_effects

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import AREF, WarpGroup
from tawa.aref.passes.last_iteration_peeling import shared_work
from tawa.base.layout import accumulator
from tawa.base.options import Options
from tawa.base.types import shape_of
from tawa.codegen.fragments import team_sync
from tawa.codegen.lower import TABLE
from tawa.driver.compilation import Compilation
from tawa.frontend import lower_to_tile, parse_argument
from tawa.hopper.dialect import HOPPER
from tawa.hopper.dialect.fragment import Window
from tawa.hopper.dialect.global_memory import ScalarLoad, ScalarStore
from tawa.hopper.dialect.types import FragType
from tawa.hopper.emit import emit
from tawa.hopper.passes.strips import Run
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.roles import NotSpecialised
from tawa.ir.effects import (
    FRAME,
    GLOBAL,
    MEETING,
    ORDER,
    READ,
    SHARED,
    WRITE,
    CollectiveOfRows,
    Effects,
    effects_of,
    in_order,
    is_pure,
    may_drop,
    only_reads,
    reads,
    touches,
    writes,
)
from tawa.ir.elementwise import EW, Map
from tawa.ir.traits import Elementwise, Lazy
from tawa.pipeline.dependence_graph import is_lazy
from tawa.tile.analysis.alias import may_alias
from tawa.tile.analysis.boxes_apart import hands_boxes
from tawa.tile.analysis.linear import linear
from tawa.tile.dialect.ops import TILE, Arange, Histogram, Load, Store
from tawa.tile.dialect.value_ops import Spreads


@irdl_op_definition
class Twice(IRDLOperation):
    """A pure op that no pass has heard of."""

    name = "strange.twice"
    value = operand_def(i32)
    result = result_def(i32)
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[i32])


@irdl_op_definition
class Doubled(IRDLOperation):
    """Each element of a row twice: an op that no pass has heard of, which only moves elements."""

    name = "strange.doubled"
    value = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure(), Spreads())

    def __init__(self, value: SSAValue):
        (size,) = shape_of(value.type)
        super().__init__(operands=[value], result_types=[TensorType(i32, [2 * size])])


@irdl_op_definition
class Numbered(IRDLOperation):
    """A tile whose elements are known from their places."""

    name = "strange.numbered"
    result = result_def(TensorType)
    traits = traits_def(Pure(), Lazy())

    def __init__(self):
        super().__init__(result_types=[TensorType(i32, [64])])


@irdl_op_definition
class Halved(IRDLOperation):
    """A function of each register by itself."""

    name = "strange.halved"
    value = operand_def(FragType)
    result = result_def(FragType)
    traits = traits_def(Pure(), Elementwise())

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[value.type])


@irdl_op_definition
class OfRows(IRDLOperation):
    """A number a row, which each warp group finds of its own rows."""

    name = "strange.of_rows"
    value = operand_def(TensorType)
    result = result_def(i32)
    traits = traits_def(Pure(), CollectiveOfRows())

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[i32])


@irdl_op_definition
class Peek(IRDLOperation):
    """An op that reads global memory."""

    name = "strange.peek"
    at = operand_def()
    result = result_def(i32)
    traits = traits_def(Effects(reads(GLOBAL, "at")))

    def __init__(self, at: SSAValue):
        super().__init__(operands=[at], result_types=[i32])


@irdl_op_definition
class Poke(IRDLOperation):
    """An op that writes global memory."""

    name = "strange.poke"
    at = operand_def()
    value = operand_def(i32)
    traits = traits_def(Effects(writes(GLOBAL, "at")))

    def __init__(self, at: SSAValue, value: SSAValue):
        super().__init__(operands=[at, value])


@irdl_op_definition
class Meet(IRDLOperation):
    """An op that is a barrier."""

    name = "strange.meet"
    traits = traits_def(Effects(writes(MEETING), writes(ORDER)))


@irdl_op_definition
class Silent(IRDLOperation):
    """An op that declares nothing."""

    name = "strange.silent"


LOWERINGS: dict[type[Operation], Callable[..., Any]] = {
    Twice: lambda g, op: g.scalars.update(
        {op.result: g.add(Map("addi", [g.scalar(op.value), g.scalar(op.value)]))}
    ),
    Peek: lambda g, op: g.scalars.update({op.result: g.add(ScalarLoad(g.scalar(op.at)))}),
    Poke: lambda g, op: g.one_thread(
        "team", lambda: g.do(ScalarStore(g.scalar(op.at), g.scalar(op.value)))
    ),
    Meet: lambda g, _op: team_sync(g),
}


@tawa.jit
def product(a, b, c, p, q, K, M: tl.constexpr, N: tl.constexpr):
    """A product whose column comes through `p`; `q` is written in each turn."""
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 64):
        at = tl.load(p)
        acc = tl.dot(a.load([at, k]), b.load([0, k]).T, acc)
        tl.store(q, at)
    c.store([0, 0], acc.to(tl.float16))


def tile_module(**types: str) -> ModuleOp:
    """The tile module of `product` as the frontend makes it."""
    tile = "desc<f16,{}x{}>".format
    known = {"a": tile(128, 64), "b": tile(128, 64), "c": tile(128, 128)}
    names = {**known, "p": "*i32", "q": "*i32", "K": "i32", **types}
    signature = {name: parse_argument(text) for name, text in names.items()}
    return lower_to_tile(product, signature, {"M": 128, "N": 128})


def strange(module: ModuleOp, *, same: bool = False) -> tuple[Operation, Operation]:
    """Replace the load and the store of a scalar; returns what stands in their places."""
    load = next(op for op in module.walk() if isinstance(op, Load))
    store = next(op for op in module.walk() if isinstance(op, Store))
    peek = Peek(store.ptr if same else load.ptr)
    assert load.parent is not None
    assert store.parent is not None
    load.parent.insert_op_before(peek, load)
    load.result.replace_all_uses_with(peek.result)
    poke = Poke(store.ptr, store.value)
    store.parent.insert_op_before(poke, store)
    for op in (load, store):
        op.detach()
        op.erase()
    return peek, poke


def before(op: Operation, *new: Operation) -> None:
    """Put ops before one."""
    assert op.parent is not None
    op.parent.insert_ops_before(list(new), op)


def found(module: ModuleOp, kind: type[Operation]) -> list[Operation]:
    """The ops of a kind."""
    return [op for op in module.walk() if isinstance(op, kind)]


def role_of(op: Operation) -> str:
    """The role that an op is in."""
    parent = op.parent_op()
    while not isinstance(parent, WarpGroup):
        assert parent is not None
        parent = parent.parent_op()
    return parent.role.data


def levels(
    module: ModuleOp, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[ModuleOp, ModuleOp, ModuleOp, Decisions]:
    """The module after all passes of each level, and what was decided."""
    for kind, lowering in LOWERINGS.items():
        monkeypatch.setitem(TABLE, kind, lowering)
    work = Compilation(Options(**options))
    tile = work.level("tile", module).clone()
    aref = work.level("aref", tile.clone()).clone()
    hopper = work.level("hopper", aref.clone())
    assert emit(hopper)
    return tile, aref, hopper, work.decided


def test_pure_ops_are_dropped_shared_hoisted_and_copied(monkeypatch: pytest.MonkeyPatch):
    """One that no pass has heard of: no twin, no dead one, out of the loop, in the role it serves."""
    module = tile_module()
    peek, _ = strange(module)
    kernel = next(op for op in module.walk() if isinstance(op, func.FuncOp))
    bound = kernel.args[5]
    one, twin, dead = Twice(bound), Twice(bound), Twice(bound)
    both = Map("addi", [one.result, twin.result])
    column = Map("addi", [peek.results[0], both.result])
    uses = [use for use in peek.results[0].uses if use.operation is not column]
    before(peek.next_op or peek, one, twin, dead, both, column)
    for use in uses:
        use.operation.operands[use.index] = column.result
    tile, aref, _, _ = levels(module, monkeypatch)
    (kept,) = found(tile, Twice)
    assert isinstance(kept.parent_op(), func.FuncOp), "a scalar of its own leaves the loop"
    assert sorted(map(role_of, found(aref, Twice))) == ["load", "math"]


def test_reads_follow_their_addresses(monkeypatch: pytest.MonkeyPatch):
    """What is read where nothing writes may be read by the loading role; a dead read goes."""
    module = tile_module()
    peek, _ = strange(module)
    before(peek, Peek(peek.operands[0]))
    tile, aref, hopper, _ = levels(module, monkeypatch)
    assert len(found(tile, Peek)) == 1
    assert sorted(map(role_of, found(aref, Peek))) == ["load", "math"]
    assert found(hopper, ScalarLoad)


def test_no_role_reads_ahead_of_what_is_written(monkeypatch: pytest.MonkeyPatch):
    """Coordinates read from memory that an unknown op writes: one role, and a decision says why."""
    module = tile_module()
    strange(module, same=True)
    _, aref, _, decided = levels(module, monkeypatch)
    assert {role_of(op) for op in found(aref, Peek)} == {"main"}
    assert any("memory that the kernel writes" in d.why for d in decided.of(NotSpecialised))


def test_writers_are_kept_in_the_role_that_computes(monkeypatch: pytest.MonkeyPatch):
    """Whoever writes is kept, once, and keeps its place among what may touch the same bytes."""
    module = tile_module()
    _, poke = strange(module)
    before(poke, Poke(*poke.operands))
    tile, aref, hopper, _ = levels(module, monkeypatch)
    assert len(found(tile, Poke)) == 2, "neither is the other's twin"
    assert {role_of(op) for op in found(aref, Poke)} == {"math"}
    assert found(hopper, ScalarStore)


@pytest.mark.parametrize(
    "options",
    [
        {"persistent": True, "num_stages": 4}, {"persistent": True, "ping_pong": True},
        {"consumers": 1}, {"num_warps": 4, "ctas_per_sm": 2}, {"specialize": False},
        {"cluster": 2}, {"num_stages": 1}, {"overlap": False},
    ],
    ids=str,
)  # fmt: skip
def test_unknown_ops_go_through_whatever_is_asked_for(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """Each pass that an option turns on or off leaves them what they declare to do."""
    module = tile_module()
    _peek, poke = strange(module)
    before(poke, Twice(poke.operands[1]), Poke(*poke.operands))
    tile, aref, hopper, _ = levels(module, monkeypatch, **options)
    assert (len(found(tile, Peek)), len(found(tile, Poke))) == (1, 2)
    assert not found(tile, Twice), "nobody reads it"
    roles = [role_of(op) for op in found(aref, Poke)]
    assert len(set(roles)) == 1, roles
    assert len(found(hopper, ScalarLoad)) >= 1
    assert len(found(hopper, ScalarStore)) == len(roles)


def test_barriers_keep_their_place(monkeypatch: pytest.MonkeyPatch):
    """A loop with a barrier is not rearranged."""
    module = tile_module()
    _peek, poke = strange(module)
    before(poke, Meet())
    _, aref, _, _ = levels(module, monkeypatch)
    (meet,) = found(aref, Meet)
    after = meet.next_op
    while after is not None and not isinstance(after, Poke):
        after = after.next_op
    assert role_of(meet) == "math"
    assert after is not None


def test_what_moves_elements_is_followed():
    """What is known of all elements of a tile is known where an unknown op has put them."""
    row = Arange(4, 20)
    found = linear(Doubled(row.result).result)
    assert found is not None
    assert (found.least, found.most) == (4, 19)
    assert linear(Map("addi", [row.result, row.result]).result) is not None
    assert linear(Map("absi", [row.result]).result) is None


def test_lazy_ops_are_made_for_each_user():
    """An unknown tile that costs nothing is copied to who uses it; what is read is not."""
    module = tile_module()
    peek, _ = strange(module)
    tile = Numbered()
    assert is_lazy(tile.result)
    assert is_lazy(Map("addi", [tile.result, tile.result]).result)
    assert not is_lazy(Doubled(Arange(0, 64).result).result)
    assert not is_lazy(peek.results[0])


def test_elementwise_ops_are_done_strip_by_strip():
    """So is an unknown one, unless it says that registers need each other."""
    layout = accumulator((64, 64), warps=4)
    kind = FragType.of(f32, layout)
    value = Made(result_types=[kind]).results[0]
    run = Run(registers=layout.registers)
    assert run.takes(Halved(value), overlapping=False)
    assert not run.takes(Window(value, 0, layout), overlapping=False)


def test_what_rows_share_is_no_shared_work():
    """Groups that have their own rows do an unknown collective op each for itself, if it says so."""
    loop = next(op for op in tile_module().walk() if isinstance(op, scf.ForOp))
    row = Arange(0, 64).result
    assert shared_work(OfRows(row), loop) is None
    assert shared_work(Histogram(row, 64), loop) == "they do tile.histogram together"


def test_boxes_are_known_by_their_descriptors():
    """An unknown op that reads through a descriptor hands a leaf its box; through a pointer, not."""
    kernel = next(op for op in tile_module().walk() if isinstance(op, func.FuncOp))
    assert hands_boxes(Peek(kernel.args[0]))
    assert not hands_boxes(Peek(kernel.args[3]))
    assert not hands_boxes(Twice(kernel.args[5]))


def test_order_between_two_ops():
    """Which of two accesses have to keep their order."""
    module = tile_module()
    peek, poke = strange(module)
    alias = Peek(poke.operands[0])
    assert not in_order(peek, poke, may_alias), "another argument"
    assert in_order(alias, poke, may_alias)
    assert in_order(poke, alias, may_alias)
    assert not in_order(alias, peek, may_alias), "two reads"
    assert in_order(Meet(), peek, may_alias)
    assert in_order(Silent(), peek, may_alias)
    assert not in_order(Silent(), Twice(peek.results[0]), may_alias)


def test_what_declares_nothing_may_do_anything():
    """It is neither pure nor a reader, and nobody drops it."""
    op = Silent()
    assert effects_of(op) is None
    assert not (is_pure(op))
    assert not (only_reads(op))
    assert not (may_drop(op))


def test_effects_are_those_of_the_traits(monkeypatch: pytest.MonkeyPatch):
    """What is remembered of a class says the same of each op as asking all its traits."""
    module = tile_module()
    strange(module)
    tile, aref, hopper, _ = levels(module, monkeypatch)
    ops = [op for m in (tile, aref, hopper) for op in m.walk() if not isinstance(op, FRAME)]
    assert len({type(op) for op in ops}) > 40
    for op in [*ops, Silent(), Meet()]:
        found = get_effects(op)
        assert effects_of(op) == (None if found is None else frozenset(found)), op.name
        for resource in (GLOBAL, SHARED, ORDER):
            for kind in (None, READ, WRITE):
                asked = found is None or any(
                    e.resource == resource and kind in (None, e.kind) for e in found
                )
                assert touches(op, resource, kind) == asked, op.name


CONTROL = (scf.ForOp, scf.IfOp, scf.WhileOp, scf.YieldOp, scf.ConditionOp, arith.ConstantOp)
LEVELS = [op for dialect in (TILE, AREF, HOPPER, EW) for op in dialect.operations]


@pytest.mark.parametrize("op", [*LEVELS, *CONTROL], ids=lambda op: op.name)
def test_every_op_declares_its_effects(op: type[Operation]):
    """A trait of each op class of each level says what it reads and writes."""
    assert op.has_trait(MemoryEffect)
