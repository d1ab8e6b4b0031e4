"""Models made to take long, or to be read in several ways: unknown, or refused, and soon."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from tests.axon.test_onnx_sound import (
    BOOL,
    INT64,
    OPSETS,
    at,
    branch,
    constant,
    model_of,
    node,
    shapes_of,
    value,
)
from tests.axon.test_onnx_sound import onnx_random as runtimes
from tests.work import calls_made

from tawa.axon.onnx.graph import ModelInference
from tawa.axon.onnx.shapes import ModelShapes
from tawa.axon.sizes import polynomials
from tawa.axon.sizes.choices import largest, smallest
from tawa.axon.sizes.constraints import AtLeast
from tawa.axon.sizes.dims import ONE, ZERO, Dim, total
from tawa.axon.sizes.shapes import evaluate
from tawa.axon.sizes.solver import AxonSolver
from tawa.axon.typing.errors import UnsupportedModel
from tawa.base.source import Span
from tawa.functional.terms import Origin, Variable


def symbols_added(count: int) -> onnx.ModelProto:
    inputs = [value(f"x{i}", [f"D{i}"]) for i in range(count)]
    return model_of([node("Sum", [entry.name for entry in inputs], ["y"])], inputs)


def number_computed(*steps: tuple[str, str, str]) -> onnx.ModelProto:
    """`y` has the size that a number is after some steps: each an operator on it, or sizes a, b."""
    nodes = [node("Shape", ["x"], ["a"], end=1), node("Shape", ["x"], ["b"], start=1, end=2)]
    last = "a"
    for i, (op, *others) in enumerate(steps):
        given = [last if other == "it" else other for other in others]
        nodes.append(node(op, given, [f"n{i}"]))
        last = f"n{i}"
    nodes.append(node("ConstantOfShape", [last], ["y"]))
    return model_of(nodes, [value("x", ["N", "M"])])


@pytest.mark.parametrize(
    "model",
    [
        symbols_added(140),
        number_computed(("Add", "a", "b"), *[("Mul", "it", "it")] * 30),
        number_computed(*[("Mul", "it", "it")] * 40),
        number_computed(*[("Max", "it", "b"), ("Add", "it", "it"), ("Min", "it", "a")] * 20),
        number_computed(("Add", "a", "b"), *[("Div", "it", "b"), ("Mul", "it", "it")] * 12),
    ],
    ids=["symbols", "squares", "powers", "choices", "quotients"],
)
def test_sizes_that_grow_without_bounds_are_unknown(
    model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(polynomials, "MAX_WEIGHT", 64)
    found: list[ModelShapes] = []
    assert calls_made(lambda: found.append(shapes_of(model))) < 10_000_000
    shapes = found[0]
    assert len(shapes.dims("y") or ()) == 1
    assert len(shapes.text("y")) < 6000


@pytest.mark.parametrize(
    ("op", "others", "attributes", "sizes"),
    [
        ("MaxPool", [], {"kernel_shape": [2], "strides": [2]}, {10: (5000, 4), 16: (2**16, 1)}),
        ("Split", [], {"axis": 2, "num_outputs": 2}, {1: (7, 4), 16: (2**16 + 1, 2)}),
        ("Resize", ["", "double"], {}, {10: (3, 3072), 40: (1, 2**40)}),
        ("Resize", ["", "less"], {}, {1: (9, 6), 5: (9, 0)}),
    ],
    ids=["pools", "parts", "multiples", "scales"],
)
def test_numbers_in_sizes_stop_growing(
    op: str, others: list[str], attributes: dict[str, Any], sizes: dict[int, tuple[int, int]]
):
    """No tensor is so large that anything is left of it after 70 halvings; none has 2**70 rows."""
    results = attributes.get("num_outputs", 1)
    nodes = [
        node(op, [f"t{i}" if i else "x", *others], [f"t{i + 1}", f"u{i + 1}"][:results],
             **attributes)
        for i in range(250)
    ]  # fmt: skip
    scales = (constant("double", [1, 1, 2], np.float32), constant("less", [1, 1, 0.7], np.float32))
    shapes = shapes_of(model_of(nodes, [value("x", ["B", 3, "N"])], scales))
    for index, (size, result) in sizes.items():
        assert at(shapes, f"t{index}", B=2, N=size) == (2, 3, result)
    for index in (100, 249):
        last = shapes.values[f"t{index}"].dims
        assert last is not None
        assert last[2].extent[2] <= 2**63
        assert len(shapes.text(f"t{index}")) < 2500  # 2**249 has 75 digits


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Split", ["x"], [f"y{i}" for i in range(2000)], num_outputs=2000)],
        [node("Slice", [f"t{i}" if i else "x", "one", "far"], [f"t{i + 1}"]) for i in range(6)],
    ],
    ids=["parts", "slices"],
)
def test_many_parts_of_a_size_take_their_number(nodes: list[onnx.NodeProto]):
    known = (constant("one", [1]), constant("far", [10**6]))
    model = model_of(nodes, [value("x", ["N"])], known)
    found: list[ModelShapes] = []
    assert calls_made(lambda: found.append(shapes_of(model))) < 5_000_000
    shapes = found[0]
    for size in (0, 1, 99, 107, 4003):
        each = -(-size // 2000)
        parts = {f"y{i}": min(each, max(size - each * i, 0)) for i in (0, 1, 2, 1000, 1998, 1999)}
        rests = {f"t{i}": max(size - i, 0) for i in (1, 2, 6)}
        for name, said in (rests if len(nodes) > 1 else parts).items():
            assert at(shapes, name, N=size) == (said,)


@pytest.mark.parametrize(
    ("op", "others", "attributes", "most"),
    [
        ("Add", ["w{}"], {}, 5_500),
        ("Slice", ["one", "far"], {}, 5_000),
        ("Slice", ["one", "last", "two"], {}, 5_500),
        ("Slice", ["last", "zero", "two", "last"], {}, 5_500),
        ("Slice", ["last", "zero", "two", "fourth"], {}, 5_500),
        ("Slice", ["second", "front", "two", "second"], {}, 2_650),
        ("Conv", ["w"], {"auto_pad": "VALID"}, 3_400),
        ("MaxPool", [], {"kernel_shape": [3, 3], "strides": [2, 2]}, 5_500),
        ("Reshape", ["to"], {}, 5_000),
        ("Split", [], {"axis": 2, "num_outputs": 2}, 5_000),
        ("Resize", ["", "scales"], {}, 2_600),
    ],
    ids=[
        "additions",
        "slices",
        "ends",
        "backward",
        "backward by 4",
        "backward from -2",
        "convolutions",
        "poolings",
        "reshapes",
        "parts",
        "scales",
    ],
)
def test_operators_take_little_work_late_in_a_chain(
    op: str, others: list[str], attributes: dict[str, Any], most: int
):
    count = 40
    results = attributes.get("num_outputs", 1)
    nodes = [
        node(op, [f"t{i}" if i else "x", *(other.format(i) for other in others)],
             [f"t{i + 1}", f"u{i + 1}"][:results], **attributes)
        for i in range(count)
    ]  # fmt: skip
    inputs = [value("x", ["B", 4, "H", "W"]), value("w", [4, 4, 3, 3])]
    inputs += [value(f"w{i}", [f"A{i}", f"B{i}"]) for i in range(count)]
    known = (
        constant("one", [1]), constant("two", [2]), constant("far", [10**6]),
        constant("last", [-1]), constant("to", [0, 0, -1, 4]), constant("zero", [0]),
        constant("fourth", [-4]), constant("second", [-2]), constant("front", [-(2**63)]),
        constant("scales", [1, 1, 0.7, 2], np.float32),
    )  # fmt: skip
    walk = ModelInference(model_of(nodes, inputs, known), strict=True)
    gc.collect()  # what other tests left would be counted
    assert calls_made(walk.run) < most * count


def windows(last: str, i: int) -> list[onnx.NodeProto]:
    """Windows of 7 by 7 out of an image, and back, as exported: sizes are divided anew."""
    name = f"r{i}_{{}}".format
    nodes = [node("Shape", [last], [name("all")])]
    for axis in "bhwc":
        nodes += [node("Gather", [name("all"), f"at_{axis}"], [name(axis)])]
    for axis in "hw":
        nodes += [node("Div", [name(axis), "seven"], [name(f"n{axis}")])]
    b, h, w, c, over, down = map(name, ("b", "h", "w", "c", "nh", "nw"))
    targets = ([b, over, "seven", down, "seven", c], ["rest", "seven", "seven", c],
               ["rest", over, down, "seven", "seven", c], ["rest", h, w, c])  # fmt: skip
    for k, target in enumerate(targets):
        given = last if not k else name(f"turned{k}" if k in (1, 3) else f"y{k - 1}")
        nodes += [
            node("Concat", target, [name(f"to{k}")], axis=0),
            node("Reshape", [given, name(f"to{k}")], [name(f"y{k}")]),
            node("Transpose", [name(f"y{k}")], [name(f"turned{k + 1}")], perm=[0, 1, 3, 2, 4, 5]),
        ][: 3 if k in (0, 2) else 2]
    return nodes


def test_windows_of_two_axes_take_little_work_late_in_a_chain():
    """Their sizes are quotients of products of quotients, each of which stands in several."""
    nodes: list[onnx.NodeProto] = []
    for i in range(10):
        nodes += windows(f"r{i - 1}_y3" if i else "x", i)
    known = [constant(f"at_{axis}", [k]) for k, axis in enumerate("bhwc")]
    known += [constant("seven", [7]), constant("rest", [-1])]
    inputs = [value("x", ["B", "H", "W", 4])]
    walk = ModelInference(model_of(nodes, inputs, known), strict=True)
    gc.collect()
    assert calls_made(walk.run) < 5_000 * len(nodes)


@pytest.mark.parametrize(
    ("op", "others", "attributes"),
    [
        ("Reshape", ["to"], {}),
        ("Mul", ["y"], {}),
        ("AveragePool", [], {"kernel_shape": [3, 3], "strides": [2, 2]}),
    ],
)
def test_what_is_found_out_ends_without_the_collector(
    op: str, others: list[str], attributes: dict[str, Any]
):
    """It is not looked through after an inference, so it must have no cycles."""
    nodes = [node(op, ["x", *others], ["z"], **attributes)]
    inputs = [value("x", ["B", 4, "H", "W"]), value("y", ["K", "L"])]
    model = model_of(nodes, inputs, (constant("to", [0, 0, -1, 4]),))
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        shapes = shapes_of(model)
        shapes.text("z")
        ends = [weakref.ref(shapes.solver), weakref.ref(shapes)]
        del shapes
        assert [end() for end in ends] == [None, None]
    finally:
        if was_enabled:
            gc.enable()


def test_what_an_inference_makes_is_old_at_once():
    """Else the collector would look through a large model's sizes at the end."""
    gc.collect()
    shapes = shapes_of(symbols_added(50))
    young = {id(made) for generation in (0, 1) for made in gc.get_objects(generation)}
    assert shapes.symbols
    assert not young & {id(dim) for dim in shapes.symbols.values()}


