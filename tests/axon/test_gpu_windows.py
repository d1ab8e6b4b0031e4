"""Convolutions and pooling compiled for a device: results, and which kernels they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa import axon
from tawa.axon.gpu.compile import plan_for_device
from tawa.axon.running.trees import leaves_of

MODULE = axon.load("""
def conv{s, p, d} x w = conv2d{stride = s, pad = p, dilation = d} x w
def grouped{p, g} x w = conv1d{pad = p, groups = g} x w
def same x w = relu (conv_same x w)
def spread{s, p} x w = up{stride = s, pad = p} x w
def highest{k, s, p} x = max_pool{size = k, stride = s, pad = p} x

def net (p, q, r, d, n) x =
  let y = relu (norm n (conv_same x p)) in
  let z = conv2d{pad = 1, groups = 16} (max_pool{size = 2, stride = 2, pad = 0} y) d in
  let z = concat{axis = 1} z (conv2d{stride = 2, pad = 1} y q) in
  relu (z .+ conv2d z r)

def norm (scale, offset, mean, variance) x = batch_norm scale offset mean variance x

def bottleneck{g} (w1, n1, w2, n2, w3, n3) x =
  let y = relu (norm n1 (conv2d x w1)) in
  let y = relu (norm n2 (conv2d{pad = 1, groups = g} y w2)) in
  relu (x .+ norm n3 (conv2d y w3))

def depthwise w n (x: t[b, c, ..s]) = global_mean (relu (norm n (conv2d{pad = 2, groups = c} x w)))
def generator w n x = relu (norm n (up{stride = 2, pad = 1} x w))
""")
CASES: list[tuple[str, list[tuple[int, ...]], dict[str, int], str]] = [
    ("conv", [(2, 24, 16, 16), (16, 24, 3, 3)], {"s": 2, "p": 1, "d": 1}, "float16"),
    ("conv", [(1, 2, 7, 5), (3, 2, 2, 3)], {"s": 2, "p": 1, "d": 1}, "float32"),
    ("grouped", [(2, 24, 9), (24, 12, 8)], {"p": 2, "g": 2}, "float32"),
    ("same", [(2, 16, 8, 8), (16, 16, 3, 3)], {}, "float16"),
    ("conv", [(1, 8, 9, 12), (24, 8, 3, 2)], {"s": 1, "p": 2, "d": 2}, "float16"),
    ("conv", [(1, 16, 10, 9), (8, 16, 2, 2)], {"s": 3, "p": 0, "d": 1}, "float16"),
    ("grouped", [(2, 32, 40), (64, 16, 5)], {"p": 2, "g": 2}, "float16"),
    ("spread", [(2, 6, 5, 4), (6, 3, 3, 5)], {"s": 2, "p": 1}, "float32"),
    ("spread", [(1, 16, 4, 4), (16, 3, 2, 3)], {"s": 3, "p": 0}, "float16"),
    ("highest", [(2, 3, 8, 9)], {"k": 3, "s": 2, "p": 1}, "float16"),
    ("highest", [(1, 2, 12, 10)], {"k": 10, "s": 1, "p": 4}, "float32"),
]
generator = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("name", "shapes", "statics", "element"),
    CASES,
    ids=[f"{name} {number}" for number, (name, *_) in enumerate(CASES)],
)
def test_windows(
    name: str, shapes: list[tuple[int, ...]], statics: dict[str, int], element: str
) -> None:
    arrays = [(generator.standard_normal(s) - 1.5).astype(element) for s in shapes]
    found = axon.compile(MODULE[name])(*arrays, **statics)
    exact = MODULE[name](*(x.astype(np.float64) for x in arrays), **statics)
    assert (found.shape, found.dtype) == (exact.shape, arrays[0].dtype)
    error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    assert error < {"float16": 1e-3, "float32": 1e-6}[element]


SLOPES = axon.load("""
def conv{s, p, g} x w = value_and_grad (fn (x, w) ->
  let y = conv2d{stride = s, pad = p, groups = g} x w in sum_all (y .* y)) (x, w)
def line{s, p} x w = value_and_grad (fn (x, w) ->
  let y = conv1d{stride = s, pad = p} x w in sum_all (y .* y)) (x, w)
def highest{k, s, p} x w = value_and_grad (fn x ->
  sum_all (max_pool{size = k, stride = s, pad = p} x .* w)) x
def mean{k, s, p} x w = value_and_grad (fn x ->
  sum_all (mean_pool{size = k, stride = s, pad = p} x .* w)) x
def after{k, s, p} x f w = grad (fn f ->
  sum_all (max_pool{size = k, stride = s, pad = p} (relu (conv2d x f)) .* w)) f
