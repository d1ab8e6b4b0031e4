"""Numbers in ONNX tensors that depend on sizes: ranges of any length, and sizes in floats."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto
from tests.axon.test_onnx_sound import INT64, at, constant, model_of, node, shapes_of, value
from tests.work import calls_made

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import onnx_contents

HALF = TensorProto.FLOAT16
"""Floats that hold integers up to 2048."""

NUMBERS: dict[str, Any] = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "minus": -1, "first": [0], "second": [1],
    "third": [2], "last": [-1], "end": [2**63 - 1], "start": [-(2**63)], "ends": [0, -1], "five": 5,
}  # fmt: skip
SIZES = (1, 2, 3, 4, 7, 12)


def model(*nodes: NodeProto) -> ModelProto:
    """Nodes that compute with `n`, the size of `x`, and with the numbers 0 to `n - 1` in `i`."""
    before = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["n"]),
        node("Range", ["zero", "n", "one"], ["i"]),
    ]
    made = model_of([*before, *nodes], [value("x", ["N"])])
    made.graph.initializer.extend(constant(k, v, np.int64) for k, v in NUMBERS.items())
    return made


def executed(made: ModelProto, size: int) -> dict[str, np.ndarray]:
    """All values at a size; none if the model doesn't run."""
    whole = ModelProto()
    whole.CopyFrom(made)
    names = [output for of in made.graph.node for output in of.output]
    del whole.graph.output[:]
    whole.graph.output.extend(ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(whole.SerializeToString(), options)
    try:
        results = session.run(names, {"x": np.zeros(size, np.float32)})
    except onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument:
        return {}
    return dict(zip(names, map(np.asarray, results), strict=True))


def check(made: ModelProto, name: str, sizes: tuple[int, ...] = SIZES) -> None:
    """What is said of a value is complete, and so."""
    shapes = shapes_of(made)
    ran = 0
    for size in sizes:
        real = executed(made, size).get(name)
        if real is None:
            continue
        ran += 1
        assert at(shapes, name, N=size) == real.shape
        assert shapes.positive is not None
        said = onnx_contents.numbers_of(shapes.positive, name, {"N": size}, real)
        assert said is not None
        assert said.tolist() == real.tolist()
        assert onnx_contents.wrong(shapes, name, {"N": size}, real) is None
    assert ran, "it runs at no size"


GATHERED = {
    "the first": [node("Gather", ["i", "zero"], ["y"])],
    "the last": [node("Gather", ["i", "minus"], ["y"])],
    "both ends": [node("Gather", ["i", "ends"], ["y"])],
    "the last of every third": [
        node("Slice", ["i", "second", "end", "first", "step"], ["s"]),
        node("Gather", ["s", "minus"], ["y"]),
    ],
    "the first, backward": [
        node("Slice", ["i", "last", "start", "first", "back"], ["s"]),
        node("Gather", ["s", "zero"], ["y"]),
    ],
    "from behind the middle": [
        node("Slice", ["i", "before", "end", "first"], ["s"]),
        node("Gather", ["s", "zero"], ["y"]),
    ],
    "behind a number": [
        node("Concat", ["last", "i"], ["c"], axis=0),
        node("Gather", ["c", "one"], ["y"]),
    ],
    "before a number": [
        node("Concat", ["i", "last"], ["c"], axis=0),
        node("Gather", ["c", "minus"], ["y"]),
    ],
    "behind a number that is cut off": [
        node("Concat", ["last", "i"], ["c"], axis=0),
        node("Slice", ["c", "second", "end", "first"], ["s"]),
        node("Gather", ["s", "minus"], ["y"]),
    ],
    "of a column": [
        node("Unsqueeze", ["i", "second"], ["column"]),
        node("Gather", ["column", "minus"], ["y"], axis=0),
    ],
    "of multiples": [
        node("Mul", ["i", "three"], ["m"]),
        node("Sub", ["five", "m"], ["d"]),
        node("Gather", ["d", "minus"], ["y"]),
    ],
    "the largest distance": [
        node("Unsqueeze", ["i", "second"], ["column"]),
        node("Sub", ["i", "column"], ["d"]),
        node("ReduceMax", ["d"], ["y"], keepdims=0),
    ],
    "the smallest distance": [
        node("Unsqueeze", ["i", "second"], ["column"]),
        node("Sub", ["i", "column"], ["d"]),
        node("ReduceMin", ["d"], ["y"]),
    ],
}


@pytest.mark.parametrize("nodes", GATHERED.values(), ids=GATHERED.keys())
def test_what_stands_at_an_index_of_a_range_is_known(nodes: list[NodeProto]):
    made = model(*nodes)
    more = {"step": [3], "back": [-1], "before": [-2]}
    made.graph.initializer.extend(constant(k, v, np.int64) for k, v in more.items())
    check(made, "y")


PROGRESSING = {
    "a column": [node("Unsqueeze", ["i", "second"], ["y"])],
    "distances": [
        node("Unsqueeze", ["i", "second"], ["column"]),
        node("Sub", ["i", "column"], ["y"]),
    ],
    "a transposed column": [
        node("Unsqueeze", ["i", "second"], ["column"]),
        node("Transpose", ["column"], ["y"]),
    ],
    "numbers repeated": [
        node("Unsqueeze", ["i", "second"], ["column"]),
        node("Concat", ["shape", "third"], ["wide"], axis=0),
        node("Expand", ["column", "wide"], ["y"]),
    ],
    "places of ones": [
        node("ConstantOfShape", ["shape"], ["ones"],
             value=constant("v", [1], np.int64)),
        node("NonZero", ["ones"], ["y"]),
    ],
    "numbers and their ends": [
        node("Concat", ["last", "i", "second"], ["c"], axis=0),
        node("Mul", ["c", "two"], ["y"]),
    ],
    "a comparison that always holds": [node("Less", ["i", "n"], ["y"])],
    "a comparison that never holds": [node("Equal", ["i", "n"], ["y"])],
    "one of two": [
        node("Less", ["i", "n"], ["c"]),
        node("Neg", ["i"], ["minus_i"]),
        node("Where", ["c", "minus_i", "i"], ["y"]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("nodes", PROGRESSING.values(), ids=PROGRESSING.keys())
def test_what_grows_evenly_is_known(nodes: list[NodeProto]):
    check(model(*nodes), "y")


def test_what_may_be_in_either_of_two_parts_is_unknown():
    """The last number behind the first is none of the range if that has only one."""
    made = model(
        node("Slice", ["i", "second", "end", "first"], ["rest"]),
        node("Concat", ["last", "rest"], ["c"], axis=0),
        node("Gather", ["c", "minus"], ["y"]),
    )
    assert shapes_of(made).contents("y") is None


def test_a_comparison_that_depends_on_the_place_is_unknown():
    made = model(node("Less", ["i", "two"], ["y"]), node("NonZero", ["y"], ["z"]))
    shapes = shapes_of(made)
    assert shapes.contents("y") is None
    assert at(shapes, "z", N=5) == (1, None)


def cast(source: str, target: str, to: int) -> NodeProto:
    """A change of the element type."""
    return node("Cast", [source], [target], to=to)


HALVED = [
    cast("n", "h", HALF),
    node("Add", ["h", "h"], ["twice"]),
    cast("twice", "m", INT64),
    node("Range", ["zero", "m", "one"], ["y"]),
]


def test_sizes_in_floats_are_known_as_far_as_floats_hold_them():
    made = model(*HALVED)
    shapes = shapes_of(made)
    assert shapes.text("y") == "[(2*N)]"
    for size in (0, 1, 5, 1024):
        assert at(shapes, "y", N=size) == executed(made, size)["y"].shape == (2 * size,)
    assert at(shapes, "y", N=1025) == (None,)
    assert executed(made, 2049)["y"].shape == (4096,)
    assert at(shapes, "y", N=2049) == (None,)


def test_each_number_of_a_range_has_to_fit_into_floats():
    made = model(
        cast("i", "h", HALF), node("Gather", ["h", "minus"], ["last_h"]), cast("last_h", "k", INT64),
        node("Range", ["zero", "k", "one"], ["y"]),
    )  # fmt: skip
    shapes = shapes_of(made)
    for size in (1, 9, 2049):
        assert at(shapes, "y", N=size) == executed(made, size)["y"].shape == (size - 1,)
    assert executed(made, 2052)["y"].shape == (2052,)
    assert at(shapes, "y", N=2052) == (None,)


def test_a_difference_of_floats_is_no_number_where_they_overflow():
    """Of two infinities it is none; so what is subtracted counts, even from itself."""
    made = model(
        cast("n", "h", HALF), node("Sub", ["h", "h"], ["none"]), node("Add", ["none", "four"], ["s"]),
        cast("s", "k", INT64), node("Range", ["zero", "k", "one"], ["y"]),
    )  # fmt: skip
    made.graph.initializer.append(constant("four", 4, np.float16))
    shapes = shapes_of(made)
    assert at(shapes, "y", N=2048) == executed(made, 2048)["y"].shape == (4,)
    assert at(shapes, "y", N=70_000) == (None,)


def test_quotients_of_floats_are_known_as_integers():
    made = model(
        cast("n", "f", TensorProto.FLOAT), node("Mul", ["f", "six"], ["m"]),
        node("Div", ["m", "halves"], ["whole"]), cast("whole", "k", INT64),
        node("Div", ["f", "halves"], ["part"]), cast("part", "p", INT64),
        node("Range", ["zero", "k", "one"], ["y"]), node("Range", ["zero", "p", "one"], ["z"]),
    )  # fmt: skip
    made.graph.initializer.extend(
        [constant("six", 6.0, np.float32), constant("halves", 2.0, np.float32)]
    )
    shapes = shapes_of(made)
    assert at(shapes, "y", N=5) == executed(made, 5)["y"].shape == (15,)
    assert at(shapes, "z", N=5) == executed(made, 5)["z"].shape == (2,)


def test_unknown_floats_are_no_integers():
    """What is cast may have a fraction, which is lost twice or once."""
    made = model_of(
        [
            node("Concat", ["f", "g"], ["c"], axis=0),
            node("Mul", ["c", "c"], ["m"]), cast("m", "k", INT64), cast("c", "d", INT64),
            node("Mul", ["d", "d"], ["e"]), node("Sub", ["k", "e"], ["s"]),
            node("ConstantOfShape", ["s"], ["y"]),
        ],
        [value("f", [1]), value("g", [1])],
    )  # fmt: skip
    assert at(shapes_of(made), "y") == (None, None)


def test_what_a_branch_knows_of_floats_is_not_known_outside():
    """In the branch, `n` is 1."""
    from onnx import helper

    narrow = [
        node("Squeeze", ["x", "first"], ["only"]),
        cast("n", "f1", TensorProto.FLOAT), cast("f1", "k1", INT64),
        node("Unsqueeze", ["k1", "first"], ["s1"]), node("ConstantOfShape", ["s1"], ["one_"]),
    ]  # fmt: skip
    wide = [
        cast("n", "f2", TensorProto.FLOAT), cast("f2", "k2", INT64),
        node("Unsqueeze", ["k2", "first"], ["s2"]), node("ConstantOfShape", ["s2"], ["other"]),
    ]  # fmt: skip
    graphs = [
        helper.make_graph(nodes, "branch", [], [value(name, None)])
        for nodes, name in ((narrow, "one_"), (wide, "other"))
    ]
    made = model(node("If", ["c"], ["y"], then_branch=graphs[0], else_branch=graphs[1]))
    made.graph.input.append(value("c", [], TensorProto.BOOL))
    assert at(shapes_of(made), "y", N=5) in ((5,), (None,))


def test_slices_backward_begin_at_the_start_at_the_latest():
    """NumPy's slice is empty there."""
    made = model(
        node("Gather", ["shape", "first"], ["v"]),
        node("Slice", ["v", "far", "far", "first", "back"], ["y"]),
    )
    made.graph.initializer.extend(
        [constant("far", [-3], np.int64), constant("back", [-2], np.int64)]
    )
    check(made, "y")


def test_a_range_that_may_be_repeated_is_no_range():
    """`n` and `m` are equal, or one of them is 1."""
    made = model_of(
        [
            node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "zero"], ["n"]),
            node("Gather", ["shape", "one"], ["m"]), node("Range", ["zero", "n", "one"], ["i"]),
            node("Range", ["zero", "m", "one"], ["k"]), node("Add", ["i", "k"], ["y"]),
        ],
        [value("x", ["N", "M"])],
        constants=tuple(constant(k, v, np.int64) for k, v in NUMBERS.items()),
    )  # fmt: skip
    shapes = shapes_of(made)
    assert shapes.contents("k") is not None
    assert shapes.positive is not None
    assert shapes.contents("y") is shapes.positive.contents("y") is None


def test_random_graphs_contain_what_is_said():
    tally = onnx_contents.tally_of_graphs(range(100, 180))
    assert not tally.examples
    assert tally.counts["contents known"] > tally.counts["contents unknown"]


def test_a_slice_is_known_where_its_bounds_are_not_below_0():
    """As of a table of positions, of which a model takes those around the middle."""
    made = model(
        node("Sub", ["nine", "shape"], ["from"]), node("Add", ["nine", "shape"], ["to"]),
        node("Slice", ["table", "from", "to", "first"], ["y"]),
        node("Concat", ["y", "y"], ["z"], axis=0),
    )  # fmt: skip
    made.graph.initializer.append(constant("nine", [9], np.int64))
    made.graph.input.append(value("table", [20]))
    shapes = shapes_of(made)
    for size in (1, 2, 5, 9):
        assert at(shapes, "y", N=size) == (2 * size,)
        assert at(shapes, "z", N=size) == (4 * size,)
    assert at(shapes, "y", N=10) == (None,)  # the slice begins at -1, which is the last place


def test_what_a_multiple_is_demanded_to_be_holds_of_the_size():
    """`(8, -1)` as a shape for what has `8` rows: as many columns as before, since there is one."""
    made = model_of(
        [
            node("Add", ["a", "b"], ["sum"]), node("Shape", ["sum"], ["shape"]),
            node("Gather", ["shape", "rows"], ["n"]),
            node("Concat", ["n", "rest"], ["to"], axis=0), node("Reshape", ["sum", "to"], ["y"]),
        ],
        [value("a", ["N", "T", 6]), value("b", ["M", 1, 6])],
        (constant("rows", [0]), constant("rest", [-1, 2, 3])),
    )  # fmt: skip
    shapes = shapes_of(made)
    assert shapes.text("y").endswith(", T, 2, 3]")
    assert at(shapes, "y", N=4, M=1, T=5) == (4, 5, 2, 3)


def test_what_is_as_long_only_for_some_sizes_is_not_the_same():
    """Slices from a place below 0 begin near the end, which is somewhere else in each table."""
    made = model(
        node("Sub", ["nine", "shape"], ["from"]), node("Add", ["nine", "shape"], ["to"]),
        node("Add", ["nine", "twenty"], ["more"]),
        node("Add", ["shape", "nine"], ["short_"]), node("Add", ["shape", "more"], ["long_"]),
        node("ConstantOfShape", ["short_"], ["short"]), node("ConstantOfShape", ["long_"], ["long"]),
        node("Slice", ["short", "from", "to", "first"], ["s"]), node("Shape", ["s"], ["m"]),
        node("Slice", ["long", "from", "to", "first"], ["t"]), node("Shape", ["t"], ["k"]),
        node("Slice", ["long", "from", "to", "first"], ["u"]), node("Shape", ["u"], ["l"]),
        node("Sub", ["m", "k"], ["d"]), node("ConstantOfShape", ["d"], ["y"]),
        node("Sub", ["k", "l"], ["e"]), node("ConstantOfShape", ["e"], ["z"]),
    )  # fmt: skip
    made.graph.initializer.extend(
        [constant("nine", [9], np.int64), constant("twenty", [20], np.int64)]
    )
    shapes = shapes_of(made)
    assert at(shapes, "s", N=9) == at(shapes, "t", N=9) == (18,)
    assert at(shapes, "y", N=9) == at(shapes, "z", N=9) == (0,)
    real = executed(made, 12)
    assert (real["s"].shape, real["t"].shape) == ((3,), (0,))
    assert at(shapes, "y", N=12) in ((None,), (3,))
    assert at(shapes, "z", N=12) == (0,)


def test_what_integer_an_infinity_is_is_unknown():
    made = model(node("Div", ["onef", "zerof"], ["inf"]), cast("inf", "y", INT64))
    made.graph.initializer.extend(
        [constant("onef", 1.0, np.float32), constant("zerof", 0.0, np.float32)]
    )
    assert shapes_of(made).contents("y") is None


def padded(times: int) -> ModelProto:
    """Padding by what floats say is missing, and what is padded cut off again, some times."""
    nodes: list[NodeProto] = []
    last = "x"
    for i in range(times):
        nodes += [
            node("Shape", [last], [f"s{i}"]), cast(f"s{i}", f"f{i}", TensorProto.FLOAT),
            node("Add", [f"f{i}", "more"], [f"g{i}"]), cast(f"g{i}", f"k{i}", INT64),
            node("Sub", [f"k{i}", f"s{i}"], [f"d{i}"]),
            node("Concat", ["first", f"d{i}"], [f"p{i}"], axis=0),
            node("Pad", [last, f"p{i}"], [f"q{i}"]), node("Neg", [f"d{i}"], [f"e{i}"]),
            node("Slice", [f"q{i}", "first", f"e{i}", "first"], [f"t{i}"]),
        ]  # fmt: skip
        last = f"t{i}"
    made = model(*nodes, node("Identity", [last], ["y"]))
    made.graph.initializer.append(constant("more", [3.0], np.float32))
    return made


def test_numbers_that_are_computed_from_each_other_take_work_as_many_as_they_are():
    """Their conditions are not written inside of each other."""
    work: list[int] = []
    for times in (6, 12):
        shapes = shapes_of(padded(times))
        work.append(calls_made(lambda shapes=shapes: shapes.text("y")))
        assert shapes.text("y") == "[(N)]"
        assert at(shapes, "y", N=5) == (5,)
    assert work[1] < 2.5 * work[0]
