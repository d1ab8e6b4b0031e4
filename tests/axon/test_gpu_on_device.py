"""Compiled Axon programs on a device: results against float64, CUDA graphs, one set of kernels."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tawa import axon
from tawa.axon.gpu import library

pytestmark = pytest.mark.gpu

EXAMPLES = Path(__file__).parents[2] / "examples" / "axon"
TOLERANCE = {"float16": 5e-3, "bfloat16": 4e-2, "float32": 3e-5}


@pytest.fixture(scope="module")
def torch() -> Any:
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("needs a CUDA device")
    module.manual_seed(0)
    return module


def mapped(value: Any, function: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(mapped(item, function) for item in value)
    return function(value)


def flat(value: Any) -> list[Any]:
    return [x for item in value for x in flat(item)] if isinstance(value, tuple) else [value]


def to_float64(x: Any) -> Any:
    return x.double().cpu().numpy() if x.dtype.is_floating_point else x.cpu().numpy()


def check(compiled: Any, arguments: tuple[Any, ...], **statics: int) -> None:
    found = compiled(*arguments, **statics)
    expected = compiled.function(*mapped(arguments, to_float64), **statics)
    for a, b in zip(flat(found), flat(expected), strict=True):
        assert tuple(a.shape) == b.shape
        error = np.linalg.norm(to_float64(a) - b) / np.linalg.norm(b)
        assert error < TOLERANCE[str(a.dtype).removeprefix("torch.")]


def mlp_arguments(array: Any, rows: tuple[int, ...], widths: tuple[int, int, int, int]) -> Any:
    layers = [(array(k, n) * k**-0.5, array(n)) for k, n in pairwise(widths)]
    return (*layers, array(*rows, widths[0]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_one_set_of_kernels_serves_all_sizes(torch: Any, dtype: str) -> None:
    def array(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=getattr(torch, dtype))

    compiled = axon.compile(axon.load(EXAMPLES / "mlp.ax")["mlp"])
    check(compiled, mlp_arguments(array, (64,), (128, 256, 256, 64)))
    kernels = set(library._KERNELS)
    check(compiled, mlp_arguments(array, (3, 5, 16), (64, 96, 256, 32)))
    check(compiled, mlp_arguments(array, (2048,), (1024, 512, 2048, 1024)))
    assert set(library._KERNELS) == kernels  # of other tiles


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_convolutions_read_images_however_they_lie(torch: Any, dtype: str) -> None:
    """As PyTorch's contiguous images, channels last, or beginning inside of 16 bytes."""

    def array(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=getattr(torch, dtype)) / 4

    compiled = axon.compile(
        axon.load("""
def f (p, q, r) x =
  let y = relu (conv_same x p) in
  let z = max_pool{size = 3, stride = 2, pad = 1} (relu (conv2d y q .+ x)) in
  z .+ relu (conv2d{pad = 2, dilation = 2} z r)
""")["f"]
    )
    weights = array(64, 32, 3, 3), array(32, 64, 1, 1), array(32, 32, 3, 3)
    x = array(6, 32, 28, 20)
    aside = torch.empty(x.numel() + 1, device="cuda", dtype=x.dtype)[1:].view(x.shape)
    for image in (x, x.contiguous(memory_format=torch.channels_last), aside.copy_(x)):
        check(compiled, (weights, image))


def test_rows_of_odd_sizes_go_through_pointers(torch: Any) -> None:
    def array(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=torch.float16)

    compiled = axon.compile(axon.load(EXAMPLES / "mlp.ax")["mlp"])
    check(compiled, mlp_arguments(array, (7,), (33, 65, 129, 5)))
    x = array(1000, 65)[:, 1:]  # starts inside a piece of 16 bytes
    check(compiled, (*mlp_arguments(array, (1,), (64, 64, 64, 64))[:3], x))


@pytest.mark.parametrize(("d", "t"), [(64, 200), (128, 256)])
def test_a_transformer(torch: Any, d: int, t: int) -> None:
    def array(*shape: int) -> Any:
        x = torch.randn(shape, device="cuda", dtype=torch.float16)
        return x * shape[0] ** -0.5 if len(shape) == 2 else x

    model, heads, words = 4 * d, 4, 1000
    attention = tuple(array(model, model) for _ in range(4))
    gated = (array(model, 2 * model), array(model, 2 * model), array(2 * model, model))
    block = (array(model), attention, array(model), gated)
    tokens = torch.randint(0, words, (2, t), device="cuda")
    compiled = axon.compile(axon.load(EXAMPLES / "transformer.ax")["transformer"])
    arguments = (array(words, model), block, block, array(model), tokens)
    check(compiled, arguments, h=heads)


