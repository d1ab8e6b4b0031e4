"""`vmap`: all slices at once give what they give one by one, derivatives too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.axon.differentiated import CASES
from tests.axon.test_gradients import leaves, nested

from tawa import axon
from tawa.axon.cpu.errors import NotForOnnx
from tawa.axon.running import control
from tawa.axon.running.leading import leading
from tawa.axon.typing.errors import RunTimeError
from tawa.functional.errors import TypesDisagree

DECIDED_BY_NUMBERS = {"a loop of unknown length", "a choice"}
COUNT = 3
SLOPES = """
def weighted c p = sum_all (f p * c)
def slopes c p = grad (weighted c) p
def all ps = vmap f ps
def each c ps = vmap (slopes c) ps
def through c ps = grad (fn ps -> sum_all (vmap f ps * c)) ps
"""


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows when slices are computed one by one."""
    found: list[str] = []
    original = vars(control)["_each"]

    def each(*given: Any) -> Any:
        found.append("slices")
        return original(*given)

    monkeypatch.setattr(control, "_each", each)
    return found


def close(found: Any, expected: Any) -> None:
    for mine, other in zip(leaves(found), leaves(expected), strict=True):
        assert (mine.shape, mine.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", CASES)
def test_slices_together_give_what_they_give_alone(name: str, one_by_one: list[str]):
    case, random = CASES[name], np.random.default_rng(len(name))
    module = axon.load(case.text + SLOPES)
    flat = [
        [random.uniform(case.low, case.low + 2.0, shape) for shape in case.shapes]
        for _ in range(COUNT)
    ]
    alone = [nested(case, arrays) for arrays in flat]
    together = nested(case, [np.stack(part) for part in zip(*flat, strict=True)])
    expected = np.stack([module["f"](tree) for tree in alone])
    close(module["all"](together), expected)
    weights = np.cos(np.arange(expected[0].size)).reshape(expected[0].shape)
    slopes = [leaves(module["slopes"](weights, tree)) for tree in alone]
    by_part = tuple(np.stack(part) for part in zip(*slopes, strict=True))
    for definition in ("each", "through"):
        close(tuple(leaves(module[definition](weights, together))), by_part)
    assert bool(one_by_one) == (name in DECIDED_BY_NUMBERS)


X = np.random.default_rng(1).normal(size=(3, 4, 5))
I = np.array([[0, 3, 3], [2, 1, 0], [1, 1, 2]])  # noqa: E741


@pytest.mark.parametrize(
    ("each", "given"),
    [
        ("fn (x, i) -> take x i", (X, I)),
        ("fn (x, i) -> (take (x .* x) (i.[0]), sort x)", (X, I)),
        ("fn (x, w) -> x @ w", (X, X.transpose(0, 2, 1))),
        ("fn (x, w) -> (layer_norm (w.[0]) (w.[1]) x, rms_norm (w.[0]) x)", (X, X)),
        ("fn (x, w) -> vmap (fn r -> r * sum_all w) x", (X, X)),
        ("fn (x, w) -> (scan (fn h r -> (h + r, h * r)) (w.[0]) x).1", (X, X)),
        ("fn (x, w) -> (1.0, argmax{axis = 0} x, one_hot{4} (argmax{axis = 0} w))", (X, X)),
        ("fn (x, w) -> [x, w, x]", (X, X)),
        ("fn (x, w) -> (conv1d{pad = 1} (expand{0} x) (expand{2} w), outer (x.[0]) (w.[1]))",
         (X, X[:, :, :4])),
        ("fn (x, w) -> match sign (sum_all x) with 1.0 -> x | _ -> w end", (X, X)),
    ],
)  # fmt: skip
def test_slices_of_pairs(each: str, given: tuple[Any, ...], one_by_one: list[str]):
    module = axon.load(f"def one p = ({each}) p\ndef all p = vmap one p")
    rows = [module["one"](tuple(part[i] for part in given)) for i in range(COUNT)]
    expected = tuple(np.stack(part) for part in zip(*map(leaves, rows), strict=True))
    close(tuple(leaves(module["all"](given))), expected)
    assert bool(one_by_one) == ("match" in each)


def test_what_is_the_same_for_all_slices_is_not_repeated():
    module = axon.load(
        "def rows w xs = vmap (fn x -> relu (x @ w)) xs\n"
        "def each w xs = vmap (fn x -> grad (fn w -> sum_all (x @ w)) w) xs\n"
        "def table t i = vmap (fn i -> take t i) i"
    )
    w, xs = np.ones((2, 3), np.float32), np.ones((7, 4, 2), np.float32)
    for name, given, op in (("rows", (w, xs), "MatMul"), ("each", (w, xs), "MatMul"),
                            ("table", (w, I % 2), "Gather")):  # fmt: skip
        fast = axon.compile(module[name], device="cpu", threads=1)
        nodes = [node.op_type for node in fast.to_onnx(*given).graph.node]
        assert nodes.count(op) == 1
        assert "Expand" not in nodes or name == "each"
        close(fast(*given), module[name](*given))


def test_an_index_is_out_of_range_of_its_own_slice():
    function = axon.load("def f x i = vmap (fn (x, i) -> take x i) (x, i)")["f"]
    for run in (function, axon.compile(function, device="cpu", threads=1)):
        for index in (4, -5):
            with pytest.raises(RunTimeError):
                run(X, I + index * (I == 3))


def test_types_of_slices():
    module = axon.load(
        "def f g xs = vmap g xs\n"
        "def h (xs, ys) = vmap (fn (x, y) -> (x .+ y, sum_all x)) (xs, ys)\n"
        "def nothing x = vmap (fn () -> x) ()"
    )
    assert module["f"].type == "('x -> 'y) -> 'a -> 'ys where 'ys stacks n 'y, 'a stacks n 'x"
    assert module["h"].type == "(t[n, ..s], t[n, ..s]) -> (t[n, ..s], t[n]) where num t"
    with pytest.raises(RunTimeError, match="no tensor"):
        module["nothing"](X)
    with pytest.raises(TypesDisagree, match="a function is no tensor"):
        axon.load("def f (x: f32[3]) = vmap (fn a -> (a, fn b -> a)) x")


def test_slices_run_as_gpu_kernels():
    function = axon.load("def f ws xs = vmap (fn (w, x) -> tanh (x * w)) (ws, xs)")["f"]
    random = np.random.default_rng(2)
    ws, xs = (random.normal(size=s).astype(np.float32) for s in ((2, 4), (2, 3, 4)))
    np.testing.assert_allclose(axon.compile(function)(ws, xs), function(ws, xs), rtol=1e-4)


def test_operators_with_leading_axes_are_read_off_their_signatures():
    assert leading("sum_all") is None
    assert leading("@") is None
    assert leading("map") is None
    found = leading("linear")
    assert found is not None
    assert found.follow == (None, None, 1)
    assert not found.one
    found = leading("max_pool")
    assert found is not None
    assert found.one
    found = leading("matmul")
    assert found is not None
    assert found.broadcast


def test_what_onnxruntime_has_no_operator_for_is_a_named_error():
    fast = axon.compile(axon.load("def f x = erf x")["f"], device="cpu", threads=1)
    with pytest.raises(NotForOnnx, match="Erf"):
        fast(np.ones(3))
