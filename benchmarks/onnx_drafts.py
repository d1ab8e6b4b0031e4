"""Random ONNX models: uses of operators on inputs whose sizes are symbols and numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

SIZES = (1, 2, 3, 4, 5, 6, 8)
SEQUENCE = "s"
"""Begins the name of a value that is no tensor."""

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


@dataclass
class Draft:
    """A model that is being made: `sizes` are the symbols' values, `feeds` the inputs' data.

    A value is known by its name and its shape for these sizes, symbols as text.
    """

    random: random.Random
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, list[int | str]] = field(default_factory=dict)
    integers: dict[str, np.ndarray] = field(default_factory=dict)
    count: int = 0

    def name(self) -> str:
        """A new name."""
        self.count += 1
        return f"v{self.count}"

    def size(self) -> int | str:
        """A number, or a symbol with a value."""
        if self.random.random() < 0.45:
            return self.random.choice(SIZES)
        if self.sizes and self.random.random() < 0.3:
            return self.random.choice(list(self.sizes))
        symbol = "NMKLPQRSTUVWXYZ"[len(self.sizes)] if len(self.sizes) < 15 else f"n{self.count}"
        self.sizes[symbol] = self.random.choice(SIZES)
        return symbol

    def value(self, size: int | str) -> int:
        """What a size is."""
        return self.sizes[size] if isinstance(size, str) else size

    def tensor(self, rank: int | None = None, shape: list[Any] | None = None) -> str:
        """A new input of numbers, as good as never of unknown rank."""
        name = self.name()
        rank = self.random.randint(0, 4) if rank is None else rank
        sizes = shape if shape is not None else [self.size() for _ in range(rank)]
        self.shapes[name] = sizes
        known = None if self.random.random() < 0.03 else sizes
        self.inputs.append(helper.make_tensor_value_info(name, FLOAT, known))
        return name

    def numbers(self, values: list[int], kind: str = "") -> str:
        """An integer vector: a constant, an input, or computed from the size of an input."""
        name = self.name()
        kind = kind or self.random.choice(("constant", "constant", "shape", "input"))
        if kind == "shape" and values and all(0 <= v <= 64 for v in values):
            return self._from_sizes(values)
        if kind == "input":
            self.inputs.append(helper.make_tensor_value_info(name, INT64, [len(values)]))
            self.integers[name] = np.array(values, np.int64)
        else:
            self.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def _from_sizes(self, values: list[int]) -> str:
        """Numbers as the sizes of an input of symbols, some shifted by a constant."""
        symbols: list[int | str] = []
        for value in values:
            equal = [s for s, v in self.sizes.items() if v == value]
            if equal and self.random.random() < 0.6:
                symbols.append(self.random.choice(equal))
            else:
                symbol = f"k{len(self.sizes)}"
                self.sizes[symbol] = value
                symbols.append(symbol)
        return self.node("Shape", [self.tensor(shape=symbols)])

    def node(self, op: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> str:
        """A node; the name of its first output."""
        names = [self.name() for _ in range(outputs)]
        attributes = {key: value for key, value in attributes.items() if value != []}
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0]

    def axis(self, rank: int) -> int:
        """An axis, rarely one that isn't there."""
        if self.random.random() < 0.04:
            return self.random.choice((rank, -rank - 1, 7))
        return self.random.randint(-rank, rank - 1) if rank else 0

    def pick(self, *options: Any) -> Any:
        """One of some values."""
        return self.random.choice(options)

    def maybe(self, chance: float = 0.5) -> bool:
        """Yes or no."""
        return self.random.random() < chance

    def like(self, name: str, broadcast: bool = False) -> str:
        """Another input whose shape fits an input's, maybe by broadcasting."""
        sizes = list(self.shapes[name])
        if broadcast and self.maybe():
            sizes = sizes[self.random.randint(0, len(sizes)) :]
        for index, size in enumerate(sizes):
            chance = self.random.random()
            if broadcast and chance < 0.25:
                sizes[index] = 1
            elif chance < 0.4:  # another name, or a number, for the same size
                sizes[index] = self._alias(size)
        return self.tensor(shape=sizes)

    def _alias(self, size: int | str) -> int | str:
        value = self.value(size)
        if self.maybe():
            return value
        symbol = f"e{len(self.sizes)}"
        self.sizes[symbol] = value
        return symbol

    def model(self, opset: int) -> ModelProto:
        """The model; every tensor is an output."""
        outputs = [
            onnx.ValueInfoProto(name=name)
            for node in self.nodes
            for name in node.output
            if name and not name.startswith(SEQUENCE)
        ]
        graph = helper.make_graph(self.nodes, "random", self.inputs, outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 9
        return model

    def feeds(self, sizes: dict[str, int]) -> dict[str, np.ndarray]:
        """Data of the inputs at some sizes."""
        noise = np.random.default_rng(len(self.inputs))
        found = dict(self.integers)
        for name, shape in self.shapes.items():
            dims = [sizes[d] if isinstance(d, str) else d for d in shape]
            found[name] = noise.standard_normal(dims).astype(np.float32)
        return found


Maker = Callable[[Draft, "str | None"], str]
MAKERS: dict[str, Maker] = {}
"""How a random use of each operator is made, on a given value or on new inputs."""


def maker(
    *names: str,
) -> Callable[[Callable[[Draft, str, str], str]], Callable[[Draft, str, str], str]]:
    """Register how uses of operators are made."""

    def register(make: Callable[[Draft, str, str], str]) -> Callable[[Draft, str, str], str]:
        for name in names:
            MAKERS[name] = lambda draft, given, name=name: make(
                draft, name, draft.tensor() if given is None else given
            )
        return make

    return register


def rank_of(draft: Draft, name: str) -> int:
    """The number of dimensions of an input; a guess for what a node makes."""
    return len(draft.shapes[name]) if name in draft.shapes else draft.random.randint(1, 4)


def dims_of(draft: Draft, name: str) -> list[int]:
    """The sizes of an input; a guess for what a node makes."""
    if name in draft.shapes:
        return [draft.value(size) for size in draft.shapes[name]]
    return [draft.random.choice(SIZES) for _ in range(draft.random.randint(1, 4))]


@maker("Relu", "Softmax", "Exp", "Identity", "Neg", "Hardmax", "LogSoftmax", "Erf", "Sign")
def unary(draft: Draft, name: str, x: str) -> str:
    return draft.node(name, [x])


@maker("Add", "Mul", "Sub", "Div", "Pow", "Max", "Min", "Sum", "Mean", "PRelu")
def binary(draft: Draft, name: str, x: str) -> str:
    other = draft.like(x, True) if x in draft.shapes else draft.tensor()
    pair = [other, x] if draft.maybe() and name != "PRelu" else [x, other]
    return draft.node(name, pair)


@maker("Where")
def where(draft: Draft, name: str, x: str) -> str:
    other = draft.like(x, True) if x in draft.shapes else draft.tensor()
    return draft.node(name, [draft.node("Greater", [x, other]), x, draft.tensor(0)])


@maker("MatMul")
def matmul(draft: Draft, name: str, x: str) -> str:
    sizes = draft.shapes.get(x, [draft.size()])
    inner = sizes[-1] if sizes else 1
    right = [inner] if draft.maybe(0.2) else [inner, draft.size()]
    if len(right) == 2 and draft.maybe(0.4):
        right = [draft.pick(1, *sizes[:-2], draft.size()), *right]
    return draft.node(name, [x, draft.tensor(shape=right)])


@maker("Gemm")
def gemm(draft: Draft, name: str, x: str) -> str:
    if rank_of(draft, x) != 2:
        x = draft.tensor(2)
    a, b = int(draft.maybe(0.3)), int(draft.maybe(0.3))
    sizes = draft.shapes.get(x, [2, 3])
    inner, outer = sizes[0 if a else -1], draft.size()
    right = draft.tensor(shape=[outer, inner] if b else [inner, outer])
    return draft.node(name, [x, right], transA=a, transB=b)


@maker("Transpose")
def transpose(draft: Draft, name: str, x: str) -> str:
    order = list(range(rank_of(draft, x)))
    draft.random.shuffle(order)
    return draft.node(name, [x], **({"perm": order} if draft.maybe(0.8) else {}))


@maker("Reshape")
def reshape(draft: Draft, name: str, x: str) -> str:
    sizes = dims_of(draft, x)
    whole = int(np.prod(sizes))
    target: list[int] = []
    for _ in range(draft.random.randint(0, 3)):
        factor = draft.pick(*[n for n in range(1, whole + 1) if whole % n == 0] or [1])
        target.append(factor)
        whole //= factor or 1
    target.append(whole)
    draft.random.shuffle(target)
    if draft.maybe(0.5):
        target[draft.random.randrange(len(target))] = -1
    for index in range(min(len(target), len(sizes))):
        if target[index] == sizes[index] and draft.maybe(0.4):
            target[index] = 0
    extra = {"allowzero": 1} if draft.maybe(0.1) else {}
    return draft.node(name, [x, mixed(draft, target)], **extra)


def mixed(draft: Draft, values: list[int]) -> str:
    """Numbers in one vector, or joined from two of different kinds."""
    if len(values) < 2 or draft.maybe():
        return draft.numbers(values)
    cut = draft.random.randint(1, len(values) - 1)
    parts = [draft.numbers(values[:cut]), draft.numbers(values[cut:])]
    return draft.node("Concat", parts, axis=0)


@maker("Flatten")
def flatten(draft: Draft, name: str, x: str) -> str:
    rank = rank_of(draft, x)
    return draft.node(name, [x], axis=draft.random.randint(-rank, rank))


@maker("Squeeze")
def squeeze(draft: Draft, name: str, x: str) -> str:
    if draft.maybe(0.25):
        return draft.node(name, [x])
    ones = [i for i, n in enumerate(dims_of(draft, x)) if n == 1] or [draft.axis(3)]
    return draft.node(name, [x, draft.numbers([draft.pick(*ones)])])


@maker("Unsqueeze")
def unsqueeze(draft: Draft, name: str, x: str) -> str:
    rank = rank_of(draft, x)
    axes = draft.random.sample(range(rank + 2), draft.random.randint(1, 2))
    return draft.node(name, [x, draft.numbers(axes, draft.pick("constant", "input"))])


@maker("Concat")
def concat(draft: Draft, name: str, x: str) -> str:
    sizes = list(draft.shapes.get(x, [draft.size(), draft.size()]))
    if not sizes:
        return draft.node("Identity", [x])
    axis = draft.axis(len(sizes))
    if -len(sizes) <= axis < len(sizes):
        sizes[axis] = draft.size()
    return draft.node(name, [x, draft.tensor(shape=sizes)], axis=axis)


@maker("Split")
def split(draft: Draft, name: str, x: str) -> str:
    sizes = dims_of(draft, x)
    if not sizes:
        return draft.node("Identity", [x])
    axis = draft.random.randint(-len(sizes), len(sizes) - 1)
    count = draft.random.randint(1, 3)
    if draft.maybe(0.5):
        return draft.node(name, [x], count, axis=axis, num_outputs=count)
    cuts = sorted(draft.random.randint(0, sizes[axis]) for _ in range(count - 1))
    ends = [0, *cuts, sizes[axis]]
    parts = [b - a for a, b in pairwise(ends)]
    return draft.node(name, [x, draft.numbers(parts)], count, axis=axis)


@maker("Slice")
def slice_(draft: Draft, name: str, x: str) -> str:
    rank = rank_of(draft, x)
    if not rank:
        return draft.node("Identity", [x])
    count = draft.random.randint(1, rank)
    axes = draft.random.sample(range(rank), count)
    far = [-(2**63), 2**63 - 1, -(2**31), 2**31 - 1]
    bound = [draft.pick(*range(-4, 6), *far) for _ in range(2 * count)]
    steps = [draft.pick(1, 1, 1, 2, 3, -1, -2) for _ in range(count)]
    parts = [bound[:count], bound[count:], axes, steps]
    kinds = [draft.pick("", ""), "", "constant", draft.pick("constant", "constant", "input")]
    return draft.node(name, [x, *(draft.numbers(p, k) for p, k in zip(parts, kinds, strict=True))])


@maker("Gather")
def gather(draft: Draft, name: str, x: str) -> str:
    rank = rank_of(draft, x)
    shape = [draft.random.randint(0, 3) for _ in range(draft.random.randint(0, 2))]
    indices = draft.name()
    draft.constants.append(numpy_helper.from_array(np.zeros(shape, np.int64), indices))
    return draft.node(name, [x, indices], axis=draft.axis(rank))


@maker("Expand")
def expand(draft: Draft, name: str, x: str) -> str:
    sizes = [draft.pick(n, 1, n) if n != 1 else draft.pick(1, 2, 3) for n in dims_of(draft, x)]
    sizes = [draft.pick(1, 2)] * draft.random.randint(0, 2) + sizes
    return draft.node(name, [x, mixed(draft, sizes)])


@maker("Tile")
def tile(draft: Draft, name: str, x: str) -> str:
    repeats = [draft.pick(0, 1, 1, 2, 3) for _ in range(rank_of(draft, x))]
    return draft.node(name, [x, mixed(draft, repeats)])


@maker("Pad")
def pad(draft: Draft, name: str, x: str) -> str:
    pads = [draft.pick(0, 0, 1, 2, -1) for _ in range(2 * rank_of(draft, x))]
    return draft.node(name, [x, mixed(draft, pads)])


@maker("ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2", "ReduceProd")
def reduce(draft: Draft, name: str, x: str) -> str:
    rank = rank_of(draft, x)
    extra: dict[str, Any] = {}
    if draft.maybe(0.7):
        extra["keepdims"] = draft.pick(0, 1)
    if draft.maybe(0.2):
        extra["noop_with_empty_axes"] = draft.pick(0, 1)
    if draft.maybe(0.25):
        return draft.node(name, [x], **extra)
    count = draft.random.randint(0, rank)
    axes = [a - rank * draft.pick(0, 1) for a in draft.random.sample(range(rank), count)]
    return draft.node(name, [x, draft.numbers(axes, draft.pick("constant", "input"))], **extra)


@maker("ArgMax", "ArgMin")
def arg(draft: Draft, name: str, x: str) -> str:
    return draft.node(name, [x], axis=draft.axis(rank_of(draft, x)), keepdims=draft.pick(0, 1))


@maker("TopK")
def top_k(draft: Draft, name: str, x: str) -> str:
    k = draft.numbers([draft.random.randint(0, 3)])
    return draft.node(name, [x, k], 2, axis=draft.axis(rank_of(draft, x)))


@maker("CumSum")
def cumsum(draft: Draft, name: str, x: str) -> str:
    axis = draft.name()
    at = np.array(draft.axis(rank_of(draft, x)))
    draft.constants.append(numpy_helper.from_array(at, axis))
    return draft.node(name, [x, axis])


@maker("NonZero")
def non_zero(draft: Draft, name: str, x: str) -> str:
    return draft.node(name, [x])


@maker("Shape", "Size")
def shape(draft: Draft, name: str, x: str) -> str:
    if name == "Size" or draft.maybe():
        return draft.node(name, [x])
    return draft.node(name, [x], start=draft.pick(0, 1, -1, -6), end=draft.pick(1, 2, -1, 9))


@maker("OneHot")
def one_hot(draft: Draft, name: str, x: str) -> str:
    indices = draft.node("Cast", [x], to=INT64)
    values = draft.name()
    draft.constants.append(numpy_helper.from_array(np.array([0, 1], np.float32), values))
    depth = draft.numbers([draft.random.randint(1, 4)])
    return draft.node(name, [indices, depth, values], axis=draft.axis(rank_of(draft, x) + 1))


@maker("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool")
def window(draft: Draft, name: str, x: str) -> str:
    if x not in draft.shapes or len(draft.shapes[x]) < 3 or draft.value(draft.shapes[x][1]) == 0:
        x = draft.tensor(draft.random.randint(3, 4))
    sizes = draft.shapes[x]
    rank = len(sizes) - 2
    kernel = [draft.random.randint(1, 3) for _ in range(rank)]
    extra: dict[str, Any] = {}
    if draft.maybe(0.6):
        extra["strides"] = [draft.random.randint(1, 3) for _ in range(rank)]
    if draft.maybe(0.3):
        extra["dilations"] = [draft.random.randint(1, 2) for _ in range(rank)]
    if draft.maybe(0.25):
        extra["auto_pad"] = draft.pick("SAME_UPPER", "SAME_LOWER", "VALID")
    elif draft.maybe(0.6):
        extra["pads"] = [draft.random.randint(0, 1) for _ in range(2 * rank)]
    if "Pool" in name:
        if draft.maybe(0.4) and name != "LpPool":
            extra["ceil_mode"] = 1
        return draft.node(name, [x], kernel_shape=kernel, **extra)
    out = draft.size()
    weights = [out, sizes[1]] if name == "Conv" else [sizes[1], out]
    if name == "ConvTranspose" and draft.maybe(0.2) and "strides" in extra:
        extra["output_padding"] = [draft.random.randint(0, 1) for _ in range(rank)]
    return draft.node(name, [x, draft.tensor(shape=[*weights, *kernel])], **extra)


@maker("GlobalAveragePool", "GlobalMaxPool")
def global_pool(draft: Draft, name: str, x: str) -> str:
    return draft.node(name, [x if rank_of(draft, x) > 2 else draft.tensor(4)])


@maker("Resize")
def resize(draft: Draft, name: str, x: str) -> str:
    rank = rank_of(draft, x)
    if not 2 <= rank <= 4:
        x, rank = draft.tensor(4), 4
    if draft.maybe(0.4):
        sizes = [*dims_of(draft, x)[:2], *(draft.random.randint(1, 9) for _ in range(rank - 2))]
        return draft.node(name, [x, "", "", mixed(draft, sizes[:rank])], mode="nearest")
    scales = [1.0] * 2 + [draft.pick(0.5, 2.0, 0.6, 1.5, 0.99999, 1 / 3, 0.7)] * (rank - 2)
    given = draft.name()
    draft.constants.append(numpy_helper.from_array(np.array(scales[:rank], np.float32), given))
    return draft.node(name, [x, "", given], mode="nearest")


@maker("DepthToSpace", "SpaceToDepth")
def blocks(draft: Draft, name: str, x: str) -> str:
    shape = [draft.size(), draft.pick(4, 8, draft.size()), draft.pick(2, 4), draft.pick(2, 6)]
    return draft.node(name, [draft.tensor(shape=shape)], blocksize=2)


@maker("LayerNormalization")
def layer_norm(draft: Draft, name: str, x: str) -> str:
    sizes = draft.shapes.get(x, [])
    if not sizes:
        x = draft.tensor(3)
        sizes = draft.shapes[x]
    axis = draft.random.randint(0, len(sizes) - 1)
    return draft.node(name, [x, draft.tensor(shape=list(sizes[axis:]))], axis=axis)


@maker("Einsum")
def einsum(draft: Draft, name: str, x: str) -> str:
    equation, left, right = draft.pick(
        ("ij,jk->ik", 2, 2), ("bij,bjk->bik", 3, 3), ("...ij,jk->...ik", 3, 2), ("ij,ij->", 2, 2),
        ("ij,kj->ikj", 2, 2), ("i,j->ij", 1, 1), ("bij,bij->b", 3, 3), ("ij,jk", 2, 2),
    )  # fmt: skip
    terms = equation.split("->")[0].replace("...", "e").split(",")
    letters = {c: draft.size() for c in "".join(terms)}
    inputs = [
        draft.tensor(shape=[1 if draft.maybe(0.1) else letters[c] for c in term]) for term in terms
    ]
    del left, right
    return draft.node(name, inputs, equation=equation)


@maker("Range")
def range_(draft: Draft, name: str, x: str) -> str:
    parts = [draft.pick(0, 1, 5, -2), draft.pick(0, 3, 7, -4), draft.pick(1, 2, -1, -3)]
    kinds = [draft.numbers([part]) for part in parts]
    zero = draft.numbers([0], "constant")
    scalars = [draft.node("Squeeze", [kind, zero]) for kind in kinds]
    return draft.node(name, scalars)


@maker("ConstantOfShape")
def constant_of_shape(draft: Draft, name: str, x: str) -> str:
    return draft.node(name, [arithmetic(draft)])


def arithmetic(draft: Draft) -> str:
    """Small numbers computed from sizes."""
    left = draft.numbers([draft.random.randint(0, 6)], draft.pick("shape", "shape", "constant"))
    for _ in range(draft.random.randint(0, 3)):
        op = draft.pick("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min")
        amount = draft.random.randint(1, 4)
        # onnxruntime ends the process when it divides integers by 0
        safe = op in ("Div", "Mod")
        right = draft.numbers([amount], "constant" if safe else draft.pick("shape", "constant"))
        left = draft.node(op, [left, right])
    return left


@maker("If")
def if_(draft: Draft, name: str, x: str) -> str:
    """Two uses of other operators on one value; the condition is about a size, or an input."""
    condition = draft.name()
    if draft.maybe():
        draft.inputs.append(helper.make_tensor_value_info(condition, BOOL, []))
        draft.integers[condition] = np.array(draft.maybe())
    else:
        size = draft.numbers([draft.random.randint(0, 2)], "shape")
        one = draft.numbers([draft.random.randint(0, 2)], "constant")
        equal = draft.node("Equal", [size, one])
        condition = draft.node("Squeeze", [equal])
    branches: list[onnx.GraphProto] = []
    for _ in range(2):
        outer, draft.nodes = draft.nodes, []
        result = MAKERS[draft.pick(*INNER)](draft, x)
        output = helper.make_tensor_value_info(result, FLOAT, None)
        branches.append(helper.make_graph(draft.nodes, "branch", [], [output]))
        draft.nodes = outer
    return draft.node(name, [condition], then_branch=branches[0], else_branch=branches[1])


@maker("Loop")
def loop(draft: Draft, name: str, x: str) -> str:
    """A use of another operator as a loop's body."""
    turns, going, state = draft.name(), draft.name(), draft.name()
    draft.inputs.append(helper.make_tensor_value_info(turns, INT64, []))
    draft.integers[turns] = np.array(draft.random.randint(0, 3))
    turn, again = draft.name(), draft.name()
    outer, draft.nodes = draft.nodes, []
    draft.nodes.append(helper.make_node("Identity", [going], [again]))
    if x in draft.shapes:
        draft.shapes[state] = draft.shapes[x]
    after = MAKERS[draft.pick(*INNER)](draft, state)
    draft.shapes.pop(state, None)
    scanned = draft.node("Identity", [after])
    body = helper.make_graph(
        draft.nodes, "body",
        [helper.make_tensor_value_info(turn, INT64, []),
         helper.make_tensor_value_info(going, BOOL, []),
         helper.make_tensor_value_info(state, FLOAT, None)],
        [helper.make_tensor_value_info(again, BOOL, []),
         helper.make_tensor_value_info(after, FLOAT, None),
         helper.make_tensor_value_info(scanned, FLOAT, None)],
    )  # fmt: skip
    draft.nodes = outer
    return draft.node(name, [turns, "", x], 2, body=body)


INNER = ("Relu", "Add", "Reshape", "Squeeze", "Transpose", "Concat", "Identity", "ReduceSum",
         "Slice", "Expand", "Unsqueeze", "Flatten")  # fmt: skip
"""The operators that branches and loops are made of."""


def random_model(seed: int, operators: int) -> Draft:
    """A model of so many operators, each on a new input or on what came before."""
    draft = Draft(random.Random(seed))
    value: str | None = None
    for _ in range(operators):
        given = value if value is not None and draft.maybe(0.8) else None
        value = MAKERS[draft.pick(*MAKERS)](draft, given)
    return draft


def valuations(draft: Draft) -> Iterator[dict[str, int]]:
    """Sizes of the symbols: the model's own, and others, some of them 0 or 1."""
    yield dict(draft.sizes)
    for _ in range(2):
        yield {s: n + draft.pick(0, 1, 2) for s, n in draft.sizes.items()}
    yield {s: 0 if draft.maybe(0.3) else n for s, n in draft.sizes.items()}
    yield {s: 1 if draft.maybe(0.4) else n for s, n in draft.sizes.items()}
