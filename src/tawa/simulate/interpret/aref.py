"""Runs a module of the aref level: warp groups as coroutines, arefs as three-state slots.

Each program instance (CTA) is run by itself, the two of a cluster that multicasts together: their
warp groups (one actor a team) take turns, each until it must wait. A slot is empty, full or
borrowed; dots are asynchronous and read their views when they are waited for, the latest moment.
Values of tiles mean what they mean at the tile level.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from tawa.aref.dialect import ops
from tawa.base.indices import reciprocal
from tawa.base.kernel_spec import PlanParam, evaluate, tuples
from tawa.base.launch_plans import launch_plan
from tawa.base.numerics import Array, value_dtype
from tawa.base.spans import span_of
from tawa.base.types import element_of, shape_of
from tawa.ir.kernels import argument_names, made_by_host
from tawa.machine.chips import SM_90A
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.aref_actor import (
    ArefActor,
    Cta,
    Dot,
    Ring,
    Slot,
    Steps,
    Token,
    View,
    unchanged,
)
from tawa.simulate.interpret.aref_multicast import RANKS, give_back, multicast, publish
from tawa.simulate.interpret.hopper import cluster_blocks
from tawa.simulate.interpret.memory import Memory
from tawa.simulate.interpret.tile import Described, Program, argument_value
from tawa.tile.dialect.arithmetic import dot
from tawa.tile.dialect.ops import DescLoad, Load

# --- what the ops do ------------------------------------------------------------------------------


def _cursor(actor: ArefActor, op: ops.PutEnter | ops.GetEnter) -> int:
    return 0 if op.cursor is None else int(actor.values[op.cursor])


def _put_enter(actor: ArefActor, op: ops.PutEnter) -> Steps:
    ring: Ring = actor.values[op.ref]
    token = Token(ring, _cursor(actor, op), put=True)
    slot, generation = token.slot, token.generation
    if ring.alone and token.use != ring.puts:
        actor.fail(
            errors.SlotOutOfTurn,
            f"{ring.place(token.use)} is filled out of turn",
            expected=f"put number {ring.puts}",
            found=f"a cursor at {token.use}",
            hint="move the cursor by one for each put",
        )
    ring.puts += 1
    yield lambda: slot.returned >= generation * ring.needed
    _open(actor, op, token)


def _get_enter(actor: ArefActor, op: ops.GetEnter) -> Steps:
    ring: Ring = actor.values[op.ref]
    token = Token(ring, _cursor(actor, op), put=False)
    slot, generation = token.slot, token.generation
    yield lambda: slot.filled > generation
    if slot.filled != generation + 1:
        actor.fail(
            errors.SlotOutOfTurn,
            f"{ring.place(token.use)} was filled again before it was got",
            expected=f"put number {token.use} in the slot",
            found=f"{slot.filled - generation - 1} puts later",
            hint="move the cursor past the puts of others (`aref.advance`)",
        )
    _open(actor, op, token)


def _views(actor: ArefActor, op: ops.Views) -> None:
    for index, view in enumerate(op.views):
        actor.values[view] = View(actor.values[op.token], index, unchanged)


def _open(actor: ArefActor, op: ops.PutEnter | ops.GetEnter, token: Token) -> None:
    actor.values[op.token] = token
    for index, view in enumerate(op.views):
        actor.values[view] = View(token, index, unchanged)


def _close(actor: ArefActor, token: Token, what: str) -> None:
    if not token.open:
        actor.fail(
            errors.DoubleArrive,
            f"{token.ring.place(token.use)} is {what} twice",
            expected="one `put_exit` or `consumed` for each enter",
            found="a token that was used before",
            hint="give each slot on once, on one path",
        )
    token.open = False


def _put_exit(actor: ArefActor, op: ops.PutExit) -> None:
    token: Token = actor.values[op.token]
    _close(actor, token, "published")
    for load in token.loads:
        load()
    missing = [i for i, tile in enumerate(token.slot.tiles) if tile is None]
    if set(missing) - token.shared:
        actor.fail(
            errors.ReadBeforeFull,
            f"{token.ring.place(token.use)} is published before all its tiles are filled",
            expected=f"{len(token.slot.tiles)} tiles",
            found=f"{len(token.slot.tiles) - len(missing)}",
            hint="load every tile of the tuple",
        )
    publish(actor, token)


def _consumed(actor: ArefActor, op: ops.Consumed) -> None:
    token: Token | None = actor.values[op.token]
    if token is None:
        return
    for flying in actor.dots:
        if token in flying.reads:
            actor.fail(
                errors.OverwriteWhileBorrowed,
                f"{token.ring.place(token.use)} is returned while a dot still reads it",
                expected="a `dot_wait` that leaves the dot not pending",
                found=f"{len(actor.dots)} dots in flight",
                hint="with P dots in flight, return the slot of iteration k - P",
            )
    _close(actor, token, "returned")
    give_back(token, op.shared is not None and bool(actor.values[op.shared]))


def _load_into(actor: ArefActor, op: ops.LoadInto) -> None:
    view: View = actor.values[op.view]
    token: Token = actor.values[op.token]
    load = DescLoad(op.desc, list(op.coordinates))
    inner = Program(actor.memory, actor.index, actor.grid)
    inner.values = {v: actor.values[v] for v in (op.desc, *op.coordinates)}
    shared = op.shared is not None and bool(actor.values[op.shared])
    if shared and token.ring.peer is not None:
        token.shared.add(view.index)

    def copy() -> None:
        inner.run_op(load)
        tile = inner.values[load.result]
        if view.index in token.shared:
            multicast(actor, token, view.index, tile)
        else:
            token.slot.tiles[view.index] = tile
        load.drop_all_references()

    token.loads.append(copy)


def _copy_into(actor: ArefActor, op: ops.CopyInto) -> None:
    view: View = actor.values[op.view]
    token: Token = actor.values[op.token]
    inner = Program(actor.memory, actor.index, actor.grid)
    box = op.box
    boxed = box is not None and bool(actor.values[box.holds])
    load = DescLoad(box.desc, box.coordinates) if box and boxed else Load(op.pointers, op.mask)
    inner.values = {v: actor.values[v] for v in load.operands}
    shape = shape_of(op.pointers.type)

    def copy() -> None:
        inner.run_op(load)
        tile = inner.values[load.result]
        turned = op.turned is not None and not boxed
        tile = tile.T.copy() if turned else tile
        token.slot.tiles[view.index] = tile.reshape(shape[::-1] if op.turned else shape)
        load.drop_all_references()

    token.loads.append(copy)


def _transpose_into(actor: ArefActor, op: ops.TransposeInto) -> None:
    view: View = actor.values[op.view]
    token: Token = actor.values[op.token]
    tile = actor.tile(actor.values[op.source])
    token.slot.tiles[view.index] = tile.reshape(-1, tile.shape[-1]).T.copy()


def _store_into(actor: ArefActor, op: ops.StoreInto) -> None:
    view: View = actor.values[op.view]
    token: Token = actor.values[op.token]
    token.slot.tiles[view.index] = np.asarray(actor.known(op.value)).copy()


def _dot_issue(actor: ArefActor, op: ops.DotIssue) -> None:
    element = element_of(op.accumulator.type)
    precision = op.precision.data if op.precision else "tf32"
    keep = op.accumulate is None or bool(actor.values[op.accumulate])
    before = actor.values[op.accumulator]
    sides = [actor.values[v] if isinstance(actor.values[v], View) else actor.known(v)
             for v in (op.a, op.b)]  # fmt: skip
    if not keep:
        before = np.zeros(shape_of(op.accumulator.type), value_dtype(element))

    def compute() -> Array:
        start: Any = before.value if isinstance(before, Dot) else before
        a, b = (actor.tile(s) if isinstance(s, View) else s for s in sides)
        return dot(a, b, start, element, precision)

    reads = [s.token for s in sides if isinstance(s, View) and s.token is not None]
    flying = Dot(compute, reads)
    actor.dots.append(flying)
    actor.values[op.result] = flying


def _warp_dot(actor: ArefActor, op: ops.WarpDot) -> Array:
    sides = (actor.values[v] if isinstance(actor.values[v], View) else actor.known(v)
             for v in (op.a, op.b))  # fmt: skip
    a, b = (actor.tile(s) if isinstance(s, View) else s for s in sides)
    start: Any = actor.known(op.accumulator)
    return dot(a, b, start, element_of(op.accumulator.type), op.precision.data)


def _dot_wait(actor: ArefActor, op: ops.DotWait) -> None:
    actor.finish_dots(op.pending.value.data)
    for value, result in zip(op.values, op.results_, strict=True):
        found = actor.values[value]
        done = isinstance(found, Dot) and found.value is not None
        actor.values[result] = found.value if done else found


def _advance(actor: ArefActor, op: ops.Advance) -> None:
    start = 0 if op.cursor is None else int(actor.values[op.cursor])
    actor.values[op.result] = start + int(actor.values[op.count])


def _view(change: Callable[[Any, Array], Array]) -> Callable[[ArefActor, Any], None]:
    def action(actor: ArefActor, op: Any) -> None:
        view: View = actor.values[op.view]
        shape = view.shape
        new = View(view.token, view.index, lambda t: change(op, shape(t)), view.staged)
        actor.values[op.result] = new

    return action


def _view_slice(actor: ArefActor, op: ops.ViewSlice) -> None:
    starts = [int(actor.values[o]) for o in op.offsets]
    assert isinstance(op.result.type, ops.ViewType)
    sizes = op.result.type.tile.get_shape()
    window = tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))
    _view(lambda _o, tile: tile[window])(actor, op)


def _zero_unless(actor: ArefActor, op: ops.ZeroUnless) -> None:
    value = np.asarray(actor.known(op.value))
    keep = bool(actor.values[op.condition])
    actor.values[op.result] = value if keep else np.zeros_like(value)


def _unset(actor: ArefActor, op: ops.Unset) -> None:
    dtype = value_dtype(element_of(op.result.type))
    poison = np.nan if dtype.kind == "f" else np.iinfo(dtype).max
    actor.values[op.result] = np.full(shape_of(op.result.type), poison, dtype)


def _turn_wait(actor: ArefActor, op: ops.TurnWait) -> Steps:
    del op
    key, passes = (actor.role, actor.team), actor.cta.passes
    yield lambda: passes.get(key, 0) > 0
    passes[key] -= 1


def _turn_pass(actor: ArefActor, op: ops.TurnPass) -> None:
    del op
    key = actor.role, (actor.team + 1) % actor.teams
    actor.cta.passes[key] = actor.cta.passes.get(key, 0) + 1


def _bind(value: Callable[[ArefActor, Any], Any]) -> Callable[[ArefActor, Any], None]:
    def action(actor: ArefActor, op: Any) -> None:
        actor.values[op.results[0]] = value(actor, op)

    return action


def _staged(actor: ArefActor, op: ops.Stage) -> View:
    return View(None, 0, unchanged, np.asarray(actor.known(op.value)).copy())


def _number(value: int) -> Array:
    return np.asarray(value, np.int32)


ACTIONS: dict[type[Operation], Callable[..., Steps | None]] = {
    ops.PutEnter: _put_enter,
    ops.PutExit: _put_exit,
    ops.GetEnter: _get_enter,
    ops.Views: _views,
    ops.Consumed: _consumed,
    ops.LoadInto: _load_into,
    ops.CopyInto: _copy_into,
    ops.TransposeInto: _transpose_into,
    ops.StoreInto: _store_into,
    ops.DotIssue: _dot_issue,
    ops.DotWait: _dot_wait,
    ops.Advance: _advance,
    ops.ZeroUnless: _zero_unless,
    ops.Unset: _unset,
    ops.TurnWait: _turn_wait,
    ops.TurnPass: _turn_pass,
    ops.GroupTurn: lambda _a, _o: None,  # the groups of a team are one actor
    ops.Start: _bind(lambda _a, _o: 0),
    ops.NoToken: _bind(lambda _a, _o: None),
    ops.EdgeRow: _bind(
        lambda _a, o: _number(o.rows.value.data - 1 if o.edge.data == "last" else 0)
    ),
    ops.TeamIndex: _bind(lambda a, _o: _number(a.team)),
    ops.CtaIndex: _bind(lambda a, _o: _number(a.index[0])),
    ops.CtaCount: _bind(lambda a, _o: _number(a.grid[0])),
    ops.PlanEntry: _bind(lambda a, o: _number(a.values[o.plan][int(a.values[o.index])])),
    ops.ViewTrans: _view(lambda _o, tile: tile.T),
    ops.ViewReshape: _view(lambda o, tile: tile.reshape(shape_of(o.result.type.tile))),
    ops.ViewSlice: _view_slice,
    ops.ViewRead: _bind(lambda a, o: a.tile(a.values[o.view]).copy()),
    ops.Stage: _bind(_staged),
    ops.WarpDot: _bind(_warp_dot),
    ops.Restage: _bind(lambda a, o: View(None, 0, unchanged, a.tile(a.values[o.view]).copy())),
}
"""What the ops of the aref level do; an op that may wait is a generator."""


# --- running --------------------------------------------------------------------------------------


def _rings(block: Block) -> dict[SSAValue, Ring]:
    groups = [op for op in block.ops if isinstance(op, ops.WarpGroup)]
    found: dict[SSAValue, Ring] = {}
    for op in block.ops:
        if isinstance(op, ops.Create):
            assert isinstance(op.ref.type, ops.RefType)
            tiles = len(op.ref.type.tiles)
            slots = [Slot([None] * tiles) for _ in range(op.ref.type.depth.data)]
            getters = [g for g in groups if _uses(g, op, ops.GetEnter)]
            putters = sum(g.teams.value.data for g in groups if _uses(g, op, ops.PutEnter))
            label = op.ref.name_hint or "aref"
            found[op.ref] = Ring(label, slots, max(1, len(getters)), putters == 1)
    return found


def _uses(group: ops.WarpGroup, ring: ops.Create, kind: type[ops.PutEnter | ops.GetEnter]) -> bool:
    return any(isinstance(op, kind) and op.ref is ring.ref for op in group.walk())


def _run_cluster(block: Block, ctas: Sequence[Cta]) -> None:
    """Run the CTAs of a cluster, or one CTA, to their end."""
    rings = [_rings(block) for _ in ctas]
    for ref in [op.ref for op in block.ops if isinstance(op, ops.Create) and op.multicast]:
        for rank, own in enumerate(rings[:RANKS]):
            own[ref].rank, own[ref].peer = rank, rings[1 - rank][ref]
    running: list[tuple[ArefActor, Iterator[Any], Callable[[], bool]]] = []
    for cta, own in zip(ctas, rings, strict=True):
        cta.values.update(own)
        running += [(a, a.steps(body, []), lambda: True) for a, body in _actors(block, cta)]
    while running:
        ready = next((i for i, (_, _, wait) in enumerate(running) if wait()), None)
        if ready is None:
            raise _deadlock([actor for actor, _, _ in running])
        actor, steps, _ = running.pop(ready)
        with suppress(StopIteration):
            running.insert(ready, (actor, steps, next(steps)))
    for cta, own in zip(ctas, rings, strict=True):
        _check_parts(cta, own.values())


def _actors(block: Block, cta: Cta) -> Iterator[tuple[ArefActor, Block]]:
    """A CTA's actors and what they run; ops outside of warp groups are run at once."""
    main = ArefActor(cta, "main", "main", 0, 1)
    for op in block.ops:
        if not isinstance(op, ops.Create | ops.WarpGroup | ReturnOp):
            main.run_op(op)
    cta.values.update(main.values)
    for op in block.ops:
        if isinstance(op, ops.WarpGroup):
            teams = op.teams.value.data
            for team in range(teams):
                role = op.role.data
                name = role if teams == 1 else f"{role}[{team}]"
                yield ArefActor(cta, name, role, team, teams), op.body.block


