"""Compiled Axon programs in the simulator against the evaluator, and what is fused and compiled."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.axon.programs import Program, programs, shapes
from tests.work import calls_made

from tawa import axon
from tawa.axon.gpu import library
from tawa.axon.gpu.compile import CompiledFunction, plan_for_device
from tawa.axon.gpu.graph.errors import BadPrecision, NotForGpu
from tawa.axon.typing.errors import ContractViolation, ShapeMismatch
from tawa.driver.host_launch import stored
from tawa.runtime.launch import grid_sizes
from tawa.simulate.interpret.hopper import run as run_hopper

EXAMPLES = Path(__file__).parents[2] / "examples" / "axon"
TOLERANCE = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-12}
generator = np.random.default_rng(0)


def half(*shape: int) -> np.ndarray:
    return (generator.standard_normal(shape) * 0.5).astype(np.float16)


def single(*shape: int) -> np.ndarray:
    return generator.standard_normal(shape).astype(np.float32)


def mapped(value: Any, function: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(mapped(item, function) for item in value)
    return function(value)


def flat(value: Any) -> list[Any]:
    return [x for item in value for x in flat(item)] if isinstance(value, tuple) else [value]


def widened(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def check(function: axon.Function, *arguments: Any, **statics: int) -> CompiledFunction:
    """The compiled function's results are the evaluator's in float64, up to rounding."""
    compiled = axon.compile(function)
    found = flat(compiled(*arguments, **statics))
    same = flat(function(*arguments, **statics))
    try:
        exact = flat(function(*mapped(arguments, widened), **statics))
    except ContractViolation:  # the program says f32
        exact = same
    for a, b, c in zip(found, same, exact, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if a.dtype.kind == "f":
            scale = np.max(np.abs(c)) + 1e-6
            np.testing.assert_allclose(a / scale, c / scale, atol=TOLERANCE[str(a.dtype)])
        else:
            np.testing.assert_array_equal(a, b)
    return compiled


def example(name: str) -> axon.LoadedModule:
    return axon.load(EXAMPLES / f"{name}.ax")


def define(text: str) -> axon.Function:
    return axon.load(text)["f"]


def kinds(compiled: CompiledFunction, *arguments: Any, **statics: int) -> list[str]:
    return [launch.call.group.kind for launch in compiled.plan(*arguments, **statics).launches]


def test_mlp_is_a_kernel_a_layer_for_all_ranks_and_sizes():
    function = example("mlp")["mlp"]
    layers = ((half(16, 32), half(32)), (half(32, 48), half(48)), (half(48, 16), half(16)))
    compiled = check(function, *layers, half(5, 16))
    count = axon.compilations()
    for lead in ((3, 4), (1,), (2, 1, 3)):
        x = half(*lead, 16)
        np.testing.assert_allclose(compiled(*layers, x), function(*layers, x), atol=2e-2)
    small = ((half(16, 16), half(16)), (half(16, 16), half(16)), (half(16, 32), half(32)))
    x = half(7, 16)
    np.testing.assert_allclose(compiled(*small, x), function(*small, x), atol=2e-2)
    assert axon.compilations() == count
    assert kinds(compiled, *layers, half(5, 16)) == ["product"] * 3


def test_all_sizes_take_the_same_tiles_of_the_same_kernels():
    def shape(*sizes: int) -> np.ndarray:
        return np.broadcast_to(np.float16(0), sizes)

    block = axon.compile(example("transformer")["block"])
    mlp = axon.compile(example("mlp")["mlp"])
    plans: list[list[Any]] = []
    for lead in ((1,), (1, 1), (2, 64), (4, 2048)):
        for d in (128, 1024):
            weights = (shape(d), tuple(shape(d, d) for _ in range(4)), shape(d),
                       (shape(d, 4 * d), shape(d, 4 * d), shape(4 * d, d)))  # fmt: skip
            layers = tuple((shape(d, d), shape(d)) for _ in range(3))
            x = shape(*lead, d)
            launches = plan_for_device(block, (weights, x), {"h": d // 64}).launches
            launches += plan_for_device(mlp, (*layers, x), {}).launches
            plans.append([(launch.call.source, launch.call.variants) for launch in launches])
    assert all(plan == plans[0] for plan in plans)


def test_lstm_step_is_one_kernel():
    function = example("lstm")["cell"]
    arguments = ((half(16, 32), half(8, 32), half(32)), (half(4, 8), half(4, 8)), half(4, 16))
    compiled = check(function, *arguments)
    (launch,) = compiled.plan(*arguments).launches
    assert len(launch.call.group.products) == 4
    assert launch.call.source.count("for step in") == 2


def test_a_scan_writes_its_results_in_place():
    weights = (half(16, 32), half(8, 32), half(32))
    arguments = (weights, (half(4, 8), half(4, 8)), half(3, 4, 16))
    compiled = check(example("lstm")["lstm"], *arguments)
    assert kinds(compiled, *arguments) == ["product"] * 3


def test_transformer():
    block = (half(32), tuple(half(32, 32) for _ in range(4)), half(32),
             (half(32, 64), half(32, 64), half(64, 32)))  # fmt: skip
    tokens = generator.integers(0, 48, (2, 9))
    arguments = (half(48, 32), block, block, half(32), tokens)
    compiled = check(example("transformer")["transformer"], *arguments, h=2)
    one = ["rows", "product", "attention", "product", "rows", "product", "product"]
    assert kinds(compiled, *arguments, h=2) == [*one, *one, "rows", "product"]
    memory = compiled.plan(*arguments, h=2).memory
    assert memory.size < memory.total / 3


def test_attention_spelled_out():
    arguments = (single(2, 6, 16), single(2, 5, 16), single(2, 5, 8))
    check(example("attention")["scaled_attention"], *arguments)


def test_mixture_of_experts():
    arguments = (single(16, 4), single(4, 16, 8), single(4, 8, 16), single(6, 16))
    check(example("experts")["mixture"], *arguments, k=2)


def test_decoding():
    tokens = generator.integers(0, 24, (2, 8))
    check(example("decode")["generate"], half(24, 16), half(8, 8), tokens, n=2)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("def f x y = (x + y) * x - y / (x * x + 2.0)", [(3, 1, 5), (4, 1)]),
        ("def f x y = where (x < y) (maximum x y) (abs x ** y)", [(5, 16), (16,)]),
        ("def f x = softplus x + gelu x .* silu x - sign x + floor x // 2.0 % 3.0", [(3, 7)]),
        ("def f x = softmax{axis = 0} x", [(6, 5)]),
        ("def f x = (sum x, max{axis = 1} x, min x, mean{axis = 0} x, prod x)", [(3, 4, 5)]),
        ("def f x = (logsumexp x, log_softmax x, sum_all x, mean_all x)", [(3, 40)]),
        ("def f s o x = layer_norm s o x", [(24,), (24,), (2, 3, 24)]),
        ("def f x = (argmax x, argmax{axis = 0} x)", [(7, 9)]),
        ("def f x = transpose (reverse x) @ x", [(6, 8)]),
        ("def f x y = concat{axis = 0} (concat x y) (concat y x)", [(3, 4), (3, 4)]),
        ("def f x = let a, b = split{3} x in (b, pad{2, 1} a, repeat{2, axis = 0} a)", [(2, 8)]),
        ('def f x y = einsum{"b i j, b j k -> k b i"} x y', [(2, 3, 8), (2, 8, 5)]),
        ('def f x y = einsum{"i, j -> i j"} x y', [(3,), (5,)]),
        ('def f x = rearrange{"a (b c) -> c (b a)", b = 2} x', [(3, 8)]),
        ("def f x y z = x @ y + z @ y + x", [(4, 16), (16, 16), (4, 16)]),
        ("def f x y = let z = x @ y in let a, b = halves z in (a .* sigmoid b, z)",
         [(5, 16), (16, 32)]),
        ("def f x = map (fn r -> softmax r * 2.0) x", [(3, 4)]),
        ("def f (xs: f32[n, d]) = fold (fn h i -> h + xs.[i]) (take xs 1) (iota{n})", [(3, 4)]),
        ("def f w x = map2 (fn r v -> r @ w.[argmax v]) x x", [(4, 4, 3), (2, 4)]),
        ("def f x = [x, x .* x, dot x x * x]", [(5,)]),
        ("def f x = max_pool x + mean_pool x", [(1, 2, 4, 6)]),
        ("def f x w = conv2d{stride = 2, pad = 1} x w", [(1, 2, 5, 6), (3, 2, 3, 3)]),
        ("def f x w = conv1d{pad = 1, groups = 2} x w", [(2, 4, 5), (6, 2, 3)]),
        ("def f x w = up{stride = 2, pad = 1} x w", [(1, 2, 3, 4), (2, 3, 4, 4)]),
    ],
)  # fmt: skip
def test_operators(text: str, shapes: list[tuple[int, ...]]):
    check(define(text), *(single(*shape) for shape in shapes))


def test_integers_and_truth_values():
    a, b = np.array([-7, 7, -8, 5]), np.array([2, -2, 3, 5])
    check(define("def f x y = (x // y, x % y, x / y, maximum x y, sum x)"), a, b)
    check(define("def f x y = both (x < y) (not (x == y))"), a, b)
    check(define("def f x = cast{i32} (cast{f16} x * 3.3)"), a)


def test_nan_and_infinity_go_where_numpy_lets_them():
    inf = np.inf
    x = np.array([[1, np.nan, 3], [1, 2, 3], [-inf, -inf, -inf], [1, inf, 3]], np.float32)
    compiled = axon.compile(define("def f x = (max x, relu x, softmax x, logsumexp x)"))
    for found, expected in zip(compiled(x), compiled.function(x), strict=True):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(compiled(x)[3][2:], [-inf, inf])


def test_rows_that_no_tile_holds():
    compiled = check(define("def f x = log_softmax (x * 2.0)"), single(2, 5000))
    (launch,) = compiled.plan(single(2, 5000)).launches
    assert launch.call.variant.name == "long rows"


def test_equal_arguments_stay_apart():
    compiled = axon.compile(define("def f x y = x - y"))
    x, y = single(3, 4), single(3, 4)
    np.testing.assert_array_equal(compiled(x, x), 0 * x)
    np.testing.assert_array_equal(compiled(x, y), x - y)


def test_f32_products_keep_f32_accuracy():
    function = define("def f x w = x @ w")
    x, w = single(8, 64), single(64, 8)
    exact = x.astype(np.float64) @ w
    errors = {
        precision: np.abs(axon.compile(function, precision=precision)(x, w) - exact).max()
        for precision in ("f32", "tf32")
    }
    assert errors["f32"] < 1e-5 < errors["tf32"]


def test_broadcast_conditions_are_checked_before_anything_runs():
    compiled = axon.compile(define("def f x y = x + y"))
    with pytest.raises(ContractViolation):
        compiled(single(3, 4), single(5))
    with pytest.raises(ContractViolation):
        axon.compile(define("def f x = slice{0, 4} x"))(single(2, 3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f x = while (fn y -> sum y < 9.0) (fn y -> y + y) x", "depends on computed numbers"),
        ("def f x = fn y -> x + y", "a function or a datatype"),
    ],
)
def test_what_has_no_kernel_says_so(text: str, message: str):
    with pytest.raises(NotForGpu, match=message):
        axon.compile(define(text))(single(4))


def test_precision_is_one_of_two():
    with pytest.raises(BadPrecision):
        axon.compile(define("def f x = x"), precision="fp8")


def test_a_plan_can_be_read():
    compiled = axon.compile(define("def f w b x = relu (linear w b x)"))
    text = compiled.explain(half(16, 32), half(32), half(3, 16))
    assert "1. product of 3 x 32" in text
    assert "relu %4 (written)" in text


def test_planning_a_long_scan_takes_work_in_proportion():
    compiled = axon.compile(example("lstm")["lstm"])
    weights = (half(16, 32), half(8, 32), half(32))

    def plan(steps: int) -> None:
        planned = compiled.plan(weights, (half(4, 8), half(4, 8)), half(steps, 4, 16))
        assert len(planned.launches) == steps

    plan(25)  # compiles what the longer ones share
    assert calls_made(lambda: plan(100)) < 2.2 * calls_made(lambda: plan(50))


def test_a_transformer_block_at_the_machine_level(monkeypatch: pytest.MonkeyPatch):
    """Heads of the size that two consumer warp groups share, on the simulated machine."""

    def simulation(compiled: Any, select: Any) -> Any:
        module = compiled.module("hopper")

        def start(grid: Any, values: Any, stream: Any) -> None:
            del stream
            given = values if select is None else select(values)
            run_hopper(module, grid_sizes(grid), [stored(v) for v in given], multiprocessors=2)

        return start

    monkeypatch.setattr(sys.modules["tawa.driver.entries"], "simulation", simulation)
    monkeypatch.setattr(library, "_ENTRIES", {})
    attention = tuple(half(256, 256) * np.float16(0.1) for _ in range(4))
    gated = (half(256, 64), half(256, 64), half(64, 256))
    block = (half(256), attention, half(256), gated)
    check(example("transformer")["block"], block, half(1, 70, 256), h=2)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(longest=6), st.lists(shapes, min_size=3, max_size=3))
def test_random_programs(program: Program, given_shapes: list[tuple[int, ...]]):
    arrays = [single(*shape) for shape in given_shapes[: program.parameters]]
    try:
        function = define(program.text)
        function.check(*arrays)
    except (ShapeMismatch, ContractViolation):
        return
    check(function, *arrays)


PUT = """
def square table (index: i64[..i]) = grad (fn t -> sum_all (take t index * take t index)) table
def several (index: i64[n]) table =
  grad (fn t -> sum_all ((t.[0] .+ t.[1]) * 2.0) + sum_all (take t index)) table