@pytest.mark.parametrize("seed", [0, 1, 2, 5, 6, 7, 9, 11])
def test_slices_of_slices_are_as_long_as_numpys(seed: int):
    random = np.random.default_rng(seed)
    ends = [-(10**6), -4, -2, -1, 0, 1, 2, 3, 4, 7, 10**6]
    cuts = [(*(int(n) for n in random.choice(ends, 2)), int(random.choice([1, 2, 3])))
            for _ in range(3)]  # fmt: skip
    nodes = [node("Slice", ["x" if not i else f"y{i - 1}", f"a{i}", f"b{i}", "", f"c{i}"], [f"y{i}"])
             for i in range(3)]  # fmt: skip
    known = [constant(f"{k}{i}", [n]) for i, cut in enumerate(cuts)
             for k, n in zip("abc", cut, strict=True)]  # fmt: skip
    shapes = shapes_of(model_of(nodes, [value("x", ["N"])], tuple(known)))
    for size in (0, 1, 2, 3, 4, 5, 8):
        left = np.zeros(size)
        for i, (start, stop, step) in enumerate(cuts):
            left = left[start:stop:step]
            assert at(shapes, f"y{i}", N=size) == left.shape


@pytest.mark.parametrize("step", [-1, -2, -5])
def test_slices_backward_are_as_long_as_onnxruntimes(step: int):
    """Which start at the first number if they would start before it; NumPy's are empty then."""
    numbers = [-(2**63), -9, -2, -1, 0, 1, 3, 9]
    pairs = [(start, stop) for start in numbers for stop in numbers]
    nodes = [node("Slice", ["x", f"{a}", f"{b}", "0", "step"], [f"{a}:{b}"]) for a, b in pairs]
    known = [constant(f"{n}", [n]) for n in numbers]
    model = model_of(nodes, [value("x", ["N"])], (*known, constant("step", [step])))
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=of.output[0]) for of in nodes)
    shapes, executed = shapes_of(model), runtimes.Runtimes(model)
    for size in (1, 2, 3, 4, 8):
        real = executed.run({"x": np.zeros(size, np.float32)})[0]
        for name, shape in real.items():
            assert at(shapes, name, N=size) == shape
    assert all(at(shapes, of.output[0], N=0) == (0,) for of in nodes)