BLOCKS = """
def norm (scale, offset, mean, variance) x = batch_norm scale offset mean variance x

def bottleneck{g} (w1, n1, w2, n2, w3, n3) x =
  let y = relu (norm n1 (conv2d x w1)) in
  let y = relu (norm n2 (conv2d{pad = 1, groups = g} y w2)) in
  relu (x .+ norm n3 (conv2d y w3))

def generator w n x = relu (norm n (up{stride = 2, pad = 1} x w))

def down w v (x: t[b, c, ..s]) =
  let y = silu (conv2d{stride = 2, pad = 2, groups = c} x w) in
  max_pool{size = 3, stride = 2, pad = 1} (conv_same y v)
"""


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_convolutions(torch: Any, dtype: str) -> None:
    """Alone, in groups, depthwise, transposed; images of whole and of odd sizes."""

    def array(*shape: int) -> Any:
        x = torch.randn(shape, device="cuda", dtype=getattr(torch, dtype))
        return x * (x[0].numel() ** -0.5) if len(shape) == 4 else x

    def statistics(c: int) -> Any:
        return (array(c), array(c), array(c), array(c).abs() + 0.5)

    module = axon.load(BLOCKS)
    for batch, c, side, g in ((2, 64, 16, 8), (3, 32, 7, 2)):
        inner = c // 2
        weights = (array(inner, c, 1, 1), statistics(inner), array(inner, inner // g, 3, 3),
                   statistics(inner), array(c, inner, 1, 1), statistics(c))  # fmt: skip
        image = array(batch, c, side, side) * c**0.5 * side
        check(axon.compile(module["bottleneck"]), (weights, image), g=g)
        check(axon.compile(module["generator"]), (array(c, 24, 4, 4), statistics(24), image))
        check(axon.compile(module["down"]), (array(c, 1, 5, 5), array(48, c, 3, 3), image))


def test_a_call_can_be_captured_in_a_cuda_graph(torch: Any) -> None:
    def array(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=torch.float16)

    compiled = axon.compile(axon.load(EXAMPLES / "lstm.ax")["cell"])
    weights = (array(64, 256) * 0.1, array(64, 256) * 0.1, array(256))
    state, x = (array(32, 64), array(32, 64)), array(32, 64)
    compiled(weights, state, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = compiled(weights, state, x)
    x.copy_(array(32, 64))
    graph.replay()
    torch.cuda.synchronize()
    expected = compiled(weights, state, x)
    for a, b in zip(flat(found), flat(expected), strict=True):
        assert torch.equal(a, b)


def test_a_scan_joins_its_results(torch: Any) -> None:
    def array(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=torch.float16)

    compiled = axon.compile(axon.load(EXAMPLES / "lstm.ax")["lstm"])
    weights = (array(64, 128) * 0.1, array(32, 128) * 0.1, array(128))
    check(compiled, (weights, (array(8, 32), array(8, 32)), array(5, 8, 64)))


def test_long_rows_take_several_passes(torch: Any) -> None:
    compiled = axon.compile(axon.load("def f s o x = layer_norm s o (softmax x .* x)")["f"])
    for columns in (100, 1000, 4096, 20000):
        x = torch.randn((3, 2, columns), device="cuda", dtype=torch.float32)
        check(compiled, (torch.ones_like(x[0, 0]), torch.zeros_like(x[0, 0]), x * 3))


def test_an_index_outside_of_the_table_gives_nan(torch: Any) -> None:
    compiled = axon.compile(axon.load("def f x i = take x i")["f"])
    found = compiled(torch.ones((4, 8), device="cuda"), torch.tensor([1, 4, -1], device="cuda"))
    assert found[0].isfinite().all()
    assert found[1:].isnan().all()


def test_rows_of_a_table_are_added_up(torch: Any) -> None:
    function = axon.load("def f table i = grad (fn t -> sum_all (take t i ** 2.0)) table")["f"]
    table = torch.randn(1000, 768, device="cuda")
    index = torch.randint(1000, (4, 1024), device="cuda")
    found = axon.compile(function)(table, index)
    counts = torch.bincount(index.flatten(), minlength=1000)[:, None]
    assert torch.allclose(found, 2 * table * counts, rtol=1e-4, atol=1e-4)


def test_a_module_trains_on_a_device(torch: Any) -> None:
    function = axon.load("def f (w1, b1) (w2, b2) x = linear w2 b2 (relu (linear w1 b1 x))")["f"]
    plain = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 32)
    ).cuda()
    names = (("0.weight.T", "0.bias"), ("2.weight.T", "2.bias"))
    own = axon.torch_module(function, axon.weights(function, plain.state_dict(), names)).cuda()
    x, y = torch.randn(512, 64, device="cuda"), torch.randn(512, 32, device="cuda")
    for model in (own, plain):
        optimiser = torch.optim.AdamW(model.parameters(), 0.01)
        for _ in range(5):
            optimiser.zero_grad()
            ((model(x) - y) ** 2).mean().backward()
            optimiser.step()
    assert torch.allclose(own(x), plain(x), atol=2e-3)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    "text",
    [
        "def f x = (sort x, sort{axis = 0} x)",
        "def f x = (cumsum x, cumsum{axis = 0} x)",
        "def f x = vmap (fn y -> if sum y > 0.0 then sort y else cumsum y) x",
        "def f x = grad (fn y -> if sum_all y > 0.0 then sum_all (sort y .* y) else sum_all y) x",
    ],
    ids=["sort", "cumsum", "condition of each row", "derivative"],
)
def test_orders_and_conditions(torch: Any, text: str, dtype: str) -> None:
    compiled = axon.compile(axon.load(text)["f"])
    for shape in ((300, 129), (64, 1000)):
        x = torch.randn(shape, device="cuda", dtype=getattr(torch, dtype))
        check(compiled, (x,))
        check(compiled, (x.abs(),))
