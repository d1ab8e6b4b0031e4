"""Values that kernels compute again from smaller ones, instead of reading what another has written.

A product's result that is cast to a wider type is written narrow, and cast where it is read; the
normalised numbers of a norm are computed from the input and two numbers a row; a bias is cast where
it is added. What moves through memory is counted with and without, kernel by kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tawa.axon.gpu.graph.fusion import ALONE, TILES, Fusion, Group, reader_of
from tawa.axon.gpu.graph.lower import Program, Users, places, rewrite, users_of
from tawa.axon.gpu.graph.nodes import (
    AGAIN,
    BYTES,
    Node,
    Shape,
    Tape,
    broadcast_strides,
)
from tawa.base.indices import contiguous_strides

MOST_STEPS = 12
"""Functions that are computed again for one value."""

CHEAP = ("cast", "copy", "+", "-", "*", "negate")
"""Functions that are computed again for each reader of a value that is broadcast: one of them."""

FEWER = 16
"""A value of so many times fewer numbers is written, not computed again for each number."""

MOST_ROUNDS = 4
"""Rounds, of which each may find more in what the one before has changed."""

LAUNCH = 2**22
"""Bytes that memory moves while a kernel starts."""

STEPS = {
    "/": 8, "./": 8, "//": 10, "%": 12, "exp": 6, "log": 8, "sqrt": 8, "rsqrt": 4, "sigmoid": 14,
    "silu": 15, "tanh": 20, "sin": 20, "cos": 20, "erf": 25, "gelu": 30, "softplus": 20, "**": 60,
}  # fmt: skip
"""About how many instructions a function is, if more than one."""

CROWDED = 2.0**-10
"""Bytes that memory moves while a tile of sums is followed by instructions, times their square.