def test_what_takes_too_long_is_given_up_at_its_place():
    def twice(of: int) -> onnx.FunctionProto:
        nodes = [
            node(f"f{of}", ["a"], ["b"], domain="my"),
            node(f"f{of}", ["b"], ["c"], domain="my"),
        ]
        return helper.make_function("my", f"f{of + 1}", ["a"], ["c"], nodes, OPSETS)

    first = helper.make_function("my", "f0", ["a"], ["b"], [node("Relu", ["a"], ["b"])], OPSETS)
    functions = (first, *(twice(i) for i in range(29)))
    model = model_of([node("f29", ["x"], ["y"], domain="my")], [value("x", ["N"])], (), functions)
    with pytest.raises(UnsupportedModel, match=r"given up at .*takes too long"):
        ModelInference(model, strict=True, seconds=0.2).run()


@pytest.mark.parametrize("keep", [2, -(2**63), 2**31])
def test_flags_that_are_neither_0_nor_1_leave_a_result_unknown(keep: int):
    model = model_of([node("ReduceSum", ["x"], ["y"], keepdims=keep)], [value("x", [2, 3])])
    assert shapes_of(model).dims("y") is None


def test_graphs_inside_take_and_give_what_they_need():
    body = helper.make_graph(
        [node("Identity", ["going"], ["on"])], "body",
        [value("i", [], INT64), value("going", [], BOOL)], [value("on", [], BOOL)],
    )  # fmt: skip
    loop = node("Loop", ["", "", "x"], ["y"], body=body)
    with pytest.raises(UnsupportedModel, match="has 2 inputs, not 3"):
        shapes_of(model_of([loop], [value("x", [2])]))
    one = branch(node("Relu", ["x"], ["r"]))
    choice = node("If", ["c"], ["y", "z"], then_branch=one, else_branch=one)
    with pytest.raises(UnsupportedModel, match="has only 1 outputs"):
        shapes_of(model_of([choice], [value("x", [2]), value("c", [], BOOL)]))