"""


@pytest.mark.parametrize(
    ("name", "shape", "index"),
    [("square", (7, 20), [[1, 3, 3], [6, 1, 1]]), ("square", (7,), [[1, 3, 3]]),
     ("square", (7, 4, 5), [2, 2]), ("square", (7, 20), 3)],
)  # fmt: skip
def test_rows_of_a_table_have_derivatives(name: str, shape: tuple[int, ...], index: Any):
    module = axon.load(PUT)
    check(module[name], single(*shape), np.array(index))


def test_rows_that_share_numbers_are_added_each():
    module = axon.load(PUT)
    table, index = single(7, 20), np.array([1, 3, 3])
    assert np.array_equal(
        axon.compile(module["several"])(index, table), module["several"](index, table)
    )
    half_table = half(5, 16)
    check(module["square"], half_table, np.array([4, 4, 0]))


def test_a_long_axis_that_lies_apart_is_summed_in_parts():
    compiled = check(define("def f x = sum{axis = 0} x"), single(2048, 8))
    assert kinds(compiled, single(2048, 8)) == ["rows", "rows"]
    check(compiled.function, np.abs(half(3, 1024, 16)).reshape(3 * 1024, 16))


def test_a_norm_goes_backwards_in_one_kernel_along_rows():
    text = "def f by g o x = grad (fn x -> sum_all (by * layer_norm g o x)) x"
    compiled = check(define(text), single(6, 40), single(40), single(40), single(6, 40))
    assert kinds(compiled, single(6, 40), single(40), single(40), single(6, 40)).count("rows") == 1


ATTENTION_GRADIENT = """
def f x w =
  let q, k, v = thirds (x @ w) in
  let heads y = rearrange{"..b t (h d) -> ..b h t d", h = 2} y in
  let o = causal_attention (heads q) (heads k) (heads v) in
  rearrange{"..b h t d -> ..b t (h d)"} o

