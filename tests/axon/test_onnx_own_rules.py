"""Operators that ONNX doesn't have: unknown results, rules of one's own, registered schemas."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Generator, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, TypeProto, ValueInfoProto, defs, helper
from onnx.defs import OpSchema
from onnx.reference import ReferenceEvaluator
from onnx.shape_inference import InferenceContext
from tests.axon.onnx_made import BOOL, FLOAT, INT64, constant, node, value

from tawa import axon
from tawa.axon.onnx.own_rules import KnownShape, OwnRule
from tawa.axon.onnx.shapes import ModelShapes
from tawa.axon.typing.errors import BadRule, ShapeMismatch, UnsupportedModel
from tawa.functional.errors import ProgramSyntaxError

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import onnx_random

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
X = value("x", ["N", 4, "T"])


def model_of(
    nodes: list[NodeProto], inputs: list[ValueInfoProto],
    functions: tuple[onnx.FunctionProto, ...] = (),
) -> onnx.ModelProto:  # fmt: skip
    outputs = [onnx.ValueInfoProto(name=name) for name in nodes[-1].output]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [constant("first", 0)])
    return helper.make_model(graph, opset_imports=OPSETS, functions=list(functions), ir_version=10)


def own(*inputs: str, of: str = "Op", **attributes: object) -> NodeProto:
    return node(of, list(inputs), ["y"], domain="my", **attributes)


def shapes_of(
    *nodes: NodeProto, inputs: tuple[ValueInfoProto, ...] = (X,),
    rules: Mapping[str, OwnRule] | None = None,
    functions: tuple[onnx.FunctionProto, ...] = (),
) -> ModelShapes:  # fmt: skip
    model = model_of(list(nodes), list(inputs), functions)
    return axon.from_onnx(model, rules=rules).shapes()


def branch(*nodes: NodeProto) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "b", [], [value(nodes[-1].output[0], None)])


# Without a rule.

FOLLOWED: dict[str, tuple[NodeProto, str]] = {
    "an item": (node("SequenceAt", ["y", "first"], ["z"]), "[..?]"),
    "a length": (node("SequenceLength", ["y"], ["z"]), "[]"),
    "joined": (node("ConcatFromSequence", ["y"], ["z"], axis=0), "[..?]"),
    "an option": (node("OptionalGetElement", ["y"], ["z"]), "[..?]"),
    "a sum": (node("Add", ["y", "x"], ["z"]), "[..?]"),
    "a shape": (node("Reshape", ["x", "y"], ["z"]), "[..?]"),
    "another operator": (node("Other", ["y", "x"], ["z"], domain="my"), "[..?]"),
    "a decision": (
        node("If", ["y"], ["z"], then_branch=branch(node("Relu", ["x"], ["a"])),
             else_branch=branch(node("Neg", ["x"], ["b"]))), "[N, 4, T]"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_an_unknown_operator_gives_is_unknown(name: str):
    follower, expected = FOLLOWED[name]
    shapes = shapes_of(own("x"), follower)
    assert shapes.dims("y") is None
    assert shapes.text("z") == expected
    assert shapes.requirements() == []
    said = "there is no rule for the operator `my:Op`: what Op `y` gives is unknown"
    assert shapes.remarks()[0] == said


def test_all_its_nodes_are_one_remark():
    nodes = [node("Op", ["x"], [name], domain="my") for name in "abc"]
    (remark,) = shapes_of(*nodes).remarks()
    assert remark.endswith("what Op `a` and 2 other nodes give is unknown")
    assert shapes_of(node("Relu", ["x"], ["y"])).remarks() == []


def test_a_misspelled_operator_is_an_error_that_names_the_right_one():
    with pytest.raises(UnsupportedModel, match="the operator `Rleu`") as raised:
        shapes_of(node("Rleu", ["x"], ["y"]))
    assert raised.value.expected == "an operator of ONNX, as `Relu`"
    with pytest.raises(UnsupportedModel, match=r"ai\.onnx\.ml:Scalar"):
        shapes_of(node("Scalar", ["x"], ["y"], domain="ai.onnx.ml"))


# Signatures.

SAME = {"my:Op": "t[..s] -> t[..s]"}
STANDARD: dict[str, tuple[str, NodeProto, list[list[int | str]], str]] = {
    "as it is": ("t[..s] -> t[..s]", node("Relu", ["x"], ["y"]), [["N", 3, "M"]], "[N, 3, M]"),
    "turned": (
        "t[..s, m, n] -> t[..s, n, m]", node("Transpose", ["x"], ["y"], perm=[0, 2, 1]),
        [["N", 3, "M"]], "[N, M, 3]"),
    "broadcast": (
        "t[..a] -> t[..b] -> t[..a & ..b]", node("Add", ["x", "w"], ["y"]),
        [["N", 3, "M"], [3, 1]], "[N, 3, M]"),
    "a product": (
        "t[..s, m, k] -> t[..r, k, n] -> t[..s & ..r, m, n]", node("MatMul", ["x", "w"], ["y"]),
        [["N", 2, "M", 5], ["N", 2, 5, "K"]], "[N, 2, M, K]"),
    "flat": (
        "{axis = 1} t[..p, n, ..q] -> t[size(..p), n*size(..q)] where axis splits ..p ..q",
        node("Flatten", ["x"], ["y"], axis=2), [["N", 3, "M", 4]], "[3*N, 4*M]"),
    "flat by default": (
        "{axis = 1} t[..p, n, ..q] -> t[size(..p), n*size(..q)] where axis splits ..p ..q",
        node("Flatten", ["x"], ["y"]), [["N", "M", "K"]], "[N, M*K]"),
    "joined": (
        "{axis} t[..p, a, ..q] -> t[..p, b, ..q] -> t[..p, a + b, ..q] where axis splits ..p ..q",
        node("Concat", ["x", "w"], ["y"], axis=-2), [["N", "M", 4], ["N", 2, 4]],
        "[N, M + 2, 4]"),
    "blocks": (
        "{blocksize} t[b, c, blocksize*h, blocksize*w] -> t[b, blocksize*blocksize*c, h, w]",
        node("SpaceToDepth", ["x"], ["y"], blocksize=2), [["N", 3, "M", "K"]],
        "[N, 12, (M//2), (K//2)]"),
    "its sizes": ("t[..s] -> i64[rank(..s)]", node("Shape", ["x"], ["y"]), [["N", "M"]], "[2]"),
    "a window": (
        "{stride = 1} t[b, c, h] -> t[o, c, k] -> t[b, o, (h - k)//stride + 1] "
        "where h >= k, k >= 1", node("Conv", ["x", "w"], ["y"], strides=[2]),
        [["N", 3, "M"], [5, 3, 3]], "[N, 5, ((M + 1)//2) - 1]"),
}  # fmt: skip


@pytest.mark.parametrize("name", STANDARD)
def test_a_signature_says_what_a_run_shows(name: str):
    """Operators of ONNX under another name, at sizes that include 0."""
    signature, standard, sizes, expected = STANDARD[name]
    inputs = [value(n, s) for n, s in zip("xw", sizes, strict=False)]
    renamed = NodeProto()
    renamed.CopyFrom(standard)
    renamed.op_type, renamed.domain = "Op", "my"
    if name == "a window":
        renamed.attribute[0].CopyFrom(helper.make_attribute("stride", 2))
    shapes = shapes_of(renamed, inputs=tuple(inputs), rules={"my:Op": signature})
    assert shapes.text("y") == expected
    run = ReferenceEvaluator(model_of([standard], inputs))
    ran = 0
    for numbers in itertools.product((0, 1, 2, 4, 7), repeat=len(shapes.symbols)):
        at = dict(zip(shapes.symbols, numbers, strict=True))
        given = {
            n: np.zeros([at[d] if isinstance(d, str) else d for d in s], np.float32)
            for n, s in zip("xw", sizes, strict=False)
        }
        try:
            real = np.shape(run.run(None, given)[0])
        except (ValueError, RuntimeError, IndexError):
            continue  # not such sizes
        said = onnx_random.stated(shapes, "y", at)
        assert said is not None
        assert all(a in (None, b) for a, b in zip(said, real, strict=True)), (at, said, real)
        ran += None not in said
    assert ran > 2


def test_a_signature_demands_what_it_says_and_gives_element_types():
    rules = {"my:Op": "f32[..s, 2*n] -> t[n] -> (t[..s, n], i64[..s])"}
    gate = node("Op", ["x", "w"], ["y", "z"], domain="my", name="gate")
    inputs = (value("x", ["N", "T"]), value("w", ["K"], INT64))
    shapes = shapes_of(gate, inputs=inputs, rules=rules)
    assert (shapes.text("y"), shapes.text("z")) == ("[N, (T//2)]", "[N]")
    assert [shapes.values[n].element for n in "yz"] == [INT64, INT64]
    demands = [str(requirement) for requirement in shapes.requirements()]
    assert "`K` must be (T//2), because Op `gate` fixes (T//2) = K" in demands
    assert "2 divides T, for Op `gate`" in demands
    with pytest.raises(ShapeMismatch, match=r"Op `gate`.*7"):
        shapes_of(gate, inputs=(value("x", ["N", 7]), inputs[1]), rules=rules)
    with pytest.raises(ShapeMismatch, match=r"i64 does not fit f32|f32 does not fit i64"):
        shapes_of(gate, inputs=(value("x", ["N", 6], INT64), inputs[1]), rules=rules)


def test_what_a_signature_can_not_see_is_unknown():
    rules = {"my:B": "t[..s, n] -> t[k] -> (t[..s], t[k, n], t[size(..s)])"}
    shapes = shapes_of(
        own("x", of="A"), node("B", ["y", ""], ["a", "b", "c"], domain="my"), rules=rules
    )
    assert [shapes.text(n) for n in "abc"] == ["[..?]", "[k, n]", "[a]"]
    assert len(shapes.remarks()) == 1
    assert shapes_of(own("text"), inputs=(value("text", [3], TensorProto.STRING),),
                     rules=SAME).text("y") == "[3]"  # fmt: skip


def test_a_size_that_may_be_0_counts_in_a_signature():
    shapes = shapes_of(own("x"), rules={"my:Op": "t[..s, n] -> t[..s, max(n, 1)]"})
    assert onnx_random.stated(shapes, "y", {"N": 0, "T": 0}) == (0, 4, 1)


def test_a_rule_holds_in_functions_branches_and_in_the_place_of_a_function():
    function = helper.make_function("my", "F", ["a"], ["b"],
                                    [node("Op", ["a"], ["b"], domain="my")], OPSETS)  # fmt: skip
    rules: dict[str, OwnRule] = {"my:Op": "t[..s] -> t[..s, ..s]"}
    call = own("x", of="F")
    assert shapes_of(call, rules=rules, functions=(function,)).text("y") == "[N, 4, T, N, 4, T]"
    assert shapes_of(call, functions=(function,)).dims("y") is None
    other = shapes_of(call, rules={"my:F": "t[..s] -> t[..s, 7]"}, functions=(function,))
    assert other.text("y") == "[N, 4, T, 7]"
    narrow = {"my:Op": "t[n, c, 6] -> t[n, c, 6]"}
    made = node("Op", ["x"], ["a"], domain="my")
    choice = node("If", ["p"], ["y"], then_branch=branch(made),
                  else_branch=branch(node("Relu", ["x"], ["b"])))  # fmt: skip
    shapes = shapes_of(choice, inputs=(X, value("p", [], BOOL)), rules=narrow)
    assert shapes.text("y") == "[N, 4, T]"
    assert shapes.requirements() == []


def test_an_operator_of_the_default_domain_may_have_a_rule():
    for name in ("CustomOp", "ai.onnx:CustomOp"):
        shapes = shapes_of(node("CustomOp", ["x"], ["y"]), rules={name: "t[..s, n] -> t[n, ..s]"})
        assert shapes.text("y") == "[T, N, 4]"


ILL_FORMED: dict[str, tuple[NodeProto, str, str]] = {
    "inputs": (own("x", "x"), "t[..s] -> t[..s]", "it has 2 inputs, and its rule has 1"),
    "outputs": (node("Op", ["x"], ["y", "z"], domain="my"), "t[..s] -> t[..s]", "2 outputs"),
    "no attribute": (own("x"), "{p} t[..s] -> t[..s, p]", "`p` is missing"),
    "no integer": (own("x", p=2.5), "{p} t[..s] -> t[..s, p]", "`p`.* consists of no integers"),
    "a list": (own("x", p=[2]), "{p} t[..s] -> t[..s, p]", r"`p` is \[2\]"),
    "a number": (own("x", p=2), "{..p} t[..s] -> t[..p]", "`p` is 2"),
}


@pytest.mark.parametrize("name", ILL_FORMED)
def test_a_node_that_its_rule_is_not_for_is_ill_formed(name: str):
    bad, signature, message = ILL_FORMED[name]
    with pytest.raises(UnsupportedModel, match=message):
        shapes_of(bad, rules={"my:Op": signature})


# Functions.


def test_a_function_of_shapes_is_a_rule():
    def halved(made: NodeProto, shapes: list[KnownShape]) -> list[object]:
        (shape,) = shapes
        if shape is None:
            return [None]
        width = helper.get_node_attr_value(made, "width")
        return [(2 * shape[0], None, 1 + shape[2] // 2, shape[1] + width, 9 - shape[2])]

    shapes = shapes_of(own("x", width=3), rules={"my:Op": halved})
    assert shapes.text("y") == "[2*N, a, (T//2) + 1, 7, 9 - T]"
    assert [str(requirement) for requirement in shapes.requirements()] == ["T <= 9, for Op `y`"]
    assert shapes_of(own("x", of="A"), node("Op", ["y"], ["z"], domain="my"),
                     rules={"my:Op": halved}).dims("z") is None  # fmt: skip


BAD: dict[str, tuple[OwnRule, str]] = {
    "an error": (lambda _, shapes: [shapes[1]], "fails for Op `y`: IndexError"),
    "no list": (lambda *_: 5, "gives no shapes for Op `y`"),
    "below 0": (lambda *_: [(-1,)], "gives no shapes"),
    "a text": (lambda *_: ["N"], "gives no shapes"),
    "a function": ("(t[n] -> t[n]) -> t[n]", "about more than tensors"),
}  # pyright: ignore[reportAssignmentType]


@pytest.mark.parametrize("name", BAD)
def test_a_bad_rule_is_named(name: str):
    rule, message = BAD[name]
    with pytest.raises(BadRule, match=message):
        shapes_of(own("x"), rules={"my:Op": rule})


def test_a_signature_that_can_not_be_read_is_an_error_at_once():
    with pytest.raises(ProgramSyntaxError):
        axon.from_onnx(model_of([own("x")], [X]), rules={"my:Op": "t[..s -> t"})


# Schemas.


def reversed_shape(context: InferenceContext) -> None:
    given = context.get_input_type(0)
    if not given.tensor_type.HasField("shape"):
        raise ValueError("of unknown rank")
    made = TypeProto()
    made.tensor_type.elem_type = given.tensor_type.elem_type
    made.tensor_type.shape.SetInParent()
    for dim in reversed(given.tensor_type.shape.dim):
        made.tensor_type.shape.dim.add().CopyFrom(dim)
    made.tensor_type.shape.dim.add().dim_value = context.get_attribute("k").i
    made.tensor_type.shape.dim.add().dim_param = "new"
    made.tensor_type.shape.dim.add()
    context.set_output_type(0, made)


@pytest.fixture(params=["my", ""], ids=["own domain", "default domain"])
def registered(request: pytest.FixtureRequest) -> Generator[str]:
    """The domain in which the operator `Turn` has a schema with an inference function."""
    schema = OpSchema(
        "Turn", request.param, 1,
        inputs=[OpSchema.FormalParameter("a", "T")], outputs=[OpSchema.FormalParameter("b", "T")],
        type_constraints=[("T", ["tensor(float)"], "")],
        attributes=[OpSchema.Attribute("k", OpSchema.AttrType.INT)],
    )  # fmt: skip
    schema.set_type_and_shape_inference_function(reversed_shape)
    defs.register_schema(schema)
    yield request.param
    if defs.has("Turn", request.param):
        defs.deregister_schema("Turn", 1, request.param)


def test_the_inference_function_of_a_registered_schema_is_asked(registered: str):
    turn = node("Turn", ["x"], ["y"], domain=registered, k=3)
    shapes = shapes_of(turn)
    assert shapes.text("y") == "[T, 4, N, 3, a, b]"
    assert shapes.values["y"].element == FLOAT
    assert shapes.remarks() == []
    with pytest.raises(UnsupportedModel, match="`k` is missing"):
        shapes_of(node("Turn", ["x"], ["y"], domain=registered))
    unknown = shapes_of(own("x", of="A"), node("Turn", ["y"], ["z"], domain=registered, k=3))
    assert unknown.dims("z") is None
    defs.deregister_schema("Turn", 1, registered)
    if registered:
        assert shapes_of(turn).dims("y") is None
    else:
        with pytest.raises(UnsupportedModel, match="`Turn`"):
            shapes_of(turn)


def test_what_an_inference_function_fails_for_is_unknown(registered: str):
    shapes = shapes_of(
        node("Turn", ["x"], ["y"], domain=registered, k=3),
        inputs=(value("x", None),),
    )
    assert shapes.dims("y") is None
    assert len(shapes.remarks()) == 1
