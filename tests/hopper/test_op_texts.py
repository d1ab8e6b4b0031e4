"""The CUDA text of every op computes what its meaning says: the text is run too, as PTX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from catalogue import BY_NAME
from instrumented import MULTIPROCESSORS, plain_module
from op_comparison import Comparison, TextDiffers
from op_texts import LEFT_OUT, STRUCTURE
from simulation import Arrays, Recorded, Stored, recorded, recording
from suite import cases
from xdsl.dialects.builtin import ModuleOp

import tawa
import tawa.language as tl
from tawa.driver.request import Request
from tawa.hopper.dialect import HopperOp
from tawa.kernels.attention import Configuration, attention
from tawa.kernels.gemm import Configuration as Gemm
from tawa.kernels.gemm import matmul
from tawa.simulate.interpret.hopper import RoundRobin, prepared, run_cluster

WORKLOADS: dict[str, dict[str, Any]] = {
    "vector_add-bf16-2": {},
    "vector_add-f64-4": {},
    "row_statistics": {},
    "newton_root": {},
    "running_max": {},
    "persistent_gemm-ping-pong": {},
    "pointers-small": {},
    "fused_mlp-alternate": {},
    "gemm-cooperative": {"cluster": 2},
    "gemm-one-role-8-warps": {},
    "layouts-f16-TT": {},
    "layouts-e4m3-NT": {},
    "layouts-i8-NT": {},
}
"""Workloads, with launch options of their own."""

SUITE = (
    "layer_norm_backward_with_locks", "int8_rows_16", "sigmoid_attention", "cumulative_sum", "while_loop_with_early_return", "nested_loops_with_tuples_and_zero_trips",
    "scalars_of_all_types", "casts_of_integers", "reductions_of_three_dimensions", "blocks_changed_in_place",
    "gather_along_rows", "inline_assembly", "histogram", "copied_rows_that_start_anywhere", "walsh_transform",
    "inverse_of_triangular_blocks",
)  # fmt: skip
"""Kernels as public collections have them."""

COMPARISON = Comparison()
"""Shared, so that equal ops of several kernels are compiled and compared once."""


TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn}


class Native(Recorded):
    """A launch on arrays whose types NumPy knows."""

    def request(self) -> Request:
        """What its compilation depends on."""
        return self.kernel.request(*self.args, **self.kwargs)


def caught(call: Callable[[], Any]) -> Native:
    """The only launch of a call."""
    with recording() as launches:
        call()
    (launch,) = launches
    return Native(launch.kernel, launch.grid, launch.args, launch.kwargs)


def random_of(element: str, *shape: int) -> np.ndarray:
    """Normal numbers."""
    return np.random.default_rng(0).standard_normal(shape).astype(TYPES[element])


def attention_of(rows: int, d: int, element: str, using: Configuration, **options: Any) -> Native:
    """A launch of the library's attention."""
    q, k, v = (random_of(element, 1, 1, rows, d) for _ in range(3))
    return caught(lambda: attention(q, k, v, using=using, **options))


def product_of(m: int, n: int, k: int, layout: str, config: Gemm) -> Native:
    """A launch of the library's product of e4m3; `layout` says which operands are transposed."""
    a, b = random_of("e4m3", m, k), random_of("e4m3", k, n)
    a, b = (np.ascontiguousarray(x.T).T if t == "T" else x
            for x, t in zip((a, b), layout, strict=True))  # fmt: skip
    return caught(lambda: matmul(a, b, np.zeros((m, n), np.float16), config=config))


@tawa.jit
def looked_up(x, y, N: tl.constexpr):
    """Gathers rows in another order, and adds to their words by inline assembly."""
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    order = N - 1 - tl.arange(0, N)[:, None] + tl.zeros((N, N), tl.int32)
    found = tl.gather(tl.load(x + at), order, 0)
    text = "add.s32 $0, $1, 7;"
    tl.store(y + at, tl.inline_asm_elementwise(text, "=r,r", [found], tl.int32, True, 1))


@tawa.jit
def both_sums(a, b, out, kept, N: tl.constexpr):
    """A sum of products that is used before and after one more is added."""
    one, other = a.load([0, 0]), b.load([0, 0])
    first = tl.dot(one, other)
    second = tl.dot(one, other, first)
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, second)
    tl.store(kept + at, first)


def looked_up_launch() -> Native:
    """A launch of `looked_up`."""
    x = np.arange(1024, dtype=np.int32).reshape(32, 32)
    return caught(lambda: looked_up[(1,)](x, np.zeros_like(x), 32))


def both_sums_launch() -> Native:
    """A launch of `both_sums`."""
    a, b = (tawa.TensorDescriptor.from_tensor(random_of("f16", 64, 64), [64, 64]) for _ in "ab")
    out, kept = np.zeros((2, 64, 64), np.float32)
    return caught(lambda: both_sums[(1,)](a, b, out, kept, 64))


@tawa.jit
def there_and_back(tiles, x, n, N: tl.constexpr):
    """Blocks that the copy engine stores and threads load, and the other way round."""
    at = x + tl.arange(0, N)
    for i in range(n):
        tiles.store([i * N], tl.load(at + (i + 1) * N) + i)
        tl.store(at + (i + 2) * N, tiles.load([i * N]))


def there_and_back_launch() -> Native:
    """A launch of `there_and_back`, compiled for arrays that overlap."""
    x = np.arange(320, dtype=np.float32)
    tiles = tawa.TensorDescriptor.from_tensor(np.zeros_like(x), [64])
    return caught(lambda: there_and_back[(1,)](tiles, x, 3, 64, may_overlap=(("tiles", "x"),)))