def slopes x w = grad (fn (x, w) -> sum_all (f x w .* f x w)) (x, w)
"""


def test_attention_goes_backwards_in_kernels_that_keep_no_weights():
    x, w = half(2, 40, 16), half(16, 48)
    compiled = check(axon.load(ATTENTION_GRADIENT)["slopes"], x, w)
    launches = compiled.plan(x, w).launches
    made = [launch.call for launch in launches if launch.call.group.kind == "attention"]
    assert len(made) == 4  # forwards; numbers a row; by keys and values; by queries
    # Each derivative is written where all three are joined: nothing copies them.
    joined = {slot.base for launch in launches for slot in launch.slots if slot.base.op == "join"}
    assert [node.shape for node in joined] == [(2, 40, 48)]
    members = [node for launch in launches for node in launch.call.group.members]
    assert all(node.function != "copy" for node in members)
    assert all(slot.base.shape[-2:] != (40, 40) for launch in launches for slot in launch.slots)


def test_attention_of_wide_heads_goes_backwards_by_keys_and_by_values():
    text = "def f q k v = grad (fn (q, k, v) -> sum_all (sin (attention q k v))) (q, k, v)"
    arguments = half(24, 136), half(40, 136), half(40, 16)
    compiled = check(define(text), *arguments)
    assert kinds(compiled, *arguments).count("attention") == 4


def test_attention_that_no_kernel_takes_goes_backwards_in_parts():
    text = "def f q k v = grad (fn (q, k, v) -> sum_all (sin (causal_attention q k v))) (q, k, v)"
    check(define(text), half(2, 9, 12), half(2, 9, 12), half(2, 9, 4))


def test_causal_scores_are_masked_by_one_matrix_for_all_heads():
    text = "def f q k v = grad (fn q -> sum_all (causal_attention q k v)) q"
    q, k, v = single(2, 3, 8, 16), single(2, 3, 8, 16), single(2, 3, 8, 16)
    check(define(text), q, k, v)
    plan = axon.compile(define(text)).plan(q, k, v)
    masks = {node for launch in plan.launches for node in launch.call.group.outputs
             if node.element == "bool"}  # fmt: skip
    assert {node.shape for node in masks} <= {(8, 8)}


def test_long_rows_are_read_once_for_a_peak_and_the_sum_of_powers():
    function = define("def f x = (softmax{axis = -1} x, sum{axis = -1} x)")
    x = single(7, 4500)
    x[1], x[2, 5], x[3, 7], x[4, :4000] = -np.inf, np.inf, np.nan, -np.inf
    x[5], x[6] = np.sort(x[5]), x[6] + 500
    compiled = axon.compile(function)
    with np.errstate(all="ignore"):
        for found, expected in zip(compiled(x), function(x), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)
    (launch,) = compiled.plan(x).launches
    assert launch.source.count("for step in") == 2


def test_what_a_product_gives_is_written_narrow_and_widened_where_it_is_read():
    text = """
