"""The data dependence graph of a consumer loop: what a scheduler may order, with costs.

A node is a matrix product (with the get of its slot, the views of it and its return), or one other
op. An edge says that a node needs another of the same iteration, or of the iteration before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tawa.aref.analysis.products import from_registers, group_of
from tawa.aref.analysis.slots import slot_bytes
from tawa.aref.dialect.ops import (
    AnyAbove,
    Consumed,
    GetEnter,
    LanePartials,
    ViewChange,
    ViewRead,
)
from tawa.base.types import byte_size, element_of, shape_of
from tawa.ir.effects import GLOBAL, SLOT, TAKEN, WRITE, in_order, is_pure, only_on, touches
from tawa.ir.elementwise import Map
from tawa.ir.loops import terminator
from tawa.ir.traits import made_anew
from tawa.ir.walking import every
from tawa.machine.chips import SM_90A, Chip
from tawa.machine.costs import Costs
from tawa.machine.instructions import HALF_RATE, SPECIAL
from tawa.tile.analysis.alias import may_alias
from tawa.tile.dialect.ops import (
    DescStore,
    Dot,
    Reduce,
    ViewLike,
)

ORDERED = (GLOBAL, SLOT, TAKEN)
"""Resources for which the graph has edges; whoever has effects on others keeps its place."""


def is_movable(op: Operation) -> bool:
    """Whether an op may change places, as far as edges allow.

    Of branches, those that compute; of what writes memory, what `_cost` knows the cost of.
    """
    if op.regions:
        return isinstance(op, scf.IfOp) and is_pure(op)
    if touches(op, GLOBAL, WRITE) and not isinstance(op, DescStore):
        return False
    return only_on(op, ORDERED)


NO_DEPTHS: Mapping[SSAValue, int] = {}

ACCUMULATOR = 2
"""The operand of a product that it adds to."""

STORED_COLUMNS = SM_90A.panel_columns
"""Columns of a panel that a descriptor store hands to the copy engine at once."""


def is_lazy(value: SSAValue, known: dict[SSAValue, bool] | None = None) -> bool:
    """Whether a tile is made from scalars and rows alone, so that every user may make its own.

    What is found is added to what is `known`: each value is looked at once.
    """
    known = {} if known is None else known
    if value not in known:
        op = value.owner
        if not shape_of(value.type) or isinstance(value, BlockArgument):
            known[value] = False
        elif isinstance(op, Map):
            known[value] = all(is_lazy(v, known) for v in op.arguments)
        else:
            known[value] = made_anew(op) and is_pure(op)
    return known[value]


def sink_lazy(body: Block) -> dict[Operation, list[Operation]]:
    """Rematerialise lazy tiles: each user gets its own copy, just before it.

    Returns the copies by user.
    """
    own: dict[Operation, list[Operation]] = {}
    known: dict[SSAValue, bool] = {}

    def copy(value: SSAValue, user: Operation) -> SSAValue:
        op = value.owner
        if not is_lazy(value, known) or op.parent is not body or not isinstance(op, Operation):
            return value
        new = op.clone({v: copy(v, user) for v in dict.fromkeys(op.operands)})
        body.insert_op_before(new, user)
        own.setdefault(user, []).append(new)
        return new.results[0]

    for user in list(body.ops):
        if user is body.last_op or any(is_lazy(r, known) for r in user.results):
            continue
        for i, operand in enumerate(user.operands):
            user.operands[i] = copy(operand, user)
    for op in reversed(list(body.ops)):
        if op.results and all(is_lazy(r, known) for r in op.results):
            if not any(True for r in op.results for _ in r.uses):
                op.detach()
                op.erase()
    return own


@dataclass
class Node:
    """Ops that move together. Costs are cycles of one iteration of one warp group."""

    number: int
    ops: list[Operation] = field(default_factory=list[Operation])
    thread: int = 1
    """Cycles on the issuing thread."""
    tensor: int = 0
    """Cycles on the tensor core, of one warp group; 0 for ordinary code."""
    special: int = 0
    """Cycles of the special-function unit."""
    registers: int = 0
    """32-bit registers a thread holds of the results."""

    @property
    def is_dot(self) -> bool:
        """Whether the node is a matrix product."""
        return self.tensor > 0

    @property
    def dot(self) -> Dot:
        """The node's matrix product."""
        return next(op for op in self.ops if isinstance(op, Dot))


@dataclass(frozen=True)
class Edge:
    """`target` needs `source`, of `distance` iterations before."""

    source: Node
    target: Node
    distance: int
    accumulates: bool = False
    """The target is a product that needs the value only as what it adds to."""
    returns: bool = False
    """The target only returns a slot that the source reads."""


