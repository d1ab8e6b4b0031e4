"""Functions as ONNX models: the results of onnxruntime are those of NumPy, derivatives too."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from tests.axon.differentiated import CASES
from tests.axon.test_gradients import leaves, nested, setting

from tawa import axon
from tawa.axon.cpu.errors import NotForOnnx
from tawa.axon.typing.errors import ContractViolation, RunTimeError

DECIDED_WHILE_RUNNING = {"a loop of unknown length", "a choice"}


@pytest.mark.parametrize("name", sorted(CASES.keys() - DECIDED_WHILE_RUNNING))
def test_models_compute_what_programs_do(name: str):
    case, (module, flat, weights) = CASES[name], setting(name)
    single = "float64" not in case.text and "f64" not in case.text
    kind = np.float32 if single else np.float64
    tree = nested(case, [x.astype(kind) for x in flat])
    for definition, given in (("f", (tree,)), ("slopes", (weights.astype(kind), tree))):
        function = module[definition]
        expected = leaves(function(*given))
        found = leaves(axon.compile(function, device="cpu", threads=1)(*given))
        for mine, other in zip(found, expected, strict=True):
            assert mine.dtype == other.dtype
            np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-5)


def test_a_model_is_checked_and_stands_alone():
    function = axon.load("def f{h} w x = (sum{axis = 0} x, reshape{[_, h]} (relu (x @ w)))")["f"]
    w, x = np.ones((3, 4), np.float32), np.ones((2, 3), np.float32)
    model = axon.compile(function, device="cpu").to_onnx(w, x, h=2)
    onnx.checker.check_model(model, full_check=True)
    shapes = [[d.dim_value for d in o.type.tensor_type.shape.dim] for o in model.graph.output]
    assert shapes == [[3], [4, 2]]


def test_arguments_are_checked_once_for_each_shape():
    fast = axon.compile(axon.load("def f (x: t[n]) (y: t[n]) = x .+ y")["f"], device="cpu")
    assert fast(np.ones(3), np.ones(3)).tolist() == [2, 2, 2]
    assert fast(np.ones(2, np.int64), np.ones(2, np.int64)).tolist() == [2, 2]
    with pytest.raises(ContractViolation):
        fast(np.ones(3), np.ones(4))
    assert repr(fast) == "<compiled axon function f : t[n] -> t[n] -> t[n] where num t>"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x // y", [2, -3, -3, 2]),
        ("x % y", [1, 1, -1, -1]),
        ("x / y", [2, -2, -2, 2]),
    ],
)
def test_integers_divide_as_in_numpy(body: str, expected: list[int]):
    fast = axon.compile(axon.load(f"def f x y = {body}")["f"], device="cpu")
    assert fast(np.array([5, -5, 5, -5]), np.array([2, 2, -2, -2])).tolist() == expected


def test_what_can_not_be_a_model_is_an_error_at_its_place():
    for text, line in (
        ("def f x =\n  if sum_all x > 0.0 then x else exp x", 2),
        ("def f x =\n  while (fn y -> sum_all y < 9.0) (fn y -> y + 1.0) x", 2),
        ("def f x =\n  fn y -> x + y", None),
    ):
        with pytest.raises(NotForOnnx) as found:
            axon.compile(axon.load(text)["f"], device="cpu")(np.ones(3))
        assert line is None or (found.value.span is not None and found.value.span.line == line)


def test_loops_compute_what_their_rows_have_in_common_at_once():
    text = (
        "def f w u h xs = (scan (fn h x -> let h = tanh (x @ w .+ h @ u) in (h, h)) h xs).1\n"
        "def g w xs = map (fn x -> relu (x @ w)) xs"
    )
    w, u, h = (np.ones(s, np.float32) for s in ((2, 3), (3, 3), (1, 3)))
    module, xs = axon.load(text), np.ones((7, 1, 2), np.float32)
    model = axon.compile(module["f"], device="cpu").bind(w, u).to_onnx(h, xs)
    assert [node.op_type for node in model.graph.node].count("MatMul") == 8
    model = axon.compile(module["g"], device="cpu").to_onnx(w, xs)
    assert [node.op_type for node in model.graph.node].count("MatMul") == 1
    fast = axon.compile(module["f"], device="cpu").bind(w, u, h)
    np.testing.assert_allclose(fast(xs), module["f"](w, u, h, xs), rtol=1e-6)
    np.testing.assert_allclose(
        axon.compile(module["g"], device="cpu")(w, xs), module["g"](w, xs), rtol=1e-6
    )


def test_only_what_all_rows_have_in_common_is_computed_at_once():
    text = (
        "def f w xs = (scan (fn h x -> let h = tanh (x @ w .+ h) in (h, h)) zeros{[2, 3]} xs).1\n"
        "def g xs = let ys = map (fn x -> exp x) xs in map (fn y -> y + 1.0) ys\n"
        "def h xs = let ys = map (fn x -> exp x) xs in (ys.[0], reverse{axis = 0} ys)"
    )
    module = axon.load(text)
    w, xs = np.ones((4, 3), np.float32), np.linspace(-1, 1, 40, dtype=np.float32).reshape(5, 2, 4)
    for name, given, counts in (
        ("f", (w, xs), {"MatMul": 1, "Add": 5, "Tanh": 5}),
        ("g", (xs,), {"Exp": 1, "Add": 1, "Split": 0, "Concat": 0, "Reshape": 0}),
        ("h", (xs,), {"Exp": 1}),
    ):
        fast = axon.compile(module[name], device="cpu", threads=1)
        found = [node.op_type for node in fast.to_onnx(*given).graph.node]
        assert {op: found.count(op) for op in counts} == counts
        for mine, other in zip(leaves(fast(*given)), leaves(module[name](*given)), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "given"),
    [("x // y", ([7, 1], [2, 0])), ("x % y", ([7, 1], [2, 0])), ("take x y", ([7, 1], [2, 2]))],
)
def test_what_has_no_result_is_an_error_everywhere(body: str, given: tuple[list[int], ...]):
    function = axon.load(f"def f (x: i64[2]) (y: i64[2]) = {body}")["f"]
    arrays = [np.array(numbers) for numbers in given]
    for run in (function, axon.compile(function, device="cpu", threads=1)):
        with pytest.raises(RunTimeError):
            run(*arrays)


def test_sums_of_powers_with_infinities():
    module = axon.load("""
        def f x = logsumexp x
        def slopes x = grad (fn x -> sum_all (f x)) x
    """)
    inf = np.inf
    x = np.array([[-inf, -inf], [inf, 1.0], [2.0, -inf]])
    for device in ("here", "cpu"):
        f, slopes = module["f"], module["slopes"]
        if device == "cpu":
            f, slopes = (axon.compile(g, device="cpu", threads=1) for g in (f, slopes))
        np.testing.assert_array_equal(f(x), [-inf, inf, 2.0])
        np.testing.assert_array_equal(slopes(x[::2]), [[0.0, 0.0], [1.0, 0.0]])


GATES = """
def gates (w, b) x = let i, f = halves (linear w b x) in sigmoid i .* tanh f
def also (w, b) x = let z = linear w b x in let i, f = halves z in (i .* f, z)
def run (w, u, b) h xs = (scan (fn h x -> let i, f = halves (linear w b x .+ h @ u) in
                           let h = tanh (i .* f) .+ h in (h, i)) h xs).1