THREE = {"persistent": True, "consumers": 3, "alternate": True}
PLANNED = {"persistent": True, "deal": "even"}
LIBRARY: dict[str, Callable[[], Native]] = {
    "attention, three consumers": lambda: attention_of(
        200, 64, "f16", Configuration(192, 64, THREE)
    ),
    "attention, planned, first keys first": lambda: attention_of(
        256, 64, "bf16", Configuration(128, 64, PLANNED, ascending=True), causal=True
    ),
    "attention of e4m3": lambda: attention_of(
        128, 64, "e4m3", Configuration(128, 64, {"persistent": True})
    ),
    "gathered, with inline assembly": looked_up_launch,
    "two sums": both_sums_launch,
    "copies there and back": there_and_back_launch,
    "a product of e4m3, transposed": lambda: product_of(128, 64, 128, "TN", Gemm(64, 64, 64)),
}


def suite_launch(name: str) -> Recorded:
    """A case's launch."""
    found = cases()[name](Arrays())
    return Recorded(found.kernel, found.grid, tuple(found.args), dict(found.constants))


@cache
def launch_of(name: str) -> tuple[Recorded, ModuleOp]:
    """A launch of any of the above and its kernel at the hopper level."""
    if name in LIBRARY:
        launch = LIBRARY[name]()
    elif name in WORKLOADS:
        launch, _ = recorded(BY_NAME[name])
        launch.kwargs.update(WORKLOADS[name])
    elif name in BY_NAME:
        launch, _ = recorded(BY_NAME[name])
    else:
        launch = suite_launch(name)
    return launch, plain_module(launch)


def values_of(launch: Recorded) -> Sequence[Any]:
    """The run-time arguments in the order of the kernel's."""
    names = [p.name for p in launch.kernel.parameters]
    given = {**dict(zip(names, launch.args, strict=False)), **launch.kwargs}
    values = [given[name] for name in launch.request().types]
    return [v.view(np.ndarray) if isinstance(v, Stored) else v for v in values]


def compare(name: str, comparison: Comparison) -> None:
    """Run a launch with every op by its meaning and by its text."""
    launch, module = launch_of(name)
    comparison.add(module)
    with comparison.watching(), np.errstate(all="ignore"):
        for cluster in prepared(module, launch.grid, values_of(launch), MULTIPROCESSORS):
            run_cluster(cluster, RoundRobin())


@cache
def compared(name: str) -> None:
    compare(name, COMPARISON)


@pytest.mark.parametrize("name", [*WORKLOADS, *SUITE, *LIBRARY])
def test_texts_compute_what_ops_mean(name: str):
    compared(name)


def vocabulary(of: type[HopperOp] = HopperOp) -> Iterator[str]:
    """The names of all ops of the level."""
    for op in of.__subclasses__():
        if isinstance(getattr(op, "name", None), str):
            yield op.name
        yield from vocabulary(op)


def test_every_op_is_compared():
    for name in [*WORKLOADS, *SUITE, *LIBRARY]:
        compared(name)
    missing = set(vocabulary()) - set(COMPARISON.seen)
    left_out = {op.name for op in LEFT_OUT if op not in STRUCTURE}
    assert missing <= left_out | {"hopper.shared_warp_group"}, missing
    assert {"scf.if", "scf.for", "scf.while"} <= set(COMPARISON.seen)
    assert not COMPARISON.unsupported


PLANTED = {
    "the swizzle takes other bits": ("gemm-tiny", "offset >> 7", "offset >> 8"),
    "slots are too near": ("gemm-tiny", "in2 * 8192", "in2 * 4096"),
    "a descriptor's next part": ("gemm-tiny", "in3 + 4,", "in3 + 2,"),
    "rows and columns of a copy": ("gemm-columns-8", "in6 * 8, in3, in2", "in6 * 8, in2, in3"),
    "the bytes of a phase": ("gemm-tiny", "in2 * 8, 16384", "in2 * 8, 8192"),
    "another slot's barrier": ("gemm-tiny", "mbarrier_arrive(in1 +", "mbarrier_arrive(in1 + 8 +"),
    "the parity is inverted": ("gemm-tiny", "in2 * 8, in3)", "in2 * 8, in3 ^ 1)"),
    "a lane's matrix row": ("gemm-tiny", "lane / 16 * 8) * 2", "lane / 8 * 8) * 2"),
    "elements of a pair": ("gemm-tiny", "u32(high.bits) << 16", "u32(high.bits) << 8"),
    "who issues": ("gemm-tiny", "threadIdx.x % 128 == 0", "threadIdx.x % 64 == 0"),
    "a role's first warp": ("gemm-tiny", "warp = (warp_id - 4)", "warp = (warp_id - 3)"),
    "a column's registers": ("softmax-f32-781-4", "(0 + i) * 4", "(1 + i) * 4"),
    "a mask": ("softmax-f32-781-4", "[i]) {", "[0]) {"),
    "a lane of a reduction": ("softmax-f32-781-4", ", 16);", ", 8);"),
    "a loop's bound": ("nested_loops_with_tuples_and_zero_trips", " < in", " <= in"),
    "a copy's element": ("blocks_changed_in_place", "[i + 1] = part", "[i + 0] = part"),
    "a wider factor": ("newton_root", "mul(in1, 128)", "mul(in1, 64)"),
}  # fmt: skip


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_error_is_found(what: str):
    name, *planted = PLANTED[what]
    with pytest.raises(TextDiffers):
        compare(name, Comparison(planted=(planted[0], planted[1])))
