"""Sequences of unknown length: what is known of each item, and what is each item's own."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from tawa import axon

HEAD = '<ir_version: 9, opset_import: ["" : 18]>\n'
LOOP = """
  always = Constant<value = bool {1}>()
  s = Loop(M, always, s0)
    <body = iteration (int64 i, bool going, seq(float) si) => (bool on, seq(float) so) {
      on = Identity(going)
      zero = Constant<value_int = 0>()
      so = SequenceInsert(si, x, zero)
    }>
  first = Constant<value_int = 0>()
"""

ENDS = """
  first = Constant<value_int = 0>()
  last = Constant<value_int = -1>()
  p = SequenceAt(s, first)
  q = SequenceAt(s, last)
"""

MODELS = {
    "a loop puts other tensors into a sequence": (
        "g (seq(float[N]) s0, float[T, C] x, int64 M) => (float y) {" + LOOP
        + "y = SequenceAt(s, first) }",
        "[..?]",
    ),
    "a loop makes a sequence of one shape": (
        "g (float[T, C] x, int64 M) => (float y) { s0 = SequenceEmpty<dtype = 1>()" + LOOP
        + "y = ConcatFromSequence<axis = 0, new_axis = 1>(s) }",
        "[a, T, C]",
    ),
    "a loop makes a sequence of growing tensors": (
        """g (float[T, C] x, int64 M) => (float y) {
          s0 = SequenceEmpty<dtype = 1>()
          always = Constant<value = bool {1}>()
          s, h = Loop(M, always, s0, x)
            <body = iteration (int64 i, bool going, seq(float) si, float[R, C] hi)
                => (bool on, seq(float) so, float[S, C] ho) {
              on = Identity(going)
              ho = Concat<axis = 0>(hi, x)
              so = SequenceInsert(si, ho)
            }>
          """ + ENDS + """
          y = Concat<axis = 0>(p, q)
        }""",
        "[a + b, C]",
    ),
    "rows are stacked again": (
        """g (float[N, T, C] x) => (float y) {
          s = SplitToSequence<axis = 1, keepdims = 0>(x)
          y = ConcatFromSequence<axis = 0, new_axis = 1>(s)
        }""",
        "[a, N, C]",
    ),
    "of parts, the last may be smaller": (
        """g (float[N, T] x) => (float y) {
          two = Constant<value_int = 2>()
          s = SplitToSequence<axis = 1>(x, two)
          """ + ENDS + """
          y = Concat<axis = 1>(p, q)
        }""",
        "[N, a + b]",
    ),
    "a graph for each item": (
        """g (float[N, T, C] x) => (float y) {
          s = SplitToSequence<axis = 0, keepdims = 0>(x)
          m = SequenceMap<body = each (float[T, C] e) => (float[C, T] o) { o = Transpose(e) }>(s)
          y = ConcatFromSequence<axis = 0>(m)
        }""",
        "[a, T]",
    ),
    "what a graph finds in each item": (
        """g (float[N, T, C] x) => (int64 y) {
          s = SplitToSequence<axis = 0, keepdims = 0>(x)
          m = SequenceMap<body = each (float[T, C] e) => (int64[two, found] o) { o = NonZero(e) }>(s)
          first = Constant<value_int = 0>()
          last = Constant<value_int = -1>()
          p = SequenceAt(m, first)
          q = SequenceAt(m, last)
          y = Concat<axis = 1>(p, q)
        }""",
        "[2, a + b]",
    ),
    "one of two sequences": (
        """g (float[N, C] x, float[T, C] z, bool p) => (float y) {
          s = If(p) <then_branch = yes () => (seq(float) u) { u = SequenceConstruct(x) },
                     else_branch = no () => (seq(float) v) { v = SequenceConstruct(z, x) }>
          y = ConcatFromSequence<axis = 0>(s)
        }""",
        "[a, C]",
    ),
    "items of no known sizes": (
        """g (seq(float[, 3]) s) => (float y) {
          """ + ENDS + """
          y = Concat<axis = 0>(p, q)
        }""",
        "[a + b, 3]",
    ),
}  # fmt: skip
"""Models, and the shape of what they give; unknowns are `a` and `b`."""

SIZES = {"N": 3, "T": 5, "C": 4}


def loaded(text: str) -> onnx.ModelProto:
    """The model; sizes of its items without a name have none."""
    model = onnx.parser.parse_model(HEAD + text.replace("float[, 3]", "float[nameless, 3]"))
    for entry in model.graph.input:
        for dim in entry.type.sequence_type.elem_type.tensor_type.shape.dim:
            if dim.dim_param == "nameless":
                dim.ClearField("dim_param")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def fed(entry: onnx.ValueInfoProto) -> object:
    """What an input is given: of the items of a sequence, each has its own size."""
    if entry.type.HasField("sequence_type"):
        rank = len(entry.type.sequence_type.elem_type.tensor_type.shape.dim)
        return [np.ones((n, 3)[:rank], np.float32) for n in (3, 6)]
    of = entry.type.tensor_type
    if of.elem_type == onnx.TensorProto.BOOL:
        return np.array(True)
    if of.elem_type == onnx.TensorProto.INT64:
        return np.array(3)
    sizes = [SIZES[dim.dim_param] for dim in of.shape.dim]
    return np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_known_of_items(name: str):
    text, expected = MODELS[name]
    model = loaded(text)
    shapes = axon.from_onnx(model).shapes()
    assert shapes.text("y") == expected
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feeds = {entry.name: fed(entry) for entry in model.graph.input}
    results = session.run(None, feeds)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    result = np.asarray(results[0])
    said = shapes.dims("y")
    known = {v: SIZES[n] for n, dim in shapes.symbols.items() for v in dim.variables()}
    if said is not None:
        assert len(said) == result.ndim
        for dim, size in zip(said, result.shape, strict=True):
            assert dim.constant in (None, size)
            assert dim.sole_variable not in known or known[dim.sole_variable] == size