@dataclass(frozen=True)
class Slot:
    """A slot of a ring that an iteration holds: who waits for it, and who reads it last."""

    get: Node
    readers: tuple[Node, ...]
    load: int
    """Cycles from the issue of the slot's copies to their end."""
    depth: int
    """Slots of the ring."""


@dataclass
class DependenceGraph:
    """The nodes of a loop body in program order, and their edges."""

    loop: scf.ForOp
    nodes: list[Node]
    edges: list[Edge]
    groups: int
    """Warp groups of the multiprocessor that run this loop, each at its own pace."""
    slots: list[Slot] = field(default_factory=list[Slot])
    """What the loop gets of rings whose depth is known."""
    keeps_slots: bool = False
    """Whether a product may be issued again before a slot that it read is returned."""

    @property
    def shares_slots(self) -> bool:
        """Whether a slot that a product reads is returned apart from it."""
        return any(e.returns and e.source.is_dot for e in self.edges)

    def keeping_slots(self) -> DependenceGraph:
        """The graph for schedules that may hold slots when their products are issued again."""
        return replace(self, keeps_slots=True)

    @property
    def dots(self) -> list[Node]:
        """The matrix products."""
        return [n for n in self.nodes if n.is_dot]

    def readers(self, node: Node) -> list[Node]:
        """Nodes that need the node's results in the same iteration, or return slots it reads."""
        return [e.target for e in self.uses(node) if e.distance == 0]

    def uses(self, node: Node) -> list[Edge]:
        """Edges to what the node's results are kept for."""
        kept = (e for e in self.edges if not (self.keeps_slots and e.returns))
        return [e for e in kept if e.source is node]


