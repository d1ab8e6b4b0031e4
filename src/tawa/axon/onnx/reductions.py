"""Operators that contract or reduce: sums, products, matrix products, selections."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tawa.axon.onnx.contents import extreme, filled, listed
from tawa.axon.onnx.context import Context, IllFormed, product, rule
from tawa.axon.onnx.progressions import Block
from tawa.axon.onnx.structure import dims_from
from tawa.axon.onnx.values import Value, object_array, tensor
from tawa.axon.sizes.choices import is_not_one
from tawa.axon.sizes.dims import ONE, ZERO, Dim

REDUCTIONS = """ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
ReduceProd ReduceSum ReduceSumSquare""".split()


@rule(*REDUCTIONS)
def reduce(context: Context) -> Value | None:
    """Some axes become 1 or disappear."""
    dims = context.dims(0)
    if dims is None:
        return None
    axes = context.setting("axes", 1)
    keep = context.flag("keepdims", True)
    if axes is None and context.has(1):
        count = context.dims(1)
        number = count[0].constant if count else None
        if number != 0:
            return _reduced_somewhere(context, len(dims), number, keep)
        axes = []
    if not axes:
        if context.flag("noop_with_empty_axes"):
            return tensor(dims)
        axes = list(range(len(dims)))
    result = _reduced(context, dims, axes, keep)
    contents = _reduced_contents(context, keep)
    sign = {"ReduceMax": 1, "ReduceMin": -1}.get(context.node.op_type)
    if sign is not None and len(set(axes)) == len(dims) and context.value(0).progression:
        found = extreme(context, sign)
        shape = tuple(1 for _ in result)
        contents = None if found is None else listed([found], shape, context.value(0).element)
    return Value(result, contents)


def _reduced_somewhere(context: Context, rank: int, number: int | None, keep: bool) -> Value:
    """Reduced along unknown axes: how many of them are different isn't known, unless it is one."""
    if keep or rank == 0:
        return tensor(context.fresh_dims(rank))
    is_one = number is not None and min(number, rank) == 1
    return tensor(context.fresh_dims(rank - 1) if is_one else None)


def _reduced(
    context: Context, dims: tuple[Dim, ...], axes: list[int], keep: bool
) -> tuple[Dim, ...]:
    gone = {context.axis(axis, max(len(dims), 1)) for axis in axes}
    if keep:
        return tuple(ONE if index in gone else dim for index, dim in enumerate(dims))
    return tuple(dim for index, dim in enumerate(dims) if index not in gone)


def _reduced_contents(context: Context, keep: bool) -> np.ndarray | None:
    value = context.value(0)
    symbolic = value.symbolic()
    if symbolic is None or symbolic.ndim != 1:
        return None
    name = context.node.op_type
    if name == "ReduceProd":
        result = product(list(symbolic))
    elif name == "ReduceSum":
        result = sum(symbolic, Dim.of(0))
    else:
        return None
    return object_array([result], (1,) if keep else ())


@rule("ArgMax", "ArgMin")
def arg(context: Context) -> Value | None:
    """One axis becomes 1 or disappears."""
    dims = context.dims(0)
    if dims is None:
        return None
    axes = [context.attribute("axis", 0)]
    return tensor(_reduced(context, dims, axes, context.flag("keepdims", True)))


@rule("MatMul", "MatMulInteger")
def matmul(context: Context) -> Value | None:
    """NumPy's matrix product."""
    return _matmul(context, context.dims(0), context.dims(1))


@rule("QLinearMatMul")
def quantised_matmul(context: Context) -> Value | None:
    """The matrix product of the first and fourth inputs."""
    return _matmul(context, context.dims(0), context.dims(3))


def _matmul(
    context: Context, left: tuple[Dim, ...] | None, right: tuple[Dim, ...] | None
) -> Value | None:
    if left is None or right is None:
        return None
    if not left or not right:
        raise IllFormed("one of its inputs is a scalar")
    one = (ONE, *left) if len(left) == 1 else left
    other = (*right, ONE) if len(right) == 1 else right
    context.equal(one[-1], other[-2])
    stack = context.broadcast(one[:-2], other[:-2])
    rows = () if len(left) == 1 else (one[-2],)
    columns = () if len(right) == 1 else (other[-1],)
    return tensor([*(stack or ()), *rows, *columns])