def test_rests_are_below_what_they_are_left_by():
    """PyTorch's `roll`: what is behind -2 % T, and what is before it."""
    bounds = (constant("minus", [-2]), constant("zero", [0]), constant("one", [1]))
    nodes = [
        node("Shape", ["x"], ["t"], start=1, end=2), node("Mod", ["minus", "t"], ["at"]),
        node("Slice", ["x", "zero", "at", "one"], ["front"]),
        node("Slice", ["x", "at", "t", "one"], ["back"]),
        node("Concat", ["back", "front"], ["y"], axis=1),
    ]  # fmt: skip
    shapes = shapes_of(model_of(nodes, [value("x", ["B", "T"])], bounds))
    for t in (1, 2, 5):
        found = [at(shapes, name, B=3, T=t) for name in ("front", "back", "y")]
        assert found == [(3, -2 % t), (3, t - -2 % t), (3, t)]


@pytest.mark.parametrize("by", [3, -3])
def test_rests_of_what_is_surely_larger_are_known(by: int):
    """A tensor of which a convolution needs 5 rows at least is rolled by 3."""
    known = (constant("by", [by]),)
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Shape", ["x"], ["n"], start=2, end=3),
             node("Mod", ["by", "n"], ["at"]), node("ConstantOfShape", ["at"], ["y"]),
             node("Div", ["by", "n"], ["times"]), node("ConstantOfShape", ["times"], ["z"])]  # fmt: skip
    shapes = shapes_of(
        model_of(nodes, [value("x", [1, 2, "N", 9]), value("w", [2, 2, 5, 5])], known)
    )
    for size in (5, 8):
        assert at(shapes, "y", N=size) == (by % size,)
        assert at(shapes, "z", N=size) == (0,)


@given(st.integers(-9, 9), st.integers(1, 9), st.integers(-3, 3), st.integers(-9, 9))
def test_bounds_of_rests_hold(top: int, by: int, factor: int, more: int):
    size, other = (Dim.of(Variable("dim", name)) for name in "ab")
    for numerator in (Dim.of(top), other * top, other + top):
        rest = numerator % size * factor + more
        low = rest.least()
        for n in (1, 4):
            real = evaluate(rest, lambda v, n=n: by if v is size.sole_variable else n)
            assert low is None or (real is not None and low <= real)
    assert (other % size).least() == 0
    assert (size - other % size).least() == 1