def _check_parts(cta: Cta, rings: Iterable[Ring]) -> None:
    """What was multicast into a CTA must have been expected there."""
    for ring in rings:
        for use, slot in enumerate(ring.slots):
            if slot.parts:
                raise errors.ClusterExit(
                    f"a part was multicast into {ring.place(use)} of {cta.name.strip()}, "
                    "which expects none any more",
                    expected="both CTAs to share the same puts",
                    found=f"{len(slot.parts)} tiles of which one half came",
                    hint="compute the flag `shared` from what both CTAs know",
                )


def _deadlock(stuck: Sequence[ArefActor]) -> errors.Deadlock:
    return errors.Deadlock(
        f"nobody can go on: {len(stuck)} warp groups wait",
        span=span_of(stuck[0].op),
        expected="every wait to be met by a put, a return or a turn",
        found="\n".join(actor.doing() for actor in stuck),
        hint="follow who waits for whom: a return is missing, or comes too late",
    )


def _plan(kernel: FuncOp, grid: Sequence[int], args: Sequence[Any], ctas: int) -> Any:
    """Which CTA runs which programs."""
    text = kernel.attributes["tawa.work"]
    assert isinstance(text, StringAttr)
    return launch_plan(PlanParam(json.loads(text.data)), grid, args, ctas, ctas)