def f x w =
  let y = cast{f32} (x @ w) in
  let z = y - expand{axis = -1} (mean{axis = -1} y) in
  (sum{axis = -1} (z * z), sum{axis = 0} y)
"""
    function, arguments = define(text), (half(40, 16), half(16, 48))
    compiled = axon.compile(function)
    for found, expected in zip(compiled(*arguments), function(*arguments), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-2)
    launches = compiled.plan(*arguments).launches
    written = [node for launch in launches for node in launch.call.group.outputs]
    assert [n.element for n in written if n.shape == (40, 48)] == ["f16"]


def test_a_norm_backwards_computes_its_numbers_again_from_the_input():
    text = """
def f by g o x w = grad (fn (g, o, x) -> sum_all (by * (layer_norm g o x @ w))) (g, o, x)
"""
    arguments = single(48, 16), single(40), single(40), single(48, 40), single(40, 16)
    compiled = check(define(text), *arguments)
    written = [
        n for launch in compiled.plan(*arguments).launches for n in launch.call.group.outputs
    ]
    assert all(node.function != "rsqrt" or node.shape[-1] == 1 for node in written)


def test_steps_of_small_weights_are_computed_where_their_slopes_are_summed():
    text = """
def f rate (w: f32[i, o], b: f32[o]) x =
  sgd rate (w, b) (grad (fn (w, b) -> sum_all (sin (x @ w + b))) (w, b))