Registers hold the sums, the tensor core waits: two kernels with half of them each do better.
"""


def fused(program: Program) -> list[Group]:
    """The kernels of a program, which is changed where computing again moves fewer bytes."""
    groups = Fusion(program).run()
    for _ in range(MOST_ROUNDS):
        changed = Recomputation(program, groups).changed()
        if changed is None:
            break
        again = Fusion(changed).run()
        if _moved(again) >= _moved(groups):
            break
        program.results, groups = changed.results, again
    return groups


def _moved(groups: Sequence[Group]) -> int:
    """Bytes that kernels read and write, and what their launches and instructions are worth."""
    return sum(
        sum(bytes_read(g.members).values()) + sum(n.bytes for n in g.outputs)
        + LAUNCH + _crowding(g, g.members)
        for g in groups
    )  # fmt: skip


def _crowding(group: Group, *members: Iterable[Node]) -> int:
    """What pointwise functions cost in a kernel that computes tiles of sums."""
    if group.kind not in TILES:
        return 0
    size = group.space[0] * group.space[1]
    whole = [n for nodes in members for n in nodes if n.op == "map" and n.size == size]
    return round(CROWDED * size * sum(STEPS.get(n.function, 1) for n in whole) ** 2)


def bytes_read(members: Iterable[Node]) -> dict[Node, int]:
    """How many bytes some nodes, computed together, read of each tensor in memory."""
    own = frozenset(members)
    found: dict[Node, int] = {}
    for operand in {operand for node in own for operand in node.inputs}:
        base = operand.base
        if base not in own and base.op != "constant" and base.function != "iota":
            found[base] = min(base.bytes, found.get(base, 0) + _bytes_seen(operand))
    for node in own:
        if node.op == "take" and node.inputs[0].base in found:
            table = node.inputs[0].base
            found[table] = min(found[table], node.bytes)
    return found


def _bytes_seen(operand: Node) -> int:
    """Bytes of an operand, of which what is broadcast counts once."""
    count = 1
    strides = operand.strides or contiguous_strides(operand.shape)
    for size, stride in zip(operand.shape, strides, strict=True):
        count *= size if stride else 1
    return count * BYTES[operand.element]


Seen = tuple[Shape, Shape, int]
"""Shape, strides and offset of a view."""


@dataclass(frozen=True)
class Origin:
    """How a value can be computed again: functions in order, and what these read from memory."""

    node: Node
    steps: list[Node]
    leaves: list[Node]


@dataclass
class Recomputation:
    """Decides for each kernel which of its results their readers compute themselves."""

    program: Program
    groups: Sequence[Group]
    users: Users = field(init=False)
    group_of: dict[Node, Group] = field(init=False)
    group_with: dict[int, Group] = field(init=False)
    number_of: dict[int, int] = field(init=False)
    reads: dict[int, dict[Node, int]] = field(init=False)
    fixed: set[Node] = field(init=False)
    """What is written in any case."""

    def __post_init__(self) -> None:
        """Find who reads what, and what has to be written."""
        self.users = users_of(self.program)
        self.group_of = {node: group for group in self.groups for node in group.members}
        self.group_with = {id(group): group for group in self.groups}
        self.number_of = _numbers(self.groups)
        self.reads = {id(group): bytes_read(group.members) for group in self.groups}
        self.fixed = {node.base for node in self.program.results}
        self.fixed.update(places(self.program.nodes()))

    def changed(self) -> Program | None:
        """The program in which readers compute what is worth it; None if nothing is."""
        chosen: dict[Node, Origin] = {}
        for group in reversed(self.groups):  # what later ones read stays
            for origin in self._chosen(group):
                chosen[origin.node] = origin
                self.fixed.update(leaf.base for leaf in origin.leaves)
        if not chosen:
            return None
        program = replace(self.program)
        numbers = {node: self.number_of[id(group)] for node, group in self.group_of.items()}
        copies = _Copies(program.tape, chosen, numbers)
        rewrite(program, copies.reader)
        return program

    def _chosen(self, group: Group) -> list[Origin]:
        """The results of a kernel that cost less computed again, together."""
        if group.kind in ALONE:
            return []
        found = [origin for node in group.outputs if (origin := self._origin(node)) is not None]
        best = self._saved(group, found)
        while found:
            without = [[o for o in found if o is not out] for out in found]
            saved = [self._saved(group, rest) for rest in without]
            if max(saved) <= best:
                break
            best = max(saved)
            found = without[saved.index(best)]
        return self._with_near(group, found if best > 0 else [], max(best, 0))

    def _with_near(self, group: Group, chosen: list[Origin], best: int) -> list[Origin]:
        """Also results that cost less computed again from another one, which is written anyway."""
        gone = {origin.node for origin in chosen}
        kept = {leaf.base for origin in chosen for leaf in origin.leaves}
        for node in reversed(group.outputs):
            others = frozenset(n for n in group.outputs if n is not node and n not in gone)
            origin = None if node in gone | kept else self._origin(node, others)
            if origin is None or others.isdisjoint(leaf.base for leaf in origin.leaves):
                continue
            saved = self._saved(group, [*chosen, origin])
            if saved > best:
                best, chosen = saved, [*chosen, origin]
                gone.add(node)
                kept.update(leaf.base for leaf in origin.leaves)
        return chosen

    def _origin(self, node: Node, written: frozenset[Node] = frozenset()) -> Origin | None:
        """How a result can be computed again, from what is `written`, if all its readers can."""
        if node.op != "map" or node.function == "iota" or node in self.fixed:
            return None
        steps = self._steps(node, written)
        readers = self._readers(node)
        if len(steps) > MOST_STEPS or not readers:
            return None
        own = set(steps)
        leaves = {o: None for s in steps for o in s.inputs if o not in own and not is_number(o)}
        for reader, operand in readers:
            if reader.op not in ("map", "reduce") or reader not in self.group_of:
                return None
            seen = seen_by(reader, operand)
            if math.prod(seen[0]) > node.size and not (len(steps) == 1 and node.function in CHEAP):
                return None
            if any(through(leaf, node.shape, seen) is None for leaf in leaves):
                return None
        return Origin(node, steps, list(leaves))

    def _steps(self, node: Node, written: frozenset[Node]) -> list[Node]:
        """The pointwise functions of its kernel that a value is made by, operands first.

        Those that something `written` is made by are left out.
        """
        members = self.group_of[node].members
        found: dict[Node, None] = {}
        stack = [(node, False)]
        while stack and len(found) <= MOST_STEPS:
            step, done = stack.pop()
            if done:
                found[step] = None
            elif step not in found:
                stack.append((step, True))
                stack.extend(
                    (i, False) for i in step.inputs
                    if i.op == "map" and i in members and i not in written
                    and i.function != "iota"
                    and i.size * FEWER > node.size
                )  # fmt: skip
        return list(found)

    def _readers(self, node: Node) -> list[tuple[Node, Node]]:
        """Who reads a result from memory, and by which operand."""
        group = self.group_of[node]
        views = [user for user in self.users[node] if user.op == "view"]
        pairs = [
            (user, operand)
            for operand in (node, *views)
            for user in self.users.get(operand, [])
            if user.op != "view" and user is not operand
        ]
        return [(u, o) for u, o in pairs if self.group_of.get(u) is not group or o is not node]

    # What it is worth.

    def _saved(self, group: Group, origins: list[Origin]) -> int:
        """Bytes that are not moved if some results of a kernel are computed again."""
        gone = {origin.node for origin in origins}
        needed = {leaf.base for o in origins for leaf in o.leaves if leaf.base in group.members}
        outputs = dict.fromkeys([*(n for n in group.outputs if n not in gone), *needed])
        saved = sum(n.bytes for n in group.outputs) - sum(n.bytes for n in outputs)
        needed_now = _needed(outputs, group)
        saved += sum(self.reads[id(group)].values()) - sum(bytes_read(needed_now).values())
        saved += _crowding(group, group.members) - _crowding(group, needed_now)
        readers: dict[int, list[Origin]] = {}
        for origin in origins:
            for reader in {id(self.group_of[r]) for r, _ in self._readers(origin.node)}:
                readers.setdefault(reader, []).append(origin)
        for reader, read in readers.items():
            before = self.reads[reader]
            after = {base: size for base, size in before.items() if base not in gone}
            for leaf in (leaf for origin in read for leaf in origin.leaves):
                if leaf.base.op != "constant" and leaf.base.function != "iota":
                    after[leaf.base] = max(after.get(leaf.base, 0), _bytes_seen(leaf))
            saved += sum(before.values()) - sum(after.values())
            kernel, more = self.group_with[reader], [o.steps for o in read]
            saved += _crowding(kernel, kernel.members) - _crowding(kernel, kernel.members, *more)
        return saved + (0 if outputs else LAUNCH)


def _numbers(groups: Sequence[Group]) -> dict[int, int]:
    """A new number for each kernel: larger than those of what is computed again by now."""
    known = [reader_of(node) or 0 for group in groups for node in group.members]
    return {id(g): number for number, g in enumerate(groups, 1 + max(known, default=0))}


def _needed(outputs: Iterable[Node], group: Group) -> list[Node]:
    """The members of a kernel that some of its results are computed from."""
    found: dict[Node, None] = {}
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node in group.members and node not in found:
            found[node] = None
            stack.extend(operand.base for operand in node.inputs)
    return list(found)


def is_number(node: Node) -> bool:
    """Whether a node is one known number."""
    return node.op == "constant" and node.size == 1


# Views of what a value is made of.


def seen_by(reader: Node, operand: Node) -> Seen:
    """What a reader sees of the memory of its operand."""
    shape = operand.shape if reader.op == "reduce" else reader.shape
    return shape, *broadcast_strides(operand, shape)


@dataclass(frozen=True)
class _Axis:
    """An axis of a value: its size and step in the value, and its step in another tensor."""

    size: int
    step: int
    other: int


def through(leaf: Node, shape: Shape, seen: Seen) -> Seen | None:
    """How a tensor that is broadcast to a value's shape is seen where the value is seen.

    None if strides can't say it.
    """
    strides, start = broadcast_strides(leaf, shape)
    axes = _axes(shape, strides)
    places = [0] * len(axes)
    sizes, steps, offset = seen
    for number, axis in enumerate(axes):
        places[number] = offset // axis.step % axis.size
        start += places[number] * axis.other
    found: list[int] = []
    for size, step in zip(sizes, steps, strict=True):
        if size == 1 or step == 0:
            found.append(0)
            continue
        at = next((n for n, a in enumerate(axes) if 0 < a.step <= step < a.step * a.size), None)
        if at is None or step % axes[at].step:
            return None
        stride = step // axes[at].step
        places[at] += (size - 1) * stride
        found.append(stride * axes[at].other)
    if any(place >= axis.size for place, axis in zip(places, axes, strict=True)):
        return None
    return sizes, tuple(found), start


def _axes(shape: Shape, strides: Shape) -> list[_Axis]:
    """Axes of a value that are longer than 1; neighbours are one where both lie so."""
    found: list[_Axis] = []
    for size, step, other in zip(shape, contiguous_strides(shape), strides, strict=True):
        if size == 1:
            continue
        if found and found[-1].other == other * size:
            last = found.pop()
            found.append(_Axis(last.size * size, step, other))
        else:
            found.append(_Axis(size, step, other))
    return found


@dataclass
class _Copies:
    """Makes the functions that readers compute again: once for each kernel and view."""

    tape: Tape
    chosen: dict[Node, Origin]
    numbers: dict[Node, int]
    """Of the kernel that computes a node."""

    def reader(self, node: Node, _program: Program, _users: Users) -> Node | None:
        """A reader that computes its operands itself; None if it reads none that are chosen."""
        if node not in self.numbers or node.op not in ("map", "reduce"):
            return None
        inputs = tuple(self._operand(node, operand) for operand in node.inputs)
        if inputs == node.inputs:
            return None
        self.tape.span = node.span
        return self.tape.add(
            node.op, node.function, inputs, node.shape, node.element, axis=node.axis, data=node.data
        )

    def _operand(self, reader: Node, operand: Node) -> Node:
        origin, kernel = self.chosen.get(operand.base), self.numbers[reader]
        if origin is None or (operand is origin.node and self.numbers[operand] == kernel):
            return operand
        own = reader_of(reader)
        number = kernel if own is None else own
        seen = seen_by(reader, operand)
        made: dict[Node, Node] = {}
        for step in origin.steps:
            inputs = tuple(
                made[i] if i in made else self._leaf(i, origin.node.shape, seen)
                for i in step.inputs
            )
            self.tape.span = step.span
            made[step] = self.tape.add(
                "map", step.function, inputs, seen[0], step.element, data=(AGAIN, number)
            )
        return made[origin.node]

    def _leaf(self, leaf: Node, shape: Shape, seen: Seen) -> Node:
        if is_number(leaf):
            return leaf
        found = through(leaf, shape, seen)
        assert found is not None
        return self.tape.view(leaf, *found)
