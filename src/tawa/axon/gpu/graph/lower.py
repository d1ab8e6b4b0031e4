"""Rewrites a traced graph so that fewer, larger kernels come out of it.

1. Functions of a computed tensor in another shape are computed in its own shape, where it is.
2. Sums of products become one product of several pairs of operands (one accumulator).
3. Parts of a product's columns become products with parts of the weights, so that what follows
   them is computed where the products are.
4. f32 products become sums of three tf32 products.
5. Tensors that are joined are written straight to their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tawa.axon.gpu.graph.errors import NotForGpu
from tawa.axon.gpu.graph.nodes import Node, Shape, Tape, layout, reshaped_strides
from tawa.base.indices import contiguous_strides

SUMS = ("+", ".+")

FEW = 2**16
"""Numbers that are read again sooner than that a kernel is started for them."""

Users = dict[Node, list[Node]]


@dataclass
class Program:
    """A graph with its results."""

    tape: Tape
    results: list[Node]

    def nodes(self) -> list[Node]:
        """The nodes that the results need, operands first."""
        return live(self.results)


def live(results: Iterable[Node]) -> list[Node]:
    """The nodes that results depend on, operands first."""
    found: dict[Node, None] = {}
    stack = [(node, False) for node in reversed(list(results))]
    while stack:
        node, done = stack.pop()
        if done:
            found[node] = None
        elif node not in found:
            stack.append((node, True))
            stack.extend((i, False) for i in reversed(node.inputs) if i not in found)
    return list(found)


def users_of(program: Program) -> Users:
    """Who reads each node; a result is also read by itself, as nobody else may change it."""
    users: Users = {}
    for node in program.nodes():
        for operand in node.inputs:
            users.setdefault(operand, []).append(node)
    for result in program.results:
        users.setdefault(result, []).append(result)
    return users


def lowered(tape: Tape, results: list[Node], precision: str) -> Program:
    """The program after all rewrites. Raises NotForGpu."""
    program = Program(tape, results)
    _compute_in_own_shapes(program)
    rewrite(program, _sum_of_products)
    rewrite(program, _columns)
    rewrite(program, lambda node, p, _: _tensor_core_product(node, p.tape, precision))
    rewrite(program, _placed)
    program.results = [_result(tape, node) for node in program.results]
    return program


Rewrite = Callable[[Node, Program, Users], "Node | None"]


def rewrite(program: Program, change: Rewrite) -> None:
    """Replace nodes, operands first; a rewrite sees the users in the graph as it was."""
    users = users_of(program)
    new: dict[Node, Node] = {}
    for node in program.nodes():
        found = change(node, program, users)
        new[node] = _rebuilt(node if found is None else found, new, program.tape)
    program.results = [new[node] for node in program.results]


def _rebuilt(node: Node, new: dict[Node, Node], tape: Tape) -> Node:
    """A node with its operands replaced by what they became."""
    if node in new:
        return new[node]
    inputs = tuple(_rebuilt(operand, new, tape) for operand in node.inputs)
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    tape.span = node.span
    if node.op == "view":
        return tape.view(inputs[0], node.shape, node.strides, node.offset)
    if node.op == "window":
        inputs = (inputs[0].base,)
    found = tape.add(
        node.op, node.function, inputs, node.shape, node.element, axis=node.axis, data=node.data
    )
    if node in tape.images:
        tape.images.add(found)
    return found


# Shapes.


def _compute_in_own_shapes(program: Program) -> None:
    """Compute functions of reshaped tensors in these tensors' shapes, and reshape then.

    Rows of another length would be another kernel's. What goes into a reduction stays as it is:
    that is along the rows of the new shape.
    """
    nodes, users = program.nodes(), users_of(program)
    reduced: set[Node] = set()
    for node in reversed(nodes):
        if any(
            user.op == "reduce" or (user in reduced and user.shape == node.shape)
            for user in users[node]
        ):
            reduced.add(node)
    new: dict[Node, Node] = {}
    for node in nodes:
        found = _rebuilt(node, new, program.tape)
        if node.op == "map" and node.shape and node not in reduced:
            found = _in_own_shape(found, program.tape)
        new[node] = found
    program.results = [new[node] for node in program.results]


def _in_own_shape(node: Node, tape: Tape) -> Node:
    """A function in the shape of its reshaped operand, if all others can be seen in it."""
    whole = [i for i in node.inputs if i.shape == node.shape]
    shapes = {i.base.shape for i in whole if is_reshape(i)}
    if len(shapes) != 1:
        return node
    target = shapes.pop()
    if target[-1:] == node.shape[-1:]:
        return node
    operands = [_seen_in(operand, node.shape, target, tape) for operand in node.inputs]
    if None in operands:
        return node
    tape.span = node.span
    inputs = tuple(operand for operand in operands if operand is not None)
    found = tape.add("map", node.function, inputs, target, node.element)
    return tape.reshape(found, node.shape)


def _seen_in(operand: Node, shape: Shape, target: Shape, tape: Tape) -> Node | None:
    """An operand of something of one shape, in another; None if memory does not say so.

    Functions of vectors are computed anew.
    """
    if operand.op == "map" and operand.shape == shape and operand.function != "iota":
        if any(i.op != "map" and _is_much(i.base, operand.size) for i in operand.inputs):
            return None
        inputs = [_seen_in(i, shape, target, tape) for i in operand.inputs]
        if not inputs or None in inputs:
            return None
        tape.span = operand.span
        own = tuple(i for i in inputs if i is not None)
        return tape.add("map", operand.function, own, target, operand.element)
    if operand.op not in ("view", "input", "constant") and operand.shape == shape:
        return None
    strides, offset = layout(tape.broadcast(operand, shape))
    steps = reshaped_strides(shape, strides, target)
    return None if steps is None else tape.view(operand, target, steps, offset)


def _is_much(base: Node, size: int) -> bool:
    """Whether reading numbers once more, as many as a function has, is not worth fewer kernels."""
    return base.size == size and (base.op not in ("input", "constant") or size > FEW)


# Sums of products.


def _sum_of_products(node: Node, program: Program, users: Users) -> Node | None:
    if node.op != "map" or node.function not in SUMS or node.element not in FLOATS:
        return None
    terms = _terms(node, users)
    products = [t for t in terms if _joins(t, node, users)]
    products = [t for t in products if _lies(t) == _lies(products[0])]
    if len({t.axis for t in products}) != 1 or len(products) < 2:
        return None
    pairs = tuple(operand for product in products for operand in product.inputs)
    tape = program.tape
    tape.span = node.span
    first = products[0]
    found = tape.add("dot", "", pairs, node.shape, node.element, axis=first.axis)
    for term in terms:
        if term not in products:
            found = tape.map("+", found, term)
    return found


FLOATS = ("f16", "bf16", "f32")


def _joins(term: Node, node: Node, users: Users) -> bool:
    return term.op == "dot" and term.shape == node.shape and len(users[term]) == 1


def _lies(product: Node) -> list[bool]:
    """Which operands lie row by row: only loops whose tiles lie alike share shared memory."""
    return [layout(operand)[0][-1] == 1 for operand in product.inputs]


def _terms(node: Node, users: Users) -> list[Node]:
    found: list[Node] = []
    for operand in node.inputs:
        inner = operand.op == "map" and operand.function in SUMS and len(users[operand]) == 1
        found.extend(_terms(operand, users) if inner and operand.shape == node.shape else [operand])
    return found


# Parts of columns.


def _columns(node: Node, program: Program, users: Users) -> Node | None:
    base = node.base
    if not _is_part(node) or not all(_is_part(user) for user in users[base]):
        return None
    if not _reaches_product(base, users):
        return None
    return _part_of(base, node.offset, node.shape[-1], program.tape, users)


def _is_part(node: Node) -> bool:
    """Whether a node is a view of some of the columns of a computed node."""
    if node.op != "view" or node.base.op not in ("map", "dot"):
        return False
    base = node.base
    return (
        node.strides == contiguous_strides(base.shape)
        and node.shape[:-1] == base.shape[:-1]
        and node.offset + node.shape[-1] <= base.shape[-1]
    )


def _reaches_product(node: Node, users: Users) -> bool:
    if node.op == "dot":
        return True
    return node.op == "map" and any(
        _reaches_product(operand, users) for operand in node.inputs if len(users[operand]) == 1
    )


def _part_of(node: Node, start: int, size: int, tape: Tape, users: Users) -> Node:
    """Columns `start` to `start + size` of a node, computed from parts of its operands."""
    if not node.shape or node.shape[-1] == 1:
        return node
    shape = (*node.shape[:-1], size)
    shared = any(user.op != "view" for user in users[node]) and len(users[node]) > 1
    if node.op == "dot" and not shared:
        pairs = [
            operand if number % 2 == 0 else tape.part(operand, -1, start, size)
            for number, operand in enumerate(node.inputs)
        ]
        return tape.add("dot", "", tuple(pairs), shape, node.element, axis=node.axis)
    if node.op == "map" and node.inputs and not shared:
        inputs = [_part_of(operand, start, size, tape, users) for operand in node.inputs]
        return tape.add("map", node.function, tuple(inputs), shape, node.element)
    return tape.part(node, -1, start, size)


# Products on the tensor cores.


def _tensor_core_product(node: Node, tape: Tape, precision: str) -> Node | None:
    if node.op != "dot" or node.data is not None or node.element in ("f16", "bf16"):
        return None
    if node.element != "f32":
        raise NotForGpu(
            f"products of {node.element} matrices have no GPU kernel", span=node.span,
            hint="cast to f32",
        )  # fmt: skip
    tape.span = node.span
    pairs: list[Node] = []
    loops: list[int] = []
    for a, b in zip(node.inputs[::2], node.inputs[1::2], strict=True):
        if precision == "tf32":
            pairs += [a, _transposed(tape, "copy", b)]
            loops.append(len(loops))
            continue
        high, low = (tape.map(f, a) for f in ("tf32_high", "tf32_low"))
        b_high, b_low = (_transposed(tape, f, b) for f in ("tf32_high", "tf32_low"))
        # The small terms first: they are lost if they are added to the large one.
        loops += [len(pairs)] * 3
        pairs += [low, b_high, high, b_low, high, b_high]
    return tape.add("dot", "", tuple(pairs), node.shape, "f32", axis=node.axis, data=tuple(loops))


def _transposed(tape: Tape, function: str, b: Node) -> Node:
    """A function of a matrix, written so that it is contiguous along K, as tf32 demands."""
    axes = (*range(len(b.shape) - 2), len(b.shape) - 1, len(b.shape) - 2)
    turned = tape.permute(b, axes)
    strides, _ = layout(turned)
    if function == "copy" and strides[-1] == 1:
        return b
    return tape.permute(tape.map(function, turned), axes)


# Joined tensors and results.


def _placed(node: Node, program: Program, users: Users) -> Node | None:
    if node.op != "join" or node.data is not None:
        return None
    tape = program.tape
    pieces: list[Node] = []
    for number, piece in enumerate(node.inputs):
        if not _written_there(piece, node, users):
            piece = tape.add("map", "copy", (piece,), piece.shape, piece.element,
                             data=(node.number, number))  # fmt: skip
        pieces.append(piece)
    return tape.add(
        "join", "", tuple(pieces), node.shape, node.element, axis=node.axis, data="placed"
    )


def _written_there(piece: Node, joined: Node, users: Users) -> bool:
    """Whether what computes a piece writes it to its place: nothing else reads it.

    Kernels that other functions join copy it there themselves.
    """
    made = piece.base
    if made.op != "attention_slopes" and (made.op, made.function) != ("also", "values"):
        return False
    alone = all(
        user is piece or user is joined or user.op == "also"
        for node in (piece, made)
        for user in users.get(node, [])
    )
    if not alone or joined.inputs.count(piece) > 1 or not (piece is made or is_reshape(piece)):
        return False
    return reshaped_strides(piece.shape, contiguous_strides(joined.shape), made.shape) is not None


def places(nodes: Iterable[Node]) -> dict[Node, tuple[Node, Shape, int]]:
    """For what is written to another tensor's memory: that tensor, and strides and offset in it.

    These are the copies into a joined tensor, and the zeros that something is added to.
    """
    found: dict[Node, tuple[Node, Shape, int]] = {}
    for node in nodes:
        if node.op == "put":
            found[node.inputs[0]] = (node, contiguous_strides(node.shape), 0)
        if (node.op, node.function) == ("also", "sums"):
            found[node.inputs[0].inputs[-1]] = (node, contiguous_strides(node.shape), 0)
        if node.op != "join":
            continue
        strides = contiguous_strides(node.shape)
        at = 0
        for piece in node.inputs:
            own = reshaped_strides(piece.shape, strides, piece.base.shape)
            found[piece.base] = (node, own or strides, at * strides[node.axis])
            at += piece.shape[node.axis]
    return found


def _result(tape: Tape, node: Node) -> Node:
    """A result that is a view or an argument is copied: results are new arrays.

    Images that lie pixel by pixel are given as they lie.
    """
    if tape.by_pixels(node):
        return node
    if node.op in ("input", "constant") or (node.op == "view" and not is_reshape(node)):
        return tape.copy(node)
    return node


def is_reshape(node: Node) -> bool:
    """Whether a view is the whole of a computed node in another shape."""
    return (
        node.op == "view"
        and node.base.op not in ("input", "constant")
        and node.base.function != "iota"
        and node.offset == 0
        and node.size == node.base.size
        and _plain(node)
    )


def _plain(node: Node) -> bool:
    """Whether the strides of axes longer than 1 are those of a contiguous tensor."""
    expected = contiguous_strides(node.shape)
    return all(
        size == 1 or a == b for size, a, b in zip(node.shape, node.strides, expected, strict=True)
    )
