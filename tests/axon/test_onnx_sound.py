"""What Axon says of ONNX models is right or missing, however they run; ill-formed ones are refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.axon.onnx_made import BOOL, FLOAT, INT64, OPSETS, constant, node, value

from tawa import axon
from tawa.axon.onnx import reductions
from tawa.axon.onnx.shapes import ModelShapes
from tawa.axon.sizes.choices import largest, smallest
from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.scaled import scaled
from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.typing.errors import ShapeMismatch, UnsupportedModel
from tawa.base.errors import TawaError
from tawa.functional.terms import Variable

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import onnx_drafts
import onnx_random


def branch(*nodes: onnx.NodeProto, constants: tuple[TensorProto, ...] = ()) -> onnx.GraphProto:
    return helper.make_graph(
        list(nodes), "branch", [], [value(nodes[-1].output[0], None)], list(constants)
    )


def model_of(
    nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto],
    constants: tuple[TensorProto, ...] = (), functions: tuple[onnx.FunctionProto, ...] = (),
    opset: int = 18,
) -> onnx.ModelProto:  # fmt: skip
    outputs = [onnx.ValueInfoProto(name=n) for n in nodes[-1].output]
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(constants))
    opsets = [helper.make_opsetid("", opset), OPSETS[1]]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


def shapes_of(model: onnx.ModelProto) -> ModelShapes:
    return axon.from_onnx(model).shapes()


def at(shapes: ModelShapes, name: str, **sizes: int) -> tuple[int | None, ...] | None:
    return onnx_random.stated(shapes, name, sizes)


def test_what_one_branch_demands_is_no_demand_of_the_model():
    squeeze = branch(node("Squeeze", ["x", "axis"], ["a"]), constants=(constant("axis", [1]),))
    same = branch(node("Identity", ["x"], ["b"]))
    model = model_of(
        [node("If", ["p"], ["y"], then_branch=squeeze, else_branch=same),
         node("Relu", ["x"], ["z"])],
        [value("x", ["B", "N"]), value("p", [], BOOL)],
    )  # fmt: skip
    shapes = shapes_of(model)
    assert shapes.dims("y") is None
    assert shapes.text("z") == "[B, N]"
    assert shapes.requirements() == []


def test_a_branch_that_does_not_fit_the_ranks_does_not_run():
    turned = branch(node("Transpose", ["x"], ["a"], perm=[0, 2, 1]))
    same = branch(node("Identity", ["x"], ["b"]))
    fits = model_of(
        [node("If", ["p"], ["y"], then_branch=turned, else_branch=same)],
        [value("x", ["B", "N"]), value("p", [], BOOL)],
    )
    assert shapes_of(fits).text("y") == "[B, N]"
    never = model_of(
        [node("If", ["p"], ["y"], then_branch=turned, else_branch=turned)],
        [value("x", ["B", "N"]), value("p", [], BOOL)],
    )
    with pytest.raises(UnsupportedModel, match="no order of 2 axes"):
        shapes_of(never)


def test_a_table_that_is_cut_to_a_length_limits_the_length():
    model = model_of(
        [node("Shape", ["x"], ["length"], start=1, end=2),
         node("Slice", ["table", "zero", "length", "one"], ["rows"]),
         node("Add", ["x", "rows"], ["y"])],
        [value("x", ["B", "T"])],
        (constant("table", [[0.0] * 512], np.float32), constant("zero", [0]), constant("one", [1])),
    )  # fmt: skip
    shapes = shapes_of(model)
    assert shapes.text("y") == "[B, T]"
    assert [str(r) for r in shapes.requirements()] == ["T <= 512, for Add `y`"]


def test_a_size_that_both_branches_have_is_known():
    one = branch(node("Reshape", ["x", "to"], ["a"]), constants=(constant("to", [1, 4]),))
    same = branch(node("Identity", ["x"], ["b"]))
    model = model_of(
        [node("If", ["p"], ["y"], then_branch=one, else_branch=same)],
        [value("x", ["N", 4]), value("p", [], BOOL)],
    )
    assert shapes_of(model).text("y") == "[N, 4]"


def loop_of(states: int, *, going: str) -> onnx.ModelProto:
    """A loop whose first state grows; each other state becomes the one before it."""
    inputs = [value("i", [], INT64), value("c", [], BOOL)]
    inputs += [value(f"s{k}", None) for k in range(states)]
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("Concat", ["s0", "x"], ["n0"], axis=0),
         *(node("Identity", [f"s{k - 1}"], [f"n{k}"]) for k in range(1, states)),
         node("Identity", ["x"], ["row"])],
        "body", inputs,
        [value("d", [], BOOL), *(value(f"n{k}", None) for k in range(states)), value("row", None)],
    )  # fmt: skip
    outputs = [*(f"o{k}" for k in range(states)), "rows"]
    return model_of(
        [node("Loop", ["turns", going, *["x"] * states], outputs, body=body)],
        [value("x", ["N"]), value("turns", [], INT64), value("go", [], BOOL)],
    )


def test_a_loop_is_widened_until_its_body_keeps_its_state():
    shapes = shapes_of(loop_of(7, going=""))
    assert [at(shapes, f"o{k}", N=2) for k in range(7)] == [(None,)] * 7


def test_nothing_is_said_of_the_results_of_a_loop_that_may_not_start():
    assert shapes_of(loop_of(1, going="go")).dims("rows") is None


@pytest.mark.parametrize("first", [[2], []])
def test_an_unknown_number_of_a_target_may_be_0_or_minus_1(first: list[int]):
    model = model_of(
        [node("Concat", ["first", "k", "last"], ["to"], axis=0),
         node("Reshape", ["x", "to"], ["a"]), node("Reshape", ["w", "to"], ["b"])],
        [value("x", ["N", 2]), value("w", ["K", 2]), value("k", [1], INT64)],
        (constant("first", first), constant("last", [] if first else [2])),
    )  # fmt: skip
    shapes = shapes_of(model)
    assert all("must be" not in str(requirement) for requirement in shapes.requirements())
    assert at(shapes, "a", N=4, K=10) == ((2, 4) if first else (4, 2))
    assert at(shapes, "b", N=4, K=10) == ((2, 10) if first else (10, 2))


def test_the_past_of_attention_may_be_of_unknown_rank():
    inputs = [value(n, ["B", 4, "T", 8]) for n in "qkv"] + [value(n, None) for n in ("pk", "pv")]
    model = model_of(
        [node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "nk", "nv"])], inputs, opset=23
    )
    shapes = shapes_of(model)
    assert at(shapes, "y", B=1, T=2) == (1, 4, 2, 8)
    assert at(shapes, "nk", B=1, T=2) == (1, 4, None, 8)


def test_a_sparse_constant_has_its_dense_shape():
    numbers = helper.make_tensor("v", FLOAT, (2,), [1, 2])
    places = helper.make_tensor("i", INT64, (2,), [3, 5])
    sparse = helper.make_sparse_tensor(numbers, places, [100])
    model = model_of([node("Constant", [], ["s"], sparse_value=sparse)], [])
    assert shapes_of(model).text("s") == "[100]"


def test_sizes_may_be_0():
    empty = branch(node("Identity", ["x"], ["a"]))
    joined = branch(node("Concat", ["past", "x"], ["b"], axis=0))
    model = model_of(
        [node("Shape", ["past"], ["sizes"]), node("Gather", ["sizes", "zero"], ["length"]),
         node("Equal", ["length", "zero"], ["is_empty"]),
         node("If", ["is_empty"], ["y"], then_branch=empty, else_branch=joined)],
        [value("past", ["P", 2]), value("x", ["T", 2])], (constant("zero", 0),),
    )  # fmt: skip
    shapes = shapes_of(model)
    assert at(shapes, "y", P=4, T=3) == (7, 2)
    assert at(shapes, "y", P=0, T=3) in ((3, 2), (None, 2))


def test_a_condition_chooses_nothing_after_the_end():
    chosen = constant("c", [False, True, True], bool)
    for size, expected in ((2, (1,)), (4, (2,)), ("N", (None,))):
        compress = node("Compress", ["x", "c"], ["y"], axis=0)
        model = model_of([compress], [value("x", [size])], (chosen,))
        assert at(shapes_of(model), "y", N=1) == expected


def test_0_and_1_broadcast_to_0():
    model = model_of([node("Add", ["x", "y"], ["z"])], [value("x", ["N"]), value("y", ["M"])])
    shapes = shapes_of(model)
    sizes = ((0, 1), (1, 0), (1, 5), (5, 5), (0, 0))
    assert [at(shapes, "z", N=n, M=m) for n, m in sizes] == [(0,), (0,), (5,), (5,), (0,)]


def test_functions_are_given_attributes():
    function = helper.make_function(
        "my", "Cat", ["a", "b"], ["y"], [node("Concat", ["a", "b"], ["y"])],
        [helper.make_opsetid("", 18)], ["axis"],
    )  # fmt: skip
    attribute = function.node[0].attribute.add()
    attribute.name = attribute.ref_attr_name = "axis"
    attribute.type = onnx.AttributeProto.INT
    call = node("Cat", ["x", "x"], ["y"], domain="my", axis=0)
    model = model_of([call], [value("x", ["N", "K"])], functions=(function,))
    assert shapes_of(model).text("y") == "[2*N, K]"


def test_a_function_that_calls_itself_is_refused():
    again = node("Same", ["a"], ["y"], domain="my")
    opsets = [helper.make_opsetid("my", 1)]
    function = helper.make_function("my", "Same", ["a"], ["y"], [again], opsets)
    call = node("Same", ["x"], ["y"], domain="my")
    with pytest.raises(UnsupportedModel, match="call each other"):
        shapes_of(model_of([call], [value("x", [3])], functions=(function,)))


def test_letters_of_an_einsum_broadcast():
    model = model_of(
        [node("Einsum", ["x", "w"], ["y"], equation="ij,jk->ik")],
        [value("x", ["N", 1]), value("w", [3, 4])],
    )
    assert shapes_of(model).text("y") == "[N, 4]"


@pytest.mark.parametrize("scale", [0.99999, 0.6, 0.7, 1 / 3, 2.0000002, 1.5, 0.25])
@pytest.mark.parametrize("size", [1, 3, 10, 30, 99, 1000])
def test_scales_are_not_rounded(scale: float, size: int):
    single = float(np.float32(scale))
    found = scaled(Dim.of(size), single).constant
    assert found in (None, int(np.floor(np.float32(single) * np.float32(size))))


def test_a_maximum_with_0_can_be_printed():
    from tawa.functional.terms import Variable

    n = Dim.of(Variable("integer", "n"))
    assert AxonPrinter().dim(largest([n, Dim.of(0)])) == "max(0, n)"


NOTHING = helper.make_graph([], "nothing", [], [value("x", None)])
LOOPED = helper.make_graph(
    [node("Relu", ["w"], ["after"])], "body",
    [value("i", [], INT64), value("go", [], BOOL), value("w", None)],
    [value("go", [], BOOL), value("after", None)], [constant("w", [1.0], np.float32)],
)  # fmt: skip


ILL_FORMED = {
    "unknown attribute": (node("Relu", ["x"], ["y"], alpha=1), "no attribute `alpha`"),
    "attribute of another type": (node("Softmax", ["x"], ["y"], axis=0.5), "`axis` is FLOAT"),
    "missing attribute": (node("Cast", ["x"], ["y"]), "`to` is missing"),
    "too many inputs": (node("Relu", ["x", "x"], ["y"]), "2 inputs"),
    "no such input": (node("Relu", ["nothing"], ["y"]), "`nothing`"),
    "no such axis": (node("ArgMax", ["x"], ["y"], axis=5), "no axis 5"),
    "repeated axis": (node("Transpose", ["x"], ["y"], perm=[0, 0, 1]), "no order of 3 axes"),
    "kernel of another rank": (node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2]), "2 numbers"),
    "strides of 0": (
        node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[0]), "number below 1"),
    "pads and auto_pad": (
        node("MaxPool", ["x"], ["y"], kernel_shape=[2], pads=[1, 1], auto_pad="SAME_UPPER"),
        "auto_pad"),
    "padding below 0": (node("MaxPool", ["x"], ["y"], kernel_shape=[2], pads=[-1, 0]), "below 0"),
    "a window of nothing": (node("MaxPool", ["x"], ["y"], kernel_shape=[0]), "below 1"),
    "half a complex spectrum": (node("DFT", ["one"], ["y"], axis=1, onesided=1), "complex"),
    "the softmax of a number": (node("Softmax", ["number"], ["y"]), "no axis"),
    "states of a scan": (
        node("Scan", ["x", "x"], ["y"], num_scan_inputs=4, body=branch(node("Relu", ["x"], ["r"]))),
        "are scanned"),
    "a size of 64 bits": (node("Concat", ["huge", "huge"], ["y"], axis=0), "64 bits"),
    "sizes that are no integers": (node("ConstantOfShape", ["x"], ["y"]), "integers"),
    "a depth below 0": (node("OneHot", ["to", "minus", "x"], ["y"]), "below 0"),
    "decay of a linear attention": (
        node("LinearAttention", ["x", "x", "x", "", "x"], ["y", "state"], q_num_heads=2, kv_num_heads=2,
             update_rule="delta"), "takes no decay"),
    "terms of an einsum": (node("Einsum", ["x"], ["y"], equation="i,j->ij"), "2 terms"),
    "two sizes of -1": (node("Reshape", ["x", "to"], ["y"]), "two sizes"),
    "paddings of 64 bits": (node("Pad", ["one", "far"], ["y"]), "64 bits"),
    "groups of a transposed convolution": (
        node("ConvTranspose", ["image", "image"], ["y"], group=3), "3 groups"),
    "a window of two axes": (node("STFT", ["x", "minus", "to2"], ["y"]), "a window 1"),
    "a branch that makes nothing": (
        node("If", ["yes"], ["y"], then_branch=NOTHING, else_branch=NOTHING), "makes its output `x`"),
    "a loop's weight that is an input": (
        node("Loop", ["number", "", "x"], ["y"], body=LOOPED), "initializer and an input"),
    "matrix of a vector": (node("Gemm", ["x", "x"], ["y"]), "3 dimensions"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["MaxPool", "AveragePool", "LpPool"])
def test_nothing_is_said_of_windows_without_room(name: str):
    for attributes, said in (({"strides": [3]}, (None, 1, 2)), ({"pads": [3, 0]}, (None,) * 3)):
        pool = node(name, ["x"], ["y"], kernel_shape=[3], **attributes)
        shapes = shapes_of(model_of([pool], [value("x", [1, 1, "N"])]))
        assert tuple(at(shapes, "y", N=n)[2] for n in (2, 3, 8)) == said
    pool = node(name, ["x"], ["y"], kernel_shape=[3], strides=[3])
    assert at(shapes_of(model_of([pool], [value("x", [1, 1, 2])])), "y") == (1, 1, None)


def test_operators_of_foreign_domains_are_unknown():
    foreign = helper.make_node("Anything", ["x"], ["y"], domain="com.example")
    assert shapes_of(model_of([foreign], [value("x", [2])])).dims("y") is None


@pytest.mark.parametrize("name", ILL_FORMED)
def test_ill_formed_models_are_refused(name: str):
    bad, message = ILL_FORMED[name]
    inputs = [value("x", ["A", "B", "C"]), value("one", [2, 8, 2]), value("huge", [2**63 - 1])]
    inputs.append(value("number", []))
    inputs += [value("image", [4, 4, 5, 5]), value("yes", [], BOOL)]
    known = (constant("to", [-1, -1]), constant("minus", -1), constant("to2", [[1], [1]], np.float32),
             constant("far", [2**63 - 1, 0, 0, 1, 0, 0]))  # fmt: skip
    version = 27 if bad.op_type == "LinearAttention" else 18
    model = model_of([bad], inputs, known, opset=version)
    with pytest.raises(UnsupportedModel, match=message):
        shapes_of(model)


def test_a_model_that_states_a_wrong_shape_is_refused():
    model = model_of([node("Relu", ["x"], ["y"])], [value("x", [2, 3])])
    model.graph.output[0].CopyFrom(value("y", [5, 3]))
    with pytest.raises(ShapeMismatch, match="states a wrong shape of `y`"):
        shapes_of(model)


def test_garbage_is_refused_soon():
    huge = constant("to", [2**40, 2**40])
    made = model_of([node("Expand", ["x", "to"], ["y"])], [value("x", [1])], (huge,))
    assert shapes_of(made).text("y") == f"[{2**40}, {2**40}]"
    split = node("SplitToSequence", ["x"], ["y"])
    assert shapes_of(model_of([split], [value("x", [2**40])])).dims("y") == ()
    shape_of = [node("Shape", ["x"], ["s"]), node("Reshape", ["w", "u"], ["y"])]
    axes = [value("x", [1]), value("w", ["N"]), value("u", [10**9], INT64)]
    assert shapes_of(model_of(shape_of, axes)).dims("y") is None


def test_mangled_files_are_refused_or_read(tmp_path: Path):
    random = np.random.default_rng(3)
    text = onnx_drafts.random_model(11, 4).model(18).SerializeToString()
    for index in range(60):
        data = bytearray(text)
        for place in random.integers(0, len(data), random.integers(1, 12)):
            data[place] = random.integers(0, 256)
        path = tmp_path / f"{index}.onnx"
        path.write_bytes(bytes(data[: random.integers(1, len(data) + 1)]))
        try:
            axon.from_onnx(path).shapes()
        except TawaError:
            continue


JOINS = {
    "the first is empty": ([0, 0], [2, 3], 0, (2, 3)),
    "the last is empty": ([2, 3], [5, 0], 0, (7, 3)),
    "the axis is empty": ([5, 0], [2, 3], 1, (2, 3)),
    "both are empty": ([2, 0], [0, 3], 0, (2, 0)),
    "neither is empty": ([2, 3], [2, 3], 0, (4, 3)),
}


def joins(axis: int) -> list[onnx.NodeProto]:
    pair = node("SequenceConstruct", ["a", "b"], ["s"])
    return [
        node("Concat", ["a", "b"], ["joined"], axis=axis), pair,
        node("ConcatFromSequence", ["s"], ["listed"], axis=axis),
        node("ConcatFromSequence", ["s"], ["stacked"], axis=0, new_axis=1),
    ]  # fmt: skip


@pytest.mark.parametrize("name", JOINS)
def test_joining_drops_what_is_empty(name: str):
    one, other, axis, expected = JOINS[name]
    nodes = joins(axis)
    stacked = (2, *(other if 0 in one and 0 not in other else one))
    sizes = dict(zip("NMKL", one + other, strict=True))
    known = shapes_of(model_of(nodes, [value("a", one), value("b", other)]))
    symbolic = model_of(nodes, [value("a", ["N", "M"]), value("b", ["K", "L"])])
    symbolic.ir_version = 9
    shapes = shapes_of(symbolic)
    for what, shape in (("joined", expected), ("listed", expected), ("stacked", stacked)):
        assert at(known, what) == shape
        symbolic.graph.output[0].name = what
        said = at(shapes, what, **sizes)
        assert said is not None
        assert all(a in (None, b) for a, b in zip(said, shape, strict=True))
        feeds = {"a": np.zeros(one, np.float32), "b": np.zeros(other, np.float32)}
        assert onnx_random.Runtimes(symbolic).run(feeds)[0] == {what: shape}


def test_what_surely_has_elements_gives_the_sizes_of_what_is_joined():
    inputs = [value("a", ["N", "D"]), value("b", [2, 3]), value("c", None)]
    shapes = shapes_of(model_of([node("Concat", ["a", "b", "c"], ["y"], axis=0)], inputs))
    assert at(shapes, "y", N=1, D=0) == (None, 3)
    pair = shapes_of(model_of([node("Concat", ["a", "b"], ["y"], axis=0)], inputs[:2]))
    assert at(pair, "y", N=5, D=0) == (7, 3)
    (requirement,) = pair.requirements()
    assert "`D` must be 3" in str(requirement)


def test_constants_that_are_empty_are_joined_too():
    empty = constant("a", np.zeros((0, 0), np.int64))
    model = model_of([node("Concat", ["a", "b"], ["y"], axis=0)], [],
                     (empty, constant("b", [[1, 2]])))  # fmt: skip
    assert at(shapes_of(model), "y") == (1, 2)


@pytest.mark.parametrize(("end", "said"), [(2**31 - 1, None), (2**63 - 1, None), (2**31, 0),
                                          (2**63 - 2, 0), (-(2**63), 2)])  # fmt: skip
def test_a_backward_slice_to_the_largest_integer_is_read_in_two_ways(end: int, said: int | None):
    known = (constant("start", [1]), constant("end", [end]), constant("axis", [0]))
    slice_ = node("Slice", ["x", "start", "end", "axis", "step"], ["y"])
    model = model_of([slice_], [value("x", ["N"])], (*known, constant("step", [-1])))
    assert at(shapes_of(model), "y", N=3) == (said,)
    sizes = [node("Shape", ["x"], ["sizes"]),
             node("Slice", ["sizes", *slice_.input[1:]], ["some"]),
             node("ConstantOfShape", ["some"], ["z"])]  # fmt: skip
    model = model_of(sizes, [value("x", [4, 4])], (*known, constant("step", [-1])))
    shape = at(shapes_of(model), "z")
    assert shape == (None if said is None else (4,) * said)


@pytest.mark.parametrize("name", reductions.REDUCTIONS)
def test_unknown_axes_may_be_the_same(name: str):
    def reduced(rank: int, count: int | str, keep: int) -> tuple[int | None, ...] | None:
        inputs = [value("x", [2, 3, 4][:rank]), value("axes", [count], INT64)]
        reduce = node(name, ["x", "axes"], ["y"], keepdims=keep)
        return at(shapes_of(model_of([reduce], inputs)), "y", K=2)

    assert reduced(3, 2, 0) is reduced(3, "K", 0) is None
    assert reduced(3, 2, 1) == (None, None, None)
    assert reduced(3, 1, 0) == (None, None)
    assert reduced(3, 0, 0) == reduced(1, 2, 0) == reduced(0, 1, 0) == ()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("operators", "seeds"), [(1, range(120)), (4, range(40))])
def test_random_models(operators: int, seeds: range):
    tally = onnx_random.Tally()
    for seed in seeds:
        tally.add(seed, operators)
    assert tally.examples == []
    assert tally.counts["runs"] > len(seeds)
    assert tally.counts["right"] > tally.counts["unknown"] + tally.counts["partly known"]


def test_a_bound_that_a_node_demands_decides_later_choices():
    model = model_of(
        [node("Conv", ["x", "w"], ["y"], strides=[2]), node("Shape", ["y"], ["of"]),
         node("Slice", ["of", "two", "three"], ["length"]),
         node("Slice", ["row", "zero", "length"], ["cut"]),
         node("Concat", ["one", "length", "rest"], ["to"], axis=0),
         node("Reshape", ["y", "to"], ["z"])],
        [value("x", [1, 8, "T"]), value("row", ["M"])],
        (constant("w", np.ones((4, 8, 10)), np.float32), constant("zero", [0]),
         constant("one", [1]), constant("two", [2]), constant("three", [3]),
         constant("rest", [-1])),
    )  # fmt: skip
    shapes = shapes_of(model)
    assert shapes.text("y") == "[1, 4, (T//2) - 4]"
    assert shapes.text("z") == "[1, (T//2) - 4, 4]"
    assert at(shapes, "cut", T=20, M=3) == (3,)
    assert [str(r) for r in shapes.requirements()] == ["T >= 10, for Conv `y`"]


def test_parts_without_elements_may_have_another_rank_than_what_they_are_joined_with():
    model = model_of(
        [node("Concat", ["x", "y"], ["z"], axis=1)],
        [value("x", ["N", 0, 3, "M"]), value("y", None)],
    )
    assert shapes_of(model).dims("z") is None


def test_sizes_that_are_numbers_stay_known_as_floats():
    model = model_of(
        [node("Shape", ["x"], ["of"]), node("Cast", ["of"], ["f"], to=FLOAT),
         node("Div", ["f", "by"], ["q"]), node("Ceil", ["q"], ["up"]),
         node("Cast", ["up"], ["n"], to=INT64), node("ConstantOfShape", ["n"], ["y"])],
        [value("x", [5, 7])], (constant("by", 2.0, np.float32),),
    )  # fmt: skip
    assert shapes_of(model).text("y") == "[3, 4]"


@pytest.mark.parametrize("stride", [2, 3])
def test_windows_that_are_rounded_up_have_plain_sizes(stride: int):
    pool = node("MaxPool", ["x"], ["p"], kernel_shape=[3, 3], strides=[stride] * 2, ceil_mode=1)
    same = node(
        "MaxPool", ["p"], ["q"], kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4, ceil_mode=1
    )
    shapes = shapes_of(model_of([pool, same, node("Concat", ["p", "q"], ["y"], axis=1)],
                                [value("x", ["B", 3, "H", 40])]))  # fmt: skip
    assert "m" not in shapes.text("y").replace("min(H", "")
    for height in (7, 8, 9, 30):
        positions = -(-(height - 3) // stride) + 1
        rounded = positions - ((positions - 1) * stride >= height)
        wide = -(-37 // stride) + 1
        assert at(shapes, "y", B=2, H=height) == (2, 6, rounded, wide)


def test_what_may_lack_room_is_known_where_sizes_are_above_0():
    """A tree of halvings: what is joined may be empty, what is pooled may lack room."""
    half = node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[1] * 4)
    pool = node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2])
    nodes = [half, pool, node("Add", ["c", "p"], ["a"]),
             node("Concat", ["a", "c"], ["j"], axis=1),
             node("MaxPool", ["j"], ["y"], kernel_shape=[2, 2], strides=[2, 2])]  # fmt: skip
    weights = constant("w", np.ones((3, 3, 3, 3)), np.float32)
    shapes = shapes_of(model_of(nodes, [value("x", ["B", 3, "H", "W"])], (weights,)))
    assert at(shapes, "y", B=1, H=16, W=24) == (1, 6, 4, 6)
    assert at(shapes, "y", B=1, H=2, W=24) is not None


def test_a_minimum_is_shown_with_its_sign():
    a, b = (Dim.of(Variable("dim", name)) for name in "ab")
    printer = AxonPrinter()
    assert printer.dim(smallest([a, b])) == "min(a, b)"
    assert printer.dim(-smallest([a, b]) + 2) == "2 - min(a, b)"


@pytest.mark.parametrize(("number", "count"), [(1, 6), (0, 0)])
def test_what_is_filled_with_one_number_is_counted(number: int, count: int):
    """As exporters number the elements of a tensor of unknown size."""
    filled = node("ConstantOfShape", ["s"], ["f"], value=constant("v", [number]))
    nodes = [node("Shape", ["x"], ["s"]), filled, node("Cast", ["f"], ["b"], to=BOOL),
             node("Unsqueeze", ["b", "zero"], ["u"]), node("NonZero", ["u"], ["y"])]  # fmt: skip
    model = model_of(nodes, [value("x", ["B", "T"])], (constant("zero", [0]),))
    assert at(shapes_of(model), "y", B=2, T=3) == (3, count)


def test_a_loop_may_change_what_fills_its_state():
    body = helper.make_graph(
        [node("Not", ["b"], ["after"]), node("Identity", ["go"], ["go_on"])], "body",
        [value("i", [], INT64), value("go", [], BOOL), value("b", None, BOOL)],
        [value("go_on", [], BOOL), value("after", None, BOOL)],
    )  # fmt: skip
    nodes = [node("Shape", ["x"], ["s"]),
             node("ConstantOfShape", ["s"], ["f"], value=constant("v", [1], np.bool_)),
             node("Loop", ["n", "", "f"], ["last"], body=body),
             node("NonZero", ["last"], ["y"])]  # fmt: skip
    shapes = shapes_of(model_of(nodes, [value("x", ["B"]), value("n", [], INT64)]))
    assert at(shapes, "y", B=2) == (1, None)