"""


@pytest.mark.parametrize(("name", "products"), [("gates", 2), ("also", 1), ("run", 7)])
def test_what_is_taken_apart_by_columns_is_computed_in_parts(name: str, products: int):
    """Unless the whole is needed, too.

    Three steps of a loop multiply by both parts of `u`, but the last: nobody reads its state.
    """
    random = np.random.default_rng(5)
    w, u = (random.normal(0, 0.1, (96, 192)).astype(np.float32) for _ in range(2))
    b, x, xs = (random.normal(size=s).astype(np.float32) for s in ((192,), (5, 96), (3, 5, 96)))
    function = axon.load(GATES)[name]
    weights, given = ((w, u, b), (x, xs)) if name == "run" else ((w, b), (x,))
    fast = axon.compile(function, device="cpu", threads=1).bind(weights)
    for mine, other in zip(leaves(fast(*given)), leaves(function(weights, *given)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)
    nodes = fast.to_onnx(*given).graph.node
    assert sum(node.op_type in ("MatMul", "Gemm") for node in nodes) == products


def test_rows_of_a_product_are_read_whole():
    """Though they have as many columns as what it makes of them."""
    function = axon.load("def f (w, u) x = let i, f = halves (tanh (x @ w) @ u) in i .* f")["f"]
    random = np.random.default_rng(5)
    w, u = (random.normal(0, 0.1, (128, 128)).astype(np.float32) for _ in range(2))
    x = random.normal(size=(5, 128)).astype(np.float32)
    fast = axon.compile(function, device="cpu", threads=1).bind((w, u))
    np.testing.assert_allclose(fast(x), function((w, u), x), rtol=1e-4, atol=1e-5)
    nodes = fast.to_onnx(x).graph.node
    assert sum(node.op_type == "MatMul" for node in nodes) == 3


def test_few_columns_stay_one_product():
    function = axon.load(GATES)["gates"]
    w, b, x = np.ones((8, 64), np.float32), np.ones(64, np.float32), np.ones((2, 8), np.float32)
    fast = axon.compile(function, device="cpu").bind((w, b))
    assert [n.op_type for n in fast.to_onnx(x).graph.node].count("Split") == 1