@rule("Gemm")
def gemm(context: Context) -> Value | None:
    """a @ b + c, a and b possibly transposed."""
    left, right = context.ranked(0, 2), context.ranked(1, 2)
    if left is None or right is None:
        return tensor(context.fresh_dims(2))
    m, k = left[::-1] if context.flag("transA") else left
    other, n = right[::-1] if context.flag("transB") else right
    context.equal(k, other)
    more = context.dims(2) if context.has(2) else None
    if more is not None:
        if len(more) > 2:
            raise IllFormed(f"what is added has {len(more)} dimensions")
        for own, size in zip(reversed(more), (n, m), strict=False):
            if is_not_one(own):
                context.equal(size, own)
    return tensor([m, n])


@rule("Einsum")
def einsum(context: Context) -> Value | None:
    """Axes by letters; `...` stands for leading axes that broadcast."""
    equation = context.attribute("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    letters: dict[str, Dim] = {}
    rest: list[tuple[Dim, ...]] = []
    terms = left.split(",")
    if len(terms) != len(context.inputs):
        raise IllFormed(f"an equation of {len(terms)} terms for {len(context.inputs)} inputs")
    for index, term in enumerate(terms):
        dims = context.dims(index)
        if dims is None:
            return None
        named, more = _einsum_axes(term, dims)
        if "..." in term:
            if rest and len(more) != len(rest[0]):
                raise IllFormed(f"`...` stands for {len(rest[0])} and for {len(more)} dimensions")
            rest.append(more)
        for letter, dim in named:
            known = letters.get(letter, ONE)
            letters[letter] = context.broadcast_dims(known, dim)
        context.solver.settle()
    letters = {letter: context.solver.dim(dim) for letter, dim in letters.items()}
    spread = context.broadcast(*rest) or ()
    if not arrow:
        single = sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
        right = ("..." if "..." in left else "") + "".join(single)
    result: list[Dim] = []
    for part in right.replace("...", "."):
        result.extend(spread if part == "." else [letters[part]])
    return tensor(result)


def _einsum_axes(term: str, dims: tuple[Dim, ...]) -> tuple[list[tuple[str, Dim]], tuple[Dim, ...]]:
    before, dots, after = term.partition("...")
    count = len(before) + len(after)
    if len(dims) < count or (not dots and len(dims) > count):
        raise IllFormed(f"`{term}` is an input of {len(dims)} dimensions")
    if not dots:
        return list(zip(before, dims, strict=True)), ()
    end = len(dims) - len(after)
    named = [*zip(before, dims, strict=False), *zip(after, dims[end:], strict=True)]
    return named, dims[len(before) : end]


@rule("TopK")
def top_k(context: Context) -> list[Value] | None:
    """The size of one axis becomes k."""
    dims = context.dims(0)
    if dims is None:
        return None
    axis = context.axis(context.attribute("axis", -1), len(dims))
    if "k" in context.attributes:
        k = Dim.of(context.attribute("k"))
    else:
        sizes = context.sizes(1)
        k = sizes[0] if sizes else context.fresh()
    context.at_least(k, 0)
    context.at_least(dims[axis] - k, 0)
    return [tensor([*dims[:axis], k, *dims[axis + 1 :]])] * 2


@rule("Det")
def det(context: Context) -> Value | None:
    """A number for each square matrix."""
    dims = context.dims(0)
    if dims is None:
        return None
    if len(dims) < 2:
        raise IllFormed(f"a matrix of {len(dims)} dimensions")
    context.equal(dims[-1], dims[-2])
    return tensor(dims[:-2])


@rule("NonZero")
def non_zero(context: Context) -> Value:
    """As many columns as there are numbers other than 0."""
    dims = context.dims(0)
    rank = Dim.of(len(dims)) if dims else context.fresh()
    value = context.value(0)
    if value.numbers is not None:
        return tensor([rank, Dim.of(int(np.count_nonzero(value.numbers)))])
    if dims is None or value.fill is None:
        return tensor([rank, context.fresh()])
    if value.fill and len(dims) == 1:
        return filled(context, (ONE, dims[0]), [Block(ONE, ZERO, (ZERO, ONE))], TensorProto.INT64)
    return tensor([rank, product(dims) if value.fill else ZERO])


@rule("Compress")
def compress(context: Context) -> Value | None:
    """Some slices along an axis, or some numbers of all."""
    dims = context.dims(0)
    axis = context.attribute("axis")
    if dims is None:
        return tensor([context.fresh()]) if axis is None else None
    if axis is None:
        return tensor([_chosen(context, product(dims))])
    axis = context.axis(axis, len(dims))
    return tensor([*dims[:axis], _chosen(context, dims[axis]), *dims[axis + 1 :]])


def _chosen(context: Context, size: Dim) -> Dim:
    """How many of a size are chosen; a condition that goes on after the end chooses nothing more.

    They are known if the size is, or reaches the last that is chosen.
    """
    condition = context.value(1).numbers
    if condition is None:
        return context.fresh()
    places = np.flatnonzero(condition)
    most, least = size.most(), context.least(size) or 0
    inside = int(np.count_nonzero(places < least))
    known = most == least or inside == len(places)
    return Dim.of(inside) if known else context.fresh()


@rule("Unique")
def unique(context: Context) -> list[Value] | None:
    """As many as there are different numbers or slices."""
    dims = context.dims(0)
    axis = context.attribute("axis")
    if dims is None:
        return None
    if axis is None:
        count = _different(context, product(dims), None)
        return [tensor([count]), tensor([count]), tensor([product(dims)]), tensor([count])]
    axis = context.axis(axis, len(dims))
    count = _different(context, dims[axis], axis)
    values = tensor([*dims[:axis], count, *dims[axis + 1 :]])
    return [values, tensor([count]), tensor([dims[axis]]), tensor([count])]


def _different(context: Context, size: Dim, axis: int | None) -> Dim:
    """How many different numbers or slices there are: of none or one, as many."""
    if size.constant is not None and size.constant <= 1:
        return size
    numbers = context.value(0).numbers
    if numbers is None or numbers.dtype.kind not in "iub":  # runtimes count NaNs in two ways
        return context.fresh()
    return Dim.of(np.unique(numbers, axis=axis).shape[axis or 0])


@rule("NonMaxSuppression")
def non_max_suppression(context: Context) -> Value:
    """As many rows of three as boxes are chosen."""
    return tensor([context.fresh(), Dim.of(3)])


@rule("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(context: Context) -> list[Value]:
    """A number, or one for each label; and the logarithms of the probabilities."""
    reduced = context.attribute("reduction", "mean") != "none"
    scores, labels = context.dims(0), context.dims(1)
    if scores is not None and labels is not None:
        context.same((scores[0], *scores[2:]), labels)
    return [tensor([] if reduced else context.dims(1)), tensor(scores)]


@rule("DynamicQuantizeLinear")
def dynamic_quantize(context: Context) -> list[Value]:
    """The shape of the input, a scale and a zero point."""
    return [tensor(context.dims(0)), tensor([]), tensor([])]


@rule("MelWeightMatrix")
def mel(context: Context) -> Value:
    """Frequencies by bands."""
    bins, length = context.sizes(0), context.sizes(1)
    rows = length[0] // 2 + 1 if length else context.fresh()
    return tensor([rows, bins[0] if bins else context.fresh()])


@rule("BlackmanWindow", "HannWindow", "HammingWindow")
def window(context: Context) -> Value:
    """As long as the input says."""
    sizes = context.sizes(0)
    return tensor([sizes[0] if sizes else context.fresh()])


SIGNALS = ("its input is complex", "its input, the spectrum, is real")


@rule("DFT")
def dft(context: Context) -> Value | None:
    """The transformed axis may be cut or padded; half of it if one-sided."""
    dims = context.dims(0)
    axis = context.number(2, -2) if context.opset >= 20 else context.attribute("axis", 1)
    if dims is None or axis is None:
        return None
    axis = context.axis(axis, len(dims))
    if axis == len(dims) - 1:
        raise IllFormed("the last axis holds real and imaginary parts")
    length = dims[axis]
    if context.has(1):
        sizes = context.sizes(1)
        length = sizes[0] if sizes else context.fresh()
    onesided, inverse = context.flag("onesided"), context.flag("inverse")
    if onesided and dims[-1].constant == (1 if inverse else 2):
        raise IllFormed(f"half a spectrum is that of real numbers, and {SIGNALS[bool(inverse)]}")
    result = [*dims[:-1], ONE if onesided and inverse else Dim.of(2)]
    if onesided and inverse:
        result[axis] = length if context.has(1) else (dims[axis] - 1) * 2
    else:
        result[axis] = length // 2 + 1 if onesided else length
    return tensor(result)


@rule("STFT")
def stft(context: Context) -> Value | None:
    """Frames by frequencies."""
    dims, step = context.dims(0), context.sizes(1)
    window_, length = context.dims(2), context.sizes(3)
    if dims is None:
        return None
    if len(dims) not in (2, 3) or (window_ is not None and len(window_) != 1):
        raise IllFormed("a signal has 2 or 3 axes, and a window 1")
    frame = length[0] if length else window_[0] if window_ else context.fresh()
    count = (dims[1] - frame) // step[0] + 1 if step else context.fresh()
    bins = frame // 2 + 1 if context.flag("onesided", True) else frame
    return tensor([dims[0], count, bins, Dim.of(2)])


@rule("ai.onnx.ml:ArrayFeatureExtractor")
def array_feature_extractor(context: Context) -> Value | None:
    """Chosen columns."""
    dims, chosen = context.dims(0), context.dims(1)
    if dims is None or chosen is None:
        return None
    return tensor([*(dims[:-1] or (ONE,)), chosen[-1] if chosen else context.fresh()])


@rule("Multinomial")
def multinomial(context: Context) -> Value | None:
    """Samples for each row."""
    dims = context.dims(0)
    return None if dims is None else tensor([dims[0], Dim.of(context.attribute("sample_size", 1))])


@rule("RandomNormal", "RandomUniform")
def random(context: Context) -> Value:
    """The given shape."""
    return tensor([Dim.of(n) for n in context.attribute("shape")])


@rule("TfIdfVectorizer")
def tf_idf(context: Context) -> Value | None:
    """Counts of the n-grams, for each row."""
    dims = context.dims(0)
    if dims is None:
        return None
    columns = Dim.of(max(context.attribute("ngram_indexes")) + 1)
    return tensor([*dims[:-1], columns])


@rule("StringSplit")
def string_split(context: Context) -> list[Value] | None:
    """As many columns as the longest has parts."""
    dims = context.dims(0)
    return None if dims is None else [tensor([*dims, context.fresh()]), tensor(dims)]


@rule("StringNormalizer")
def string_normalizer(context: Context) -> Value | None:
    """Stop words are left out."""
    dims = context.dims(0)
    if dims is None:
        return None
    if not context.attribute("stopwords"):
        return tensor(dims)
    return tensor([*dims[:-1], context.fresh()])


@rule("ImageDecoder")
def image_decoder(context: Context) -> Value:
    """Height, width and channels."""
    gray = context.attribute("pixel_format", "RGB") == "Grayscale"
    return tensor([context.fresh(), context.fresh(), Dim.of(1 if gray else 3)])


@rule("Col2Im")
def col2im(context: Context) -> Value | None:
    """An image of the given size."""
    dims = context.dims(0)
    image, block = dims_from(context, 1), context.sizes(2)
    if dims is None or image is None:
        return None
    if block is None:
        return tensor([dims[0], context.fresh(), *image])
    channels = context.fresh()
    context.equal(dims[1], channels * product(block))
    return tensor([dims[0], context.solver.dim(channels), *image])