def _made(recipe: dict[str, Any], args: Sequence[Any], given: Sequence[Any]) -> Any:
    """What the host makes of a launch's arguments, which have these values."""

    def number(expr: Any) -> int:
        return evaluate(tuples(expr), args)

    if "value" in recipe:
        return np.asarray(number(recipe["value"]))
    size = args[recipe["arg"]].dtype.itemsize
    address = int(given[recipe["arg"]]) + size * number(recipe["offset"])
    shape, strides = (tuple(map(number, recipe[key])) for key in ("shape", "strides"))
    return Described(address, shape, strides, recipe["fill"])


def run(
    module: ModuleOp,
    grid: Sequence[int],
    args: Sequence[Any],
    *,
    multiprocessors: int = SM_90A.multiprocessors,
) -> None:
    """Run a module of the aref level on NumPy arrays, which it changes in place.

    `args` are those of the tile level (`simulate.interpret.tile.run`); a persistent kernel gets at
    most `multiprocessors` program instances. The two CTAs of a cluster run together. Raises a
    `ProtocolError` for the first broken rule.
    """
    kernel = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
    block = kernel.body.block
    sides = (*grid, 1, 1)[:3]
    full = (int(sides[0]), int(sides[1]), int(sides[2]))
    memory = Memory()
    sizes = [
        *(np.asarray(reciprocal(n), np.int64) for n in full[:2]),
        *(np.asarray(n, np.int32) for n in full),
    ]
    cluster = RANKS if any(isinstance(op, ops.Create) and op.multicast for op in block.ops) else 1
    launched = full
    if "tawa.persistent" in kernel.attributes:
        count = min(full[0] * full[1] * full[2], multiprocessors)
        launched = (-(-count // cluster) * cluster, 1, 1)
    given = [
        argument_value(memory, name, parameter.type, value)
        for name, parameter, value in zip(argument_names(kernel), block.args, args, strict=False)
    ]
    made = [_made(recipe, args, given) for recipe in made_by_host(kernel)[1]]
    plans = [_plan(kernel, full, args, launched[0])] if "tawa.work" in kernel.attributes else []
    values: dict[SSAValue, Any] = dict(
        zip(block.args, [*given, *made, *plans, *sizes], strict=False)
    )
    with np.errstate(all="ignore"):
        for blocks in cluster_blocks(launched, cluster):
            ctas = [Cta(memory, index, launched, dict(values), ACTIONS) for index in blocks]
            for rank, cta in enumerate(ctas):
                cta.name = f"CTA {rank} " if cluster > 1 else ""
            _run_cluster(block, ctas)
