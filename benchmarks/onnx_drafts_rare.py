"""Random uses of operators that are rarer in models: quantised, recurrent, indexed, sequences.

Importing it registers them with those of `onnx_drafts`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx_drafts import FLOAT, INT64, MAKERS, Draft, dims_of, maker, rank_of

UINT8, INT8, INT32 = TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32


def constant(draft: Draft, value: Any, dtype: Any = np.float32) -> str:
    """A constant."""
    name = draft.name()
    draft.constants.append(numpy_helper.from_array(np.array(value, dtype), name))
    return name


@maker(
    "Abs", "Ceil", "Cos", "Floor", "IsNaN", "IsInf", "Reciprocal", "Round", "Sigmoid", "Sqrt",
    "Tanh", "Softplus", "Softsign", "HardSigmoid", "HardSwish", "LeakyRelu", "Elu", "Selu", "Celu",
    "ThresholdedRelu", "Shrink", "Mish", "Log", "Atan", "MeanVarianceNormalization",
)  # fmt: skip
def pointwise(draft: Draft, name: str, x: str) -> str:
    if name == "MeanVarianceNormalization" and rank_of(draft, x) != 4:
        x = draft.tensor(4)
    return draft.node(name, [x])


@maker("Equal", "Less", "GreaterOrEqual", "LessOrEqual", "Mod")
def compared(draft: Draft, name: str, x: str) -> str:
    other = draft.like(x, True) if x in draft.shapes else draft.tensor()
    return draft.node(name, [x, other], **({"fmod": 1} if name == "Mod" else {}))


@maker("And", "Or", "Xor")
def logical(draft: Draft, name: str, x: str) -> str:
    other = draft.like(x, True) if x in draft.shapes else draft.tensor()
    return draft.node(name, [draft.node("IsNaN", [x]), draft.node("IsInf", [other])])


@maker("ReduceL1", "ReduceLogSum", "ReduceLogSumExp", "ReduceMin", "ReduceSumSquare")
def reduced(draft: Draft, name: str, x: str) -> str:
    return MAKERS["ReduceSum"](draft, x) if draft.maybe(0.1) else _reduced(draft, name, x)


def _reduced(draft: Draft, name: str, x: str) -> str:
    rank = rank_of(draft, x)
    axes = draft.random.sample(range(rank), draft.random.randint(0, rank))
    extra = {"keepdims": draft.pick(0, 1), "noop_with_empty_axes": draft.pick(0, 0, 1)}
    return draft.node(name, [x, draft.numbers(axes, draft.pick("constant", "input"))], **extra)


@maker("Cast", "CastLike", "Clip", "Trilu", "Dropout", "EyeLike", "Compress", "Unique")
def shaped(draft: Draft, name: str, x: str) -> str:
    rank = rank_of(draft, x)
    match name:
        case "Cast":
            return draft.node(name, [x], to=draft.pick(INT64, INT32, FLOAT, TensorProto.DOUBLE))
        case "CastLike":
            return draft.node(name, [x, constant(draft, 1, draft.pick(np.int64, np.float64))])
        case "Clip":
            return draft.node(name, [x, constant(draft, 0.0), constant(draft, 1.0)])
        case "Trilu":
            inputs = [x, constant(draft, draft.pick(-1, 0, 2), np.int64)]
            return draft.node(name, inputs[: draft.pick(1, 2)], upper=draft.pick(0, 1))
        case "Dropout":
            return draft.node(name, [x], draft.pick(1, 2))
        case "EyeLike":
            return draft.node(name, [x if rank == 2 else draft.tensor(2)], k=draft.pick(-1, 0, 1))
        case "Compress":
            chosen = constant(draft, [draft.maybe() for _ in range(draft.pick(0, 1, 2, 3))], bool)
            extra = {"axis": draft.axis(rank)} if draft.maybe(0.7) else {}
            return draft.node(name, [x, chosen], **extra)
        case _:
            extra = {"axis": draft.axis(rank)} if draft.maybe(0.6) and rank else {}
            return draft.node(name, [x], draft.random.randint(1, 4), sorted=1, **extra)


@maker("GatherElements", "ScatterElements")
def elements(draft: Draft, name: str, x: str) -> str:
    sizes = dims_of(draft, x)
    shape = [draft.random.randint(0, size) for size in sizes]
    if draft.maybe(0.05):
        shape = shape[1:]
    indices = constant(draft, np.zeros(shape), np.int64)
    axis = draft.axis(len(sizes))
    if name == "GatherElements":
        return draft.node(name, [x, indices], axis=axis)
    return draft.node(name, [x, indices, constant(draft, np.zeros(shape))], axis=axis)


@maker("GatherND", "ScatterND")
def by_tuples(draft: Draft, name: str, x: str) -> str:
    sizes = dims_of(draft, x)
    depth = draft.random.randint(1, max(1, len(sizes)))
    lead = [draft.random.randint(0, 3) for _ in range(draft.random.randint(0, 2))]
    if name == "GatherND":
        batch = draft.random.randint(0, min(1, len(sizes) - 1)) if len(sizes) > 1 else 0
        shape = [*sizes[:batch], *lead[batch:], min(depth, max(1, len(sizes) - batch))]
        return draft.node(name, [x, constant(draft, np.zeros(shape), np.int64)], batch_dims=batch)
    updates = np.zeros([*lead, *sizes[depth:]])
    indices = constant(draft, np.zeros([*lead, depth]), np.int64)
    return draft.node(name, [x, indices, constant(draft, updates)])


@maker("LSTM", "GRU", "RNN")
def recurrent(draft: Draft, name: str, x: str) -> str:
    time, batch, width, hidden = (
        draft.size(),
        draft.size(),
        draft.pick(1, 2, 3),
        draft.pick(1, 2, 4),
    )
    direction = draft.pick("forward", "reverse", "bidirectional")
    count, gates = (2 if direction == "bidirectional" else 1), {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    layout = int(draft.maybe(0.2))
    sequence = draft.tensor(shape=[batch, time, width] if layout else [time, batch, width])
    weights = constant(draft, np.zeros((count, gates * hidden, width)))
    repeated = constant(draft, np.zeros((count, gates * hidden, hidden)))
    outputs = draft.random.randint(1, 3 if name == "LSTM" else 2)
    extra = {"hidden_size": hidden} if draft.maybe(0.8) else {}
    return draft.node(
        name, [sequence, weights, repeated], outputs, direction=direction, layout=layout, **extra
    )


@maker("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger",
       "ConvInteger", "QLinearMatMul", "QLinearConv")  # fmt: skip
def quantised(draft: Draft, name: str, x: str) -> str:
    scale, zero = constant(draft, 0.1), constant(draft, 0, np.uint8)

    def small(value: str) -> str:
        return draft.node("QuantizeLinear", [value, scale, zero])

    match name:
        case "QuantizeLinear":
            return small(x)
        case "DequantizeLinear":
            return draft.node(name, [small(x), scale, zero])
        case "DynamicQuantizeLinear":
            return draft.node(name, [x], 3)
        case "MatMulInteger" | "QLinearMatMul":
            inner = draft.size()
            lead = [draft.size()] if draft.maybe() else []
            left = small(draft.tensor(shape=[*lead, draft.size(), inner]))
            right = small(draft.tensor(shape=[inner, draft.size()]))
            if name == "MatMulInteger":
                return draft.node(name, [left, right])
            return draft.node(name, [left, scale, zero, right, scale, zero, scale, zero])
        case _:
            channels = draft.size()
            image = small(draft.tensor(shape=[draft.size(), channels, draft.size(), draft.size()]))
            filters = small(draft.tensor(shape=[draft.size(), channels, 2, draft.pick(1, 2)]))
            pads = [0, 1, draft.pick(0, 1), 0]
            extra: dict[str, Any] = {"strides": [draft.pick(1, 2), 1], "pads": pads}
            if name == "ConvInteger":
                return draft.node(name, [image, filters], **extra)
            return draft.node(
                name, [image, scale, zero, filters, scale, zero, scale, zero], **extra
            )


@maker("InstanceNormalization", "GroupNormalization", "BatchNormalization", "LRN",
       "LpNormalization", "GlobalLpPool")  # fmt: skip
def normalised(draft: Draft, name: str, x: str) -> str:
    sizes = [draft.size(), draft.pick(2, 4), *(draft.size() for _ in range(draft.pick(1, 2)))]
    image = draft.tensor(shape=sizes)
    if name in ("LRN", "LpNormalization", "GlobalLpPool"):
        return draft.node(name, [image], **({"size": 3} if name == "LRN" else {}))
    vectors = [draft.tensor(shape=[sizes[1]]) for _ in range(4 if name[0] == "B" else 2)]
    if name == "GroupNormalization":
        groups = draft.pick(1, 2)
        vectors = [constant(draft, np.ones(groups)) for _ in range(2)]
        return draft.node(name, [image, *vectors], num_groups=groups)
    return draft.node(name, [image, *vectors])


@maker("CenterCropPad", "Col2Im", "DFT", "ReverseSequence", "Det", "HannWindow")
def special(draft: Draft, name: str, x: str) -> str:
    rank = rank_of(draft, x)
    match name:
        case "CenterCropPad":
            count = draft.random.randint(1, rank) if rank else 0
            axes = sorted(draft.random.sample(range(rank), count))
            wanted = draft.numbers([draft.random.randint(0, 6) for _ in axes])
            return draft.node(name, [x, wanted], axes=axes)
        case "Col2Im":
            h, w = draft.pick(2, 3, 4), draft.pick(2, 3)
            columns = draft.tensor(shape=[draft.size(), 4 * draft.pick(1, 2), (h - 1) * (w - 1)])
            block = draft.numbers([2, 2], "constant")
            return draft.node(name, [columns, draft.numbers([h, w]), block])
        case "DFT":
            signal = draft.tensor(shape=[draft.size(), draft.size(), draft.pick(1, 2)])
            return draft.node(name, [signal], axis=1, onesided=draft.pick(0, 0, 1))
        case "ReverseSequence":
            batch = draft.pick(1, 2, 3)
            rest = [draft.size()] if draft.maybe() else []
            value = draft.tensor(shape=[draft.size(), batch, *rest])
            return draft.node(name, [value, constant(draft, [1] * batch, np.int64)])
        case "Det":
            n = draft.size()
            lead = [draft.size()] if draft.maybe() else []
            return draft.node(name, [draft.tensor(shape=[*lead, n, n])])
        case _:
            return draft.node(name, [draft.node("Squeeze", [draft.numbers([draft.pick(1, 4)])])])


@maker("GridSample", "RoiAlign", "NonMaxSuppression", "MaxUnpool", "AffineGrid")
def of_images(draft: Draft, name: str, x: str) -> str:
    match name:
        case "GridSample":
            n = draft.size()
            image = draft.tensor(shape=[n, draft.size(), draft.size(), draft.size()])
            return draft.node(name, [image, draft.tensor(shape=[n, draft.size(), draft.size(), 2])])
        case "RoiAlign":
            image = draft.tensor(shape=[draft.pick(1, 2), draft.size(), draft.size(), draft.size()])
            count = draft.pick(0, 1, 3)
            boxes = draft.tensor(shape=[count, 4])
            numbers = constant(draft, [0] * count, np.int64)
            size = {"output_height": draft.pick(1, 2), "output_width": draft.pick(1, 3)}
            return draft.node(name, [image, boxes, numbers], **(size if draft.maybe(0.7) else {}))
        case "NonMaxSuppression":
            n, boxes = draft.pick(1, 2), draft.size()
            places = draft.tensor(shape=[n, boxes, 4])
            scores = draft.tensor(shape=[n, draft.pick(1, 2), boxes])
            return draft.node(name, [places, scores, draft.numbers([2], "constant")])
        case "MaxUnpool":
            image = draft.tensor(shape=[draft.size(), draft.size(), draft.pick(4, 6), 4])
            names = draft.node("MaxPool", [image], 2, kernel_shape=[2, 2], strides=[2, 2])
            other = draft.nodes[-1].output[1]
            return draft.node(name, [names, other], kernel_shape=[2, 2], strides=[2, 2])
        case _:
            theta = draft.tensor(shape=[draft.pick(1, 2), 2, 3])
            return draft.node(name, [theta, draft.numbers([2, 1, draft.pick(2, 3), 4])])


@maker("Scan")
def scan(draft: Draft, name: str, x: str) -> str:
    """A running sum along an axis, and its negatives."""
    sizes = [draft.size(), draft.size(), draft.size()]
    axis = draft.pick(0, 1, -1)
    rest = [size for number, size in enumerate(sizes) if number != axis % 3]
    state, item, total, out = (draft.name() for _ in range(4))
    body = helper.make_graph(
        [helper.make_node("Add", [state, item], [total]), helper.make_node("Neg", [total], [out])],
        "body",
        [helper.make_tensor_value_info(state, FLOAT, None),
         helper.make_tensor_value_info(item, FLOAT, None)],
        [helper.make_tensor_value_info(total, FLOAT, None),
         helper.make_tensor_value_info(out, FLOAT, None)],
    )  # fmt: skip
    inputs = [draft.tensor(shape=rest), draft.tensor(shape=sizes)]
    extra = {"scan_input_axes": [axis], "scan_output_axes": [draft.pick(0, 1, 2, -1)]}
    return draft.node(name, inputs, 2, body=body, num_scan_inputs=1, **extra)


@maker("SequenceAt", "ConcatFromSequence", "SplitToSequence", "SequenceLength")
def sequence(draft: Draft, name: str, x: str) -> str:
    sizes = list(draft.shapes.get(x, [2, 3]))
    x = x if x in draft.shapes else draft.tensor(shape=sizes)
    if name == "SplitToSequence" or (draft.maybe(0.3) and sizes):
        axis = draft.random.randint(0, len(sizes) - 1) if sizes else 0
        extra = {"keepdims": draft.pick(0, 1)}
        made = draft.node("SplitToSequence", [x], axis=axis, **extra)
        place = constant(draft, draft.pick(0, -1), np.int64)
        draft.nodes[-1].output[0] = f"s{made}"
        return draft.node("SequenceAt", [f"s{made}", place])
    other = draft.like(x)
    made = draft.node("SequenceConstruct", [x, other])
    hidden = draft.nodes[-1].output[0] = f"s{made}"
    if name == "SequenceLength":
        return draft.node(name, [hidden])
    if name == "SequenceAt":
        return draft.node(name, [hidden, constant(draft, draft.pick(0, 1, -1), np.int64)])
    new = int(draft.maybe(0.4))
    return draft.node(name, [hidden], axis=draft.pick(0, -1, 1), new_axis=new)