""")
SLOPE_CASES: list[tuple[str, list[tuple[int, ...]], dict[str, int], list[str]]] = [
    ("conv", [(1, 8, 5, 4), (16, 8, 3, 3)], {"s": 2, "p": 1, "g": 1}, ["image", "filters"]),
    ("conv", [(1, 8, 4, 4), (16, 8, 1, 1)], {"s": 2, "p": 0, "g": 1}, ["image", "filters"]),
    ("conv", [(1, 3, 6, 5), (8, 3, 3, 3)], {"s": 2, "p": 1, "g": 1}, ["filters"]),
    ("conv", [(1, 3, 6, 5), (4, 3, 3, 2)], {"s": 2, "p": 3, "g": 1}, []),
    ("line", [(1, 8, 9), (8, 8, 4)], {"s": 1, "p": 2}, ["filters"]),
    ("highest", [(1, 2, 6, 7), (1, 2, 3, 4)], {"k": 3, "s": 2, "p": 1}, []),
    ("mean", [(1, 2, 6, 7), (1, 2, 3, 4)], {"k": 3, "s": 2, "p": 1}, []),
    ("after", [(1, 8, 4, 4), (8, 8, 1, 1), (1, 8, 2, 2)], {"k": 3, "s": 2, "p": 1}, ["filters"]),
]


@pytest.mark.parametrize(
    ("name", "shapes", "statics", "slopes"),
    SLOPE_CASES,
    ids=[f"{name} {number}" for number, (name, *_) in enumerate(SLOPE_CASES)],
)
def test_slopes(
    name: str, shapes: list[tuple[int, ...]], statics: dict[str, int], slopes: list[str]
) -> None:
    arrays = [(generator.standard_normal(s) / 2).astype("float16") for s in shapes]
    compiled = axon.compile(SLOPES[name])
    found = leaves_of(compiled(*arrays, **statics))
    exact = leaves_of(SLOPES[name](*(x.astype(np.float64) for x in arrays), **statics))
    for one, other in zip(found, exact, strict=True):
        assert np.linalg.norm(one - other) < 1e-3 * np.linalg.norm(other)
    plan = compiled.plan(*arrays, **statics)
    members = [next(iter(launch.call.group.members)) for launch in plan.launches]
    assert [node.function for node in members if node.op == "slopes"] == slopes


def kernels(name: str, *arguments: Any, **statics: int) -> list[str]:
    plan = plan_for_device(axon.compile(MODULE[name]), arguments, statics)
    return [launch.call.group.kind for launch in plan.launches]


def half(*shape: int) -> Any:
    return np.broadcast_to(np.float16(0), shape)


def statistics(c: int) -> tuple[Any, ...]:
    return tuple(half(c) for _ in range(4))


def test_a_bottleneck_is_four_kernels() -> None:
    """Norms, activations and the shortcut are where the convolutions are; one image is padded."""
    weights = (half(128, 256, 1, 1), statistics(128), half(128, 4, 3, 3), statistics(128))
    weights += (half(256, 128, 1, 1), statistics(256))
    assert kernels("bottleneck", weights, half(16, 256, 56, 56), g=32) == [
        "product", "points", "points", "product"
    ]  # fmt: skip


def test_images_lie_pixel_by_pixel_from_the_first_convolution_on() -> None:
    """Only the image and the filters of three taps a side are copied; nothing is turned back."""
    shapes = (16, 8, 3, 3), (8, 16, 3, 3), (24, 24, 1, 1), (16, 1, 3, 3)
    weights = [(generator.standard_normal(s) / 4).astype("float16") for s in shapes]
    norm = tuple(np.abs(generator.standard_normal(16)).astype("float16") for _ in range(4))
    image = generator.standard_normal((2, 8, 12, 10)).astype("float16")
    found = axon.compile(MODULE["net"])((*weights, norm), image)
    doubles = (*(w.astype(np.float64) for w in weights), tuple(v.astype(np.float64) for v in norm))
    exact = MODULE["net"](doubles, image.astype(np.float64))
    assert found.shape == exact.shape
    assert np.linalg.norm(found - exact) / np.linalg.norm(exact) < 2e-3
    assert found.transpose(0, 2, 3, 1).flags.c_contiguous
    kinds = kernels("net", (*weights, norm), image)
    assert (kinds.count("convolution"), kinds.count("product")) == (2, 1)
    plan = plan_for_device(axon.compile(MODULE["net"]), ((*weights, norm), image), {})
    copies = [
        n for launch in plan.launches for n in launch.call.group.members if n.function == "copy"
    ]
    assert sorted(n.shape for n in copies if n.data is None) == [
        (2, 12, 10, 8), (8, 3, 3, 16), (16, 3, 3, 8)
    ]  # fmt: skip


def test_few_numbers_a_window_are_added_up_where_they_are_needed() -> None:
    found = kernels("depthwise", half(40, 1, 5, 5), statistics(40), half(8, 40, 14, 14))
    assert found == ["points", "rows"]  # the first pads the image


def test_a_transposed_convolution_copies_nothing() -> None:
    weights, image = half(64, 32, 4, 4), half(8, 64, 8, 8)
    assert kernels("generator", weights, statistics(32), image) == ["product", "points"]


def test_products_whose_operands_lie_otherwise_are_not_one_loop_after_the_other() -> None:
    """Their tiles can't share shared memory."""
    module = axon.load("def f x w y v = x @ w .+ y @ transpose v")
    sides = half(256, 64), half(64, 128), half(256, 64), half(128, 64)
    plan = plan_for_device(axon.compile(module["f"]), sides, {})
    products = [p for launch in plan.launches for p in launch.call.group.products]
    assert [len(p.inputs) for p in products] == [2, 2]
