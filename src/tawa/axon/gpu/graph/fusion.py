"""Which nodes are computed together: a group is a kernel.

| kind | what a program of the kernel computes |
|---|---|
| `points` | numbers of one or more tensors of one size |
| `rows` | whole rows, with reductions along them |
| `product` | a tile of one or more products of one size, and what follows them pointwise |
| `convolution` | a tile of pixels and filters, and what follows them pointwise |
| `attention` | query rows of one head, or derivatives by rows of one head |
| `slopes` | a step of a convolution's derivatives |
| `scatter` | rows that are added to a table, by index |

Inside a group, numbers stay in registers. A node joins the group of an operand if it is computed
over the same rows and columns, reads what the group computes number by number, and if no other
operand has to wait for the group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tawa.axon.gpu.graph.lower import Program, Users, is_reshape, places, users_of
from tawa.axon.gpu.graph.nodes import AGAIN, Node, layout

MAX_ACCUMULATORS = 4
"""Products in one kernel."""
KINDS = {
    "dot": "product", "conv": "convolution", "attention": "attention",
    "attention_slopes": "attention", "slopes": "slopes",
}  # fmt: skip
"""The kind of a kernel that begins with an operation."""
ALONE = {"attention", "slopes"}
"""Kinds of kernels that nothing joins."""
TILES = {"product", "convolution"}
"""Kinds of kernels that compute a tile of sums, which pointwise functions may follow."""

Space = tuple[int, int]
"""Rows and columns."""


@dataclass(eq=False)
class Group:
    """Nodes of one kernel, in order, and their rows and columns."""

    kind: str
    space: Space
    members: dict[Node, None] = field(default_factory=dict[Node, None])
    outputs: list[Node] = field(default_factory=list[Node])
    """Members that are written to memory."""

    @property
    def products(self) -> list[Node]:
        """The members that are products of matrices."""
        return [node for node in self.members if node.op == "dot"]


@dataclass
class Fusion:
    """Groups of a program, as they are being formed."""

    program: Program
    users: Users = field(init=False)
    group_of: dict[Node, Group] = field(default_factory=dict[Node, Group])
    _reduced: dict[Node, bool] = field(default_factory=dict[Node, bool])
    _position: dict[Node, int] = field(default_factory=dict[Node, int])
    """Of each node in an order in which operands come first."""

    def __post_init__(self) -> None:
        """Find who reads what."""
        self.users = users_of(self.program)

    def run(self) -> list[Group]:
        """The groups, in an order in which they can run."""
        nodes = self.program.nodes()
        self._position = {node: number for number, node in enumerate(nodes)}
        for node in nodes:
            if node.op in ("map", "reduce", "take", "window") and node.function != "iota":
                self._visit(node)
            elif node.op == "put":
                self._new("scatter", node, space_of(node.inputs[1]))
            elif node.op in KINDS:
                self._new(KINDS[node.op], node, space_of(node))
            elif node.op == "also":
                group = self.group_of[node] = self.group_of[node.inputs[0]]
                group.members[node] = None
        self._side_by_side()
        self._rows_side_by_side()
        ordered = self._ordered()
        self._find_outputs()
        return ordered

    def _new(self, kind: str, node: Node, space: Space) -> Group:
        group = Group(kind, space, {node: None})
        self.group_of[node] = group
        return group

    def _visit(self, node: Node) -> None:
        """Put a pointwise function or reduction into a group."""
        reduces = node.op == "reduce"
        space = space_of(node.inputs[0]) if reduces else space_of(node)
        chosen: Group | None = None
        for operand in node.inputs if node.op != "window" else ():
            group = self._near(operand)
            if group is None or group is chosen or not self._takes(group, node, space):
                continue
            if reader_of(node) not in (None, reader_of(operand)):
                continue  # it is its reader's, wherever its operands come from
            if chosen is None:
                if not self._waits(node, group):
                    chosen = group
            else:
                chosen = self._merged(chosen, group, node) or chosen
        if chosen is None:
            self._new("rows" if reduces else "points", node, space)
            return
        chosen.members[node] = None
        self.group_of[node] = chosen
        if reduces:
            chosen.kind = "rows"

    def _near(self, operand: Node) -> Group | None:
        """The group whose registers hold an operand."""
        source = operand.base if is_reshape(operand) else operand
        if source.op in ("view", "join", "put") or (
            source is not operand and source.shape[-1:] != operand.shape[-1:]
        ):
            return None
        return self.group_of.get(source)

    def _takes(self, group: Group, node: Node, space: Space) -> bool:
        """Whether a node is computed over a group's rows and columns."""
        if node.op == "reduce":
            return group.kind in ("points", "rows") and group.space == space
        if group.kind in ALONE or (node.op == "take" and group.kind != "points"):
            return False
        if group.kind in TILES and self._for_reduction(node):
            return False
        column = group.kind == "rows" and space == (group.space[0], 1)
        if not column and group.space != space:
            return False
        return node.op != "take" or self._near(node.inputs[0]) is not group

    def _for_reduction(self, node: Node) -> bool:
        """Whether a pointwise result only goes into reductions, which belong to a later kernel."""
        if node not in self._reduced:
            self._reduced[node] = all(
                user.op == "reduce"
                or (user.op == "map" and user is not node and user.shape == node.shape
                    and self._for_reduction(user))
                for user in self.users[node]
            )  # fmt: skip
        return self._reduced[node]

    def _waits(self, node: Node, group: Group) -> bool:
        """Whether some operand of a node that would join a group needs the group done first."""
        for operand in node.inputs:
            if self._near(operand) is group:
                continue
            if operand.base in group.members or self._depends(self._sources(operand), group):
                return True
        return False

    def _sources(self, operand: Node) -> list[Group]:
        """The groups that write what an operand reads from memory."""
        base = operand.base
        writers = [i.base for i in base.inputs] if base.op == "join" else [base]
        return [self.group_of[w] for w in writers if w in self.group_of]

    def _depends(self, start: Iterable[Group], target: Group) -> bool:
        """Whether one of some groups is, or needs, a group.

        A group all of whose members come before the first of another doesn't need it.
        """
        stack, seen = list(start), set[int]()
        first = self._position[next(iter(target.members))]
        while stack:
            group = stack.pop()
            if group is target:
                return True
            last = self._position[next(reversed(group.members))]
            if last > first and id(group) not in seen:
                seen.add(id(group))
                stack.extend(self.before(group))
        return False

    def before(self, group: Group) -> list[Group]:
        """The groups that write what a group reads."""
        found: dict[int, Group] = {}
        for node in group.members:
            for operand in node.inputs:
                for source in self._sources(operand):
                    if source is not group:
                        found[id(source)] = source
        return list(found.values())

    def _merged(self, one: Group, other: Group, node: Node | None) -> Group | None:
        """Two groups made one, if nothing forbids it."""
        kinds = {one.kind, other.kind}
        tiles = kinds & TILES
        if kinds & ALONE or (tiles and "rows" in kinds):
            return None
        if one.space != other.space and not _number_a_row(one, other):
            return None
        if kinds == {"convolution"} or len(tiles) > 1:
            return None
        if self._apart(one, other) is False:
            return None
        if kinds == {"product"} and not self._accumulators_fit(one, other):
            return None
        scattered = any(n.op in ("take", "window") for g in (one, other) for n in g.members)
        if tiles and scattered:
            return None
        if node is not None and any(
            self._waits_for(node, group, (one, other)) for group in (one, other)
        ):
            return None
        kind = next((k for k in (*TILES, "rows") if k in kinds), "points")
        members = sorted({**one.members, **other.members}, key=self._position.__getitem__)
        merged = Group(kind, max(one.space, other.space), dict.fromkeys(members))
        for member in members:
            self.group_of[member] = merged
        return merged

    def _waits_for(self, node: Node, group: Group, pair: tuple[Group, Group]) -> bool:
        for operand in node.inputs:
            if self._near(operand) not in pair and (
                operand.base in group.members or self._depends(self._sources(operand), group)
            ):
                return True
        return False

    def _apart(self, one: Group, other: Group) -> bool:
        """Whether neither group reads memory that the other writes, directly or not."""
        for first, second in ((one, other), (other, one)):
            for node in first.members:
                for operand in node.inputs:
                    if self._near(operand) is second and node.op in ("map", "reduce"):
                        continue
                    if self._depends(self._sources(operand), second):
                        return False
        return True

    def _accumulators_fit(self, one: Group, other: Group) -> bool:
        products = [*one.products, *other.products]
        alike = len({(p.axis, len(p.inputs), p.element) for p in products}) == 1
        shared = len({tuple(p.inputs[::2]) for p in products}) == 1
        return alike and shared and len(products) <= MAX_ACCUMULATORS

    def _side_by_side(self) -> None:
        """Merge products of one left operand and one size, and functions of the same operands."""
        groups = {id(g): g for g in self.group_of.values() if g.kind in ("product", "points")}
        first: dict[tuple[object, ...], Group] = {}
        for group in groups.values():
            key = self._signature(group)
            if key in first:
                merged = self._merged(first[key], group, None)
                first[key] = merged or group
            else:
                first[key] = group

    def _rows_side_by_side(self) -> None:
        """Merge reductions of which one reads nothing of its size but what the other reads too."""
        groups = {id(g): g for g in self.group_of.values() if g.kind == "rows"}
        readers: dict[tuple[Space, Node], Group] = {}
        for group in groups.values():
            whole = self._whole_operands(group)
            for key in [(group.space, node) for node in whole]:
                other = readers.get(key)
                if other is None or other is group:
                    continue
                theirs = self._whole_operands(other)
                if whole <= theirs or theirs <= whole:
                    group = self._merged(other, group, None) or group
            readers.update(((group.space, node), group) for node in self._whole_operands(group))

    def _whole_operands(self, group: Group) -> set[Node]:
        """What a kernel reads from memory of the size of its rows and columns."""
        size = group.space[0] * group.space[1]
        return {
            i for node in group.members for i in node.inputs
            if i.size == size and _all_different(i) and self._near(i) is not group
        }  # fmt: skip

    def _signature(self, group: Group) -> tuple[object, ...]:
        """Groups with the same one read the same and have the same rows and columns."""
        if group.kind == "product":
            product = group.products[0]
            return (group.space, product.axis, *product.inputs[::2])
        outside = {i for node in group.members for i in node.inputs if self._near(i) is not group}
        return (group.space, frozenset(outside))

    def _ordered(self) -> list[Group]:
        done: dict[int, Group] = {}
        groups = {id(g): g for g in self.group_of.values()}
        stack = [(group, False) for group in reversed(list(groups.values()))]
        while stack:
            group, ready = stack.pop()
            if ready:
                done[id(group)] = group
            elif id(group) not in done:
                stack.append((group, True))
                stack.extend((g, False) for g in self.before(group) if id(g) not in done)
        return list(done.values())

    def _find_outputs(self) -> None:
        """Members that somebody reads from memory, or that are results."""
        placed = places(self.program.nodes())
        kept = {node.base if node.op == "view" else node for node in self.program.results}
        for node, group in self.group_of.items():
            readers = list(self._readers(node))
            if (
                node in kept
                or node in placed
                or group.kind in ALONE
                or any(
                    self.group_of.get(reader) is not group or not near for reader, near in readers
                )
            ):
                group.outputs.append(node)
        for group in {id(g): g for g in self.group_of.values()}.values():
            order = list(group.members)
            group.outputs.sort(key=order.index)

    def _readers(self, node: Node) -> Iterable[tuple[Node, bool]]:
        """Who reads a node, directly or through views, and whether from registers."""
        group = self.group_of[node]
        for user in self.users.get(node, []):
            if user is node:
                continue
            if user.op == "view":
                for reader in self.users.get(user, []):
                    if reader is not user:
                        yield reader, self._near(user) is group and reader.op in ("map", "reduce")
            elif user.op != "join":
                yield (
                    user,
                    user.op in ("map", "reduce") or (user.op == "take" and node is user.inputs[1]),
                )


def _all_different(operand: Node) -> bool:
    """Whether each number of an operand has its own place in memory: nothing is broadcast."""
    steps = zip(operand.shape, layout(operand)[0], strict=True)
    return all(step or size == 1 for size, step in steps)


def _number_a_row(one: Group, other: Group) -> bool:
    """Whether, of two kernels, one computes a number for each row that the other reduces."""
    few, rows = (one, other) if one.space < other.space else (other, one)
    plain = all(node.op == "map" for node in few.members)
    return (few.kind, rows.kind) == ("points", "rows") and plain and few.space == (rows.space[0], 1)


def reader_of(node: Node) -> int | None:
    """The number of the kernel that computes a function again; None if it is no such function."""
    match node.data:
        case (first, int(number)) if first == AGAIN:
            return number
        case _:
            return None


def space_of(node: Node) -> Space:
    """A node's rows and columns."""
    columns = node.shape[-1] if node.shape else 1
    return node.size // columns if columns else 0, columns