def test_results_of_iterations_that_differ_are_unknown_where_they_do():
    body = helper.make_graph(
        [node("Identity", ["going"], ["on"]), node("Transpose", ["s"], ["next"], perm=[1, 0, 2]),
         node("Identity", ["s"], ["kept"])],
        "body", [value("i", [], INT64), value("going", [], BOOL), value("s", None)],
        [value("on", [], BOOL), value("next", None), value("kept", None)],
    )  # fmt: skip
    loop = node("Loop", ["two", "", "x"], ["last", "all"], body=body)
    given = (constant("two", 2),)
    shapes = shapes_of(model_of([loop], [value("x", ["B", "C", "A"])], given))
    assert at(shapes, "last", A=5, B=1, C=0) == (1, 0, 5)
    assert at(shapes, "all", A=5, B=1, C=0) == (2, None, None, 5)
    assert not shapes.requirements()


def test_a_shape_of_too_many_sizes_is_refused():
    grid = node("AffineGrid", ["theta", "sizes"], ["y"])
    inputs = [value("theta", ["N", 2, 3]), value("sizes", [2**62], INT64)]
    with pytest.raises(UnsupportedModel, match="AffineGrid"):
        shapes_of(model_of([grid], inputs, opset=20))


def test_a_quotient_of_a_quotient_is_bounded_by_it():
    """As images are filled up to whole windows behind a strided convolution."""
    places = Dim.of(Variable("dim", "n")) // 4
    assert (places - (places * 6) // 7).least() == 0
    assert (places + 1 - ((places + 1) * 6) // 7).least() == 1


@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.integers(-5, 5), st.sampled_from([1, 2, 4, 8, 3, 6])),
        min_size=2, max_size=3,
    ),
    st.integers(0, 40),
)  # fmt: skip
def test_bounds_of_quotients_of_one_size_hold(parts: list[tuple[int, int, int]], size: int):
    count = Variable("count", "n")
    whole = total((Dim.of(count) + more) // by * factor for factor, more, by in parts)
    real = sum((size + more) // by * factor for factor, more, by in parts)
    assert evaluate(whole, lambda _: size) == real
    low, high = whole.least(), whole.most()
    assert low is None or low <= real
    assert high is None or high >= real
    assert evaluate(whole // 2, lambda _: size) == real // 2


def test_what_grows_with_a_variable_has_no_bound():
    a, b, c = (Dim.of(Variable(kind, kind)) for kind in ("dim", "count", "count"))
    falls = [a - b, a - b // 4, a * 3 - b * c, a // 2 - (b * 2 + a) // 3, a - largest([b, c - 7])]
    for whole in falls:
        assert whole.least() is None
        assert (-whole).most() is None
    assert (a // 2 - (a + 1) // 3).least() is not None  # the same variable on both sides
    assert (a - smallest([b, ONE])).least() == 0


@pytest.mark.parametrize("count", [3, 5])
def test_a_variable_that_is_said_to_grow_does(count: int):
    names = [Variable("count", name) for name in "abcde"[:count]]
    dims = [Dim.of(name) for name in names]
    wholes = [
        total(dims) // 3, largest([dims[0] - dims[1], dims[2]]), dims[0] * dims[1] - dims[2],
        (dims[0] - dims[1] * 2) // 5 * 2 - dims[0], total(dims) - dims[0] * dims[1],
    ]  # fmt: skip
    for whole in wholes:
        one = evaluate(whole, lambda _: 1)
        assert one is not None
        for variable in whole.growing:
            far = evaluate(whole, lambda v, of=variable: 10**6 if v is of else 1)
            assert far is not None
            assert far > one + 1000
    assert set(wholes[0].growing) == set(names[:4])
    assert not wholes[3].growing


def test_samples_are_what_a_dimension_is_for_some_values():
    kinds = ("dim", "count", "integer")
    names = [Variable(kind, kind) for kind in kinds]
    a, b, c = map(Dim.of, names)
    whole = largest([a - b, c * c - 7]) * 2 - (a * b + c + 5) // 3 + smallest([a, b])
    values = [Dim.of(name).samples for name in names]
    assert [found and found[0] for found in values] == [1, 0, -2]
    for index in range(3):
        at = {name: found[index] for name, found in zip(names, values, strict=True) if found}
        assert evaluate(whole, at.get) == (whole.samples or ())[index]
    assert (a // (a - 1)).samples is None


def test_a_maximum_covers_another_option_by_option():
    b = Dim.of(Variable("count", "b"))
    rest = largest([b - 1, ZERO]) - smallest([b, ONE])
    whole, less = largest([rest, ZERO]), largest([rest - 1, ZERO])
    assert smallest([whole, less]) is less
    assert largest([whole, less]) is whole
    assert smallest([whole + 1, less]) is less
    assert smallest([whole - 1, less]) is whole - 1
    half = (b + 1) // 2
    assert largest([half, largest([half - 1, ZERO])]) is half


def test_windows_of_halves_fill_them():
    """Swin's second stage: half of the places is more than half of the half, and not nothing."""
    size, count = (Dim.of(Variable(kind)) for kind in ("dim", "count"))
    places, half = (count + 4) // 4, size - size // 2
    assert (places - places // 2).least() == 1
    assert (places - (places * 6 + places // 2) // 7).least() == 1
    assert (places * 7 - (places * 6) // 7 * 7 - 3).least() == 4
    assert ((ONE - smallest([half * 2, ONE])) // 2).constant == 0


def test_a_product_is_divided_by_its_expanded_factors():
    """The number of windows times the batch, by the number of windows: the batch."""
    nodes = [
        node("Conv", ["x", "w"], ["p"], strides=[4, 4]),
        node("Shape", ["p"], ["b"], end=1), node("Shape", ["p"], ["h"], start=2, end=3),
        node("Shape", ["p"], ["w4"], start=3), *(
            part for side in ("h", "w4") for part in (
                node("Mul", [side, "six"], [f"{side}6"]), node("Div", [f"{side}6", "seven"],
                [f"{side}q"]), node("Sub", [side, f"{side}q"], [f"{side}n"]))),
        node("Mul", ["hn", "w4n"], ["windows"]), node("Mul", ["b", "windows"], ["all"]),
        node("Div", ["all", "windows"], ["batch"]), node("ConstantOfShape", ["batch"], ["y"]),
    ]  # fmt: skip
    known = (constant("six", [6]), constant("seven", [7]))
    inputs = [value("x", ["B", 3, "H", "W"]), value("w", [8, 3, 4, 4])]
    assert shapes_of(model_of(nodes, inputs, known)).text("y") == "[B]"


@pytest.mark.parametrize(("bound", "waits"), [(0, False), (1, False), (2, True)])
def test_a_product_of_differences_is_as_large_as_they_are(bound: int, waits: bool):
    """What its terms alone don't show: each difference is a quarter of a size, rounded up."""
    solver = AxonSolver()
    height, width = solver.fresh_dim("h"), solver.fresh_dim("w")
    area = (height - 3 * height // 4) * (width - 3 * width // 4)
    solver.require(AtLeast(area, bound, Origin(Span("f", 1), "area")))
    assert bool(solver.waiting()) == waits


def test_batches_are_told_from_windows_by_a_reshape():
    """Swin v2: the windows of an axis are `H - 3*H // 4`, in which H occurs twice."""
    nodes = [
        node("Shape", ["x"], ["h"], start=1, end=2), node("Shape", ["x"], ["w"], start=2), *(
            part for side in ("h", "w") for part in (
                node("Mul", [side, "three"], [f"{side}3"]), node("Div", [f"{side}3", "four"],
                [f"{side}q"]), node("Sub", [side, f"{side}q"], [f"{side}n"]))),
        node("Mul", ["hn", "wn"], ["windows"]), node("Shape", ["x"], ["b"], end=1),
        node("Mul", ["b", "windows"], ["all"]), node("ConstantOfShape", ["all"], ["flat"]),
        node("Concat", ["minus", "hn", "wn"], ["shape"], axis=0),
        node("Reshape", ["flat", "shape"], ["y"]),
    ]  # fmt: skip
    known = (constant("three", [3]), constant("four", [4]), constant("minus", [-1]))
    shapes = shapes_of(model_of(nodes, [value("x", ["B", "H", "W"])], known))
    for batch, high, wide in ((1, 1, 1), (3, 4, 9), (2, 13, 8)):
        said = at(shapes, "y", B=batch, H=high, W=wide)
        assert said == (batch, high - 3 * high // 4, wide - 3 * wide // 4)