"""
    arguments = np.float32(0.1), (single(8, 24), single(24)), single(40, 8)
    compiled = check(define(text), *arguments)
    spaces = {kind: set[Any]() for kind in ("points", "rows", "product")}
    for launch in compiled.plan(*arguments).launches:
        spaces[launch.call.group.kind].add(launch.call.group.space)
    assert spaces["points"].isdisjoint({(1, 24), (24, 1)})
    assert (24, 40) in spaces["rows"]


def test_columns_are_summed_along_what_lies_side_by_side():
    for shape in ((450, 24), (40, 70), (300, 130)):
        compiled = check(define("def f x = sum{axis = 0} x"), single(*shape))
        (launch,) = compiled.plan(single(*shape)).launches
        assert "columns" in launch.call.variant.name
    compiled = check(define("def f x = sum{axis = 0} x"), single(700, 24))
    launches = compiled.plan(single(700, 24)).launches
    assert [launch.call.group.space for launch in launches] == [(7 * 24, 100), (24, 7)]


def test_a_mask_is_computed_from_what_is_written_anyway():
    text = "def f a b c w = let y = relu (a + b + c) in (y @ w) * abs (sign y)"
    check(define(text), *(np.float16(a) for a in (*[single(16, 8)] * 3, single(8, 8))))
    large = np.broadcast_to(np.float16(0), (2**18, 64))
    plan = plan_for_device(axon.compile(define(text)), (large, large, large, large[:64]), {})
    assert len(plan.launches) == 2
    assert [node.function for node in plan.launches[0].call.group.outputs] == ["relu"]


def test_sums_of_what_is_shared_but_for_numbers_of_a_column_are_one_kernel():
    text = """
def f x m s = (sum{axis = 0} (x * s), sum{axis = 0} ((x - m) * x))
"""
    arguments = single(64, 24), single(24), single(24)
    compiled = check(define(text), *arguments)
    assert len(compiled.plan(*arguments).launches) == 1