def build(
    loop: scf.ForOp,
    warps: int,
    teams: int,
    target: Chip,
    depths: Mapping[SSAValue, int] = NO_DEPTHS,
) -> DependenceGraph | str:
    """The graph of a loop, or why it has none; `depths` are the slots of rings it gets from."""
    body = loop.body.block
    ops = [op for op in body.ops if op is not terminator(body)]
    for op in ops:
        if not is_movable(op):
            return f"it contains {op.name}, which keeps its place"
    own = sink_lazy(body)
    ops = [op for op in body.ops if op is not terminator(body)]
    groups = max(1, warps // target.group_warps)
    node_of: dict[Operation, Node] = {}
    nodes: list[Node] = []
    for op in ops:
        if isinstance(op, Dot):
            close = _companions(op)
            wanted = {op, *close, *(c for m in (op, *close) for c in own.get(m, []))}
            members = [m for m in ops if m in wanted]
            node = Node(len(nodes), members)
            _cost_of_dot(node, op, warps, target)
            nodes.append(node)
            node_of |= dict.fromkeys(members, node)
    copies = {c for made in own.values() for c in made}
    for op in ops:
        if op not in node_of and op not in copies:
            members = [op, *(read for read in _reads(op) if read not in node_of)]
            node = Node(len(nodes), [one for m in members for one in (*own.get(m, []), m)])
            _cost(node, op, warps, target)
            nodes.append(node)
            node_of |= dict.fromkeys(node.ops, node)
    for node in nodes:
        own_results = node.dot.results if node.is_dot else node.ops[-1].results
        node.registers = sum(_registers(r, warps) for r in own_results)
    nodes = _rounded_at_once(nodes, node_of, warps)
    place = {op: i for i, op in enumerate(ops)}
    nodes.sort(key=lambda n: place[n.ops[-1]])
    for i, node in enumerate(nodes):
        node.number = i
    apart = groups * teams
    if groups > 1 and any(_copied(n.dot) for n in nodes if n.is_dot):
        _in_step(nodes, groups)
        apart = teams
    slots = _slots(node_of, depths, target)
    return DependenceGraph(loop, nodes, _all_edges(loop, node_of), apart, slots)


def _rounded_at_once(nodes: list[Node], node_of: dict[Operation, Node], warps: int) -> list[Node]:
    """Nodes of exponentials that become 8-bit weights made one with what rounds and adds them up.

    That works element by element, so the assembler puts it between exponentials, which leave the
    issuing thread seven of eight cycles. Behind a wait, rounding to 8 bits would take a permute
    more for every four elements.
    """
    taken: list[Node] = []
    for node in nodes:
        made = node.ops[-1].results[0] if node.special else None
        users = [use.operation for use in made.uses] if made is not None else []
        if made is None or not any(_rounds_to_bytes(op) for op in users):
            continue
        own = [op for op in users if _rounds_to_bytes(op) or isinstance(op, LanePartials)]
        for user in (node_of[op] for op in own):
            node.thread += user.thread
            node.registers += user.registers
            node.ops += user.ops
            taken.append(user)
        node.thread = max(node.special, node.thread - node.special)
        node.registers -= _registers(made, warps) if len(own) == len(users) else 0
        node_of |= dict.fromkeys(node.ops, node)
    return [node for node in nodes if not any(node is other for other in taken)]


def _rounds_to_bytes(op: Operation) -> bool:
    if not isinstance(op, Map) or op.function.data != "truncf":
        return False
    return byte_size(element_of(op.result.type)) == 1


def _in_step(nodes: list[Node], groups: int) -> None:
    """Let a node's costs be those of all warp groups of a team, which then count as one.

    An operand that they write to shared memory together has them wait for each other in every
    iteration, so that each finds the units busy with what the others asked for at the same time.
    """
    for node in nodes:
        node.tensor *= groups
        node.special *= groups
        node.thread = max(node.thread, node.special)


def _slots(
    node_of: dict[Operation, Node], depths: Mapping[SSAValue, int], target: Chip
) -> list[Slot]:
    found: list[Slot] = []
    for op, node in node_of.items():
        if not isinstance(op, Consumed) or op.ref not in depths:
            continue
        get = op.token.owner
        if isinstance(get, GetEnter) and get in node_of:
            readers = [node, *(node_of[r] for r in _readers_before(op) if r in node_of)]
            load = target.copy_latency + round(slot_bytes(op.ref) / target.l2_share)
            found.append(Slot(node_of[get], tuple(readers), load, depths[op.ref]))
    return found


def _reads(get: Operation) -> list[Operation]:
    """The reads of a slot's tiles, which go with its get unless they go with a product."""
    if not isinstance(get, GetEnter):
        return []
    users = (use.operation for view in get.views for use in view.uses)
    return list(dict.fromkeys(op for op in users if isinstance(op, ViewRead | ViewChange)))


def _companions(dot: Dot) -> set[Operation]:
    """The views of a dot's operands, the gets only it reads and the returns of their slots."""
    found: set[Operation] = set()
    gets: set[GetEnter] = set()
    for operand in (dot.a, dot.b):
        chain: list[Operation] = []
        value: SSAValue = operand
        while isinstance(value.owner, ViewLike) and value.has_one_use():
            chain.append(value.owner)
            value = value.owner.value
        if isinstance(value.owner, ViewRead) and value.has_one_use():
            found |= {*chain, value.owner}
            source = value.owner.view.owner
            if isinstance(source, GetEnter) and source.parent is dot.parent:
                gets.add(source)
    for get in gets:
        views = {use.operation for v in get.views for use in v.uses}
        if views <= found:
            found.add(get)
            found |= {
                use.operation for use in get.token.uses if isinstance(use.operation, Consumed)
            }
    return found


def _cost_of_dot(node: Node, dot: Dot, warps: int, target: Chip) -> None:
    groups = max(1, warps // target.group_warps)
    rows, columns = shape_of(dot.result.type)
    group = group_of(dot)
    if group is not None and group.split_columns is not None:
        rows, columns = rows * groups, columns // groups
    inner = shape_of(dot.a.type)[-1]
    steps = inner * byte_size(element_of(dot.a.type)) // target.mma_k_bytes
    blocks = max(1, rows // groups // target.mma_m)
    count = max(1, blocks * steps * -(-columns // target.mma_max_n))
    node.tensor = max(1, blocks * steps * target.matrix_cycles(columns))
    node.thread = target.scheduling.group + target.scheduling.issue * count
    for operand in _copied(dot):
        node.thread += _cost_of_staging(operand, warps, target.costs)


def _cost_of_staging(value: SSAValue, warps: int, costs: Costs) -> int:
    """Cycles to copy a tile from registers to shared memory: two barriers around the stores."""
    return 2 * costs.barrier + _registers(value, warps)


def _cost(node: Node, op: Operation, warps: int, target: Chip) -> None:
    """Registers a thread works on, times the cost of an instruction."""
    costs, scheduling = target.costs, target.scheduling
    if isinstance(op, scf.IfOp):
        node.thread = scheduling.branch
        return
    if isinstance(op, DescStore):
        panels = -(-shape_of(op.value.type)[-1] // STORED_COLUMNS)
        node.thread = _cost_of_staging(op.value, warps, costs) + 2 * costs.barrier * (panels - 1)
        return
    if isinstance(op, Map):
        name, shape = op.function.data, shape_of(op.result.type)
    elif isinstance(op, AnyAbove):
        name, shape = "maxnumf", shape_of(op.value.type)
    elif isinstance(op, LanePartials):
        name, shape = "addf", shape_of(op.value.type)
    elif isinstance(op, Reduce):
        name, shape = op.kind.data, shape_of(op.value.type)
    else:
        return
    if not shape:
        return
    count = _held(shape, warps)
    each = costs.half_rate if name in HALF_RATE else costs.alu
    if name in SPECIAL:
        each = costs.special
        node.special = count * costs.special
    node.thread = max(1, round(count * each * (1 if name in SPECIAL else scheduling.stretch)))
    if isinstance(op, Reduce):
        node.thread += 2 * (costs.shuffle + scheduling.combine)


def _registers(value: SSAValue, warps: int) -> int:
    shape = shape_of(value.type)
    if not shape or stays_in_memory(value):
        return 0
    return max(1, _held(shape, warps) * byte_size(element_of(value.type)) // 4)


def stays_in_memory(value: SSAValue) -> bool:
    """Whether a tile is a view of a slot that products alone read, from shared memory."""
    op = value.owner
    if not isinstance(op, (ViewRead, ViewLike)):
        return False
    source = op.view if isinstance(op, ViewRead) else op.value
    if not isinstance(op, ViewRead) and not _is_view(source):
        return False
    return all(
        (isinstance(u.operation, Dot) and u.index != ACCUMULATOR)
        or (isinstance(u.operation, ViewLike) and stays_in_memory(u.operation.result))
        for u in value.uses
    )


def _copied(dot: Dot) -> list[SSAValue]:
    """Operands that are copied to shared memory for the product."""
    held = not _is_view(dot.a) and from_registers(dot.a)
    return [v for v in (dot.a, dot.b) if not _is_view(v) and not (held and v is dot.a)]


def _is_view(value: SSAValue) -> bool:
    while isinstance(value.owner, ViewLike):
        value = value.owner.value
    return isinstance(value.owner, ViewRead)


def _held(shape: tuple[int, ...], warps: int) -> int:
    """Elements a thread holds; of a row statistic, four threads hold each."""
    copies = 1 if len(shape) > 1 else 4
    return max(1, copies * math.prod(shape) // (32 * warps))


def _all_edges(loop: scf.ForOp, node_of: dict[Operation, Node]) -> list[Edge]:
    """Edges of values, and of memory where there is none."""
    edges = _edges(loop, node_of)
    known = {(e.source.number, e.target.number, e.distance) for e in edges}
    for edge in _memory_edges(node_of):
        key = edge.source.number, edge.target.number, edge.distance
        if key not in known:
            known.add(key)
            edges.append(edge)
    return edges


def _edges(loop: scf.ForOp, node_of: dict[Operation, Node]) -> list[Edge]:
    body = loop.body.block
    passed = terminator(body).operands
    found: dict[tuple[int, int, int], Edge] = {}
    for op, node in node_of.items():
        for i, operand in enumerate(v for inner in every(op) for v in inner.operands):
            value, distance = operand, 0
            while isinstance(value, BlockArgument) and value.owner is body and value.index > 0:
                if distance > len(passed):
                    break
                value, distance = passed[value.index - 1], distance + 1
            owner = value.owner
            if isinstance(owner, Operation) and owner in node_of:
                source = node_of[owner]
                if source is not node or distance:
                    key = (source.number, node.number, distance)
                    adds = isinstance(op, Dot) and i == ACCUMULATOR
                    adds = adds and (key not in found or found[key].accumulates)
                    found[key] = Edge(source, node, distance, adds)
    for op, node in node_of.items():
        for source in (node_of[r] for r in _readers_before(op) if r in node_of):
            if source is not node:
                found.setdefault(
                    (source.number, node.number, 0), Edge(source, node, 0, returns=True)
                )
    return list(found.values())


def _memory_edges(node_of: dict[Operation, Node]) -> Iterator[Edge]:
    """What touches the same bytes, one to write them, or takes slots of one ring keeps its order.

    That holds in an iteration, and from an iteration to the next.
    """
    acting = [(op, node) for op, node in node_of.items() if not is_pure(op)]
    for (op, first), (other, second) in combinations(acting, 2):
        if first is not second and in_order(op, other, may_alias):
            if first.number > second.number:
                first, second = second, first
            yield Edge(first, second, 0)
            yield Edge(second, first, 1)


def _readers_before(op: Operation) -> list[Operation]:
    """The ops that read a slot which `op` returns: no operand says that they come first."""
    get = op.token.owner if isinstance(op, Consumed) else None
    return readers_of(get) if isinstance(get, GetEnter) else []


def readers_of(get: GetEnter) -> list[Operation]:
    """The ops that read a slot's tiles, each after what changes how it reads them."""
    found = [use.operation for view in get.views for use in view.uses]
    for reader in found:
        if isinstance(reader, ViewRead | ViewChange | ViewLike):
            found += [use.operation for use in reader.results[0].uses]
    return found
