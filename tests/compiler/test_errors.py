"""What cannot be compiled says so: a class of its own, the user's line, expected, found, what to do."""

from __future__ import annotations

from typing import Any

import pytest

import tawa
import tawa.language as tl
from tawa.aref.passes.ping_pong import PingPongNotPossible
from tawa.base.errors import TawaError
from tawa.base.options import BadOption
from tawa.codegen.lower import RegistersExceeded
from tawa.codegen.shared_memory import SharedMemoryExceeded
from tawa.driver.compilation import Compilation
from tawa.frontend import lower_to_tile, parse_argument
from tawa.ir.decisions.roles import MultipliedByWarps
from tawa.partition.partition import ConsumersNotPossible, NotSpecialisable
from tawa.tile.passes.descriptors import DescriptorNotUniform


@tawa.jit
def gemm(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc)


def compile_gemm(m: int, n: int, k: int, element: str = "f16", **options: Any) -> None:
    tiles = (f"desc<{element},{m}x{k}>", f"desc<{element},{n}x{k}>", f"desc<f32,{m}x{n}>")
    gemm.compile(*tiles, "i32", M=m, N=n, BK=k, **options)


@pytest.mark.parametrize(
    ("sizes", "options", "error", "line", "expected", "found"),
    [
        ((256, 512, 64), {}, RegistersExceeded, None, "registers a thread", "512"),
        ((128, 256, 64), {"num_stages": 8}, SharedMemoryExceeded, None, "232448", "bytes"),
        ((128, 64, 64), {"consumers": 3}, ConsumersNotPossible, "tl.dot", "192", "128 rows"),
        ((64, 64, 64), {"consumers": 2}, ConsumersNotPossible, "tl.dot", "128", "64 rows"),
        ((64, 64, 64), {"ping_pong": True}, PingPongNotPossible, None, "loop over tiles", "no such loop"),
    ],
)  # fmt: skip
def test_gemm(sizes, options, error, line, expected: str, found: str) -> None:
    with pytest.raises(error) as caught:
        compile_gemm(*sizes, **options)
    complete(caught.value, line)
    assert expected in caught.value.expected
    assert found in caught.value.found


def complete(error: TawaError, line: str | None) -> None:
    """The error points at a line of this file, and says both sides and a way out."""
    assert error.span is not None
    assert error.span.file == __file__
    text = error.span.source_line(error.span.line)
    assert text is not None
    assert (line or "") in text
    assert error.expected
    assert error.found
    assert error.hint


@pytest.mark.parametrize(
    "options",
    [
        {"num_warps": 3}, {"num_warps": 0}, {"num_warps": 64}, {"consumers": 0}, {"consumers": 5},
        {"num_stages": 0}, {"num_stages": -2}, {"mma_depth": -1}, {"mma_depth": 9}, {"staging": 0},
        {"num_stages": 2, "mma_depth": 2}, {"target": "sm_80"},
        {"ctas_per_sm": 0}, {"ctas_per_sm": 5}, {"ctas_per_sm": 2, "cluster": 2},
    ],
    ids=str,
)  # fmt: skip
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(BadOption) as caught:
        compile_gemm(64, 64, 64, **options)
    assert caught.value.expected
    assert str(next(iter(options.values()))) in str(caught.value)


@tawa.jit
def copy(x, y):
    i = tl.arange(0, 64)
    tl.store(y + i, tl.load(x + i))


def test_specialise_without_descriptors() -> None:
    with pytest.raises(NotSpecialisable) as caught:
        copy.compile("*f32", "*f32", specialize=True)
    complete(caught.value, None)


@tawa.jit
def linked_list(x, out, n):
    acc = tl.zeros((16, 64), tl.float32)
    row = 0
    for _ in range(n):
        node = x.load([row, 0])
        acc += node
        row = tl.max(node).to(tl.int32)
    out.store([0, 0], acc)


def test_specialise_with_coordinates_from_tiles() -> None:
    with pytest.raises(NotSpecialisable) as caught:
        linked_list.compile("desc<f32,16x64>", "desc<f32,16x64>", "i32", specialize=True)
    complete(caught.value, "x.load")


@tawa.jit
def base_of_the_program(x, out, n):
    start = x + tl.program_id(0) * 64
    source = tl.make_tensor_descriptor(start, [n, 64], [64, 1], [16, 64], "nan")
    other = tl.make_tensor_descriptor(x, [n, 64], [64, 1], [16, 64])
    chosen = source if n > 3 else other
    out.store([0, 0], chosen.load([0, 0]))


@tawa.jit
def shape_from_memory(x, out, n):
    source = tl.make_tensor_descriptor(x, [tl.load(n), 64], [64, 1], [16, 64], "nan")
    other = tl.make_tensor_descriptor(x, [16, 64], [64, 1], [16, 64])
    chosen = source if tl.load(n) > 3 else other
    out.store([0, 0], chosen.load([0, 0]))


@pytest.mark.parametrize(
    ("kernel", "n", "part"),
    [(base_of_the_program, "i32", "base"), (shape_from_memory, "*i32", "shape")],
)
def test_descriptor_that_the_host_cannot_make(kernel, n: str, part: str) -> None:
    with pytest.raises(DescriptorNotUniform, match=f"the {part} of this descriptor") as caught:
        kernel.compile("*f32", "desc<f32,16x64>", n)
    complete(caught.value, "make_tensor_descriptor")


@tawa.jit
def trips_from_memory(a, b, c, trips, tiles):
    for t in range(tiles):
        acc = tl.zeros((64, 64), tl.float32)
        for k in range(0, tl.load(trips + t), 64):
            acc = tl.dot(a.load([t * 64, k]), b.load([0, k]).T, acc)
        c.store([t * 64, 0], acc)


def test_ping_pong_with_data_dependent_trips() -> None:
    types = ("desc<f16,64x64>", "desc<f16,64x64>", "desc<f32,64x64>", "*i32", "i32")
    trips_from_memory.compile(*types)
    with pytest.raises(PingPongNotPossible) as caught:
        trips_from_memory.compile(*types, ping_pong=True)
    assert caught.value.expected == "loop bounds computed from the tile's number and the arguments"


@pytest.mark.parametrize(
    ("sizes", "options", "why"),
    [
        ((32, 64, 64), {}, "32 rows are no multiple of 64"),
        ((96, 64, 64), {}, "96 rows are no multiple of 64"),
        ((64, 12, 64), {}, "12 columns are no multiple of 8"),
        ((64, 300, 64), {}, "300 columns are no multiple of 8"),
        ((64, 64, 8), {}, "8 elements of K are no multiple of 16"),
        ((64, 64, 48), {}, "rows of 96 bytes have no swizzle"),
        ((64, 64, 64), {"specialize": False, "num_warps": 2}, "2 warps are no whole warp groups"),
    ],
)
def test_products_without_a_warp_group_instruction_say_why(sizes, options, why: str) -> None:
    module, decided = _at_the_aref_level(sizes, options)
    (found,) = decided.of(MultipliedByWarps)
    assert why in found.why
    names = [op.name for op in module.walk()]
    assert names.count("aref.warp_dot") == 1
    assert "aref.dot_issue" not in names


def test_64_rows_are_for_one_warp_group() -> None:
    module, decided = _at_the_aref_level((64, 64, 64), {"specialize": False, "num_warps": 8})
    assert not list(decided.of(MultipliedByWarps))
    assert "aref.dot_issue" in [op.name for op in module.walk()]


def _at_the_aref_level(sizes, options):
    m, n, k = sizes
    types = [f"desc<f16,{m}x{k}>", f"desc<f16,{n}x{k}>", f"desc<f32,{m}x{n}>", "i32"]
    request = gemm.request(*types, M=m, N=n, BK=k, **options)
    work = Compilation(request.options)
    read = [parse_argument(text) for text in request.types.values()]
    tile = work.level("tile", lower_to_tile(gemm, read, request.constants))
    return work.level("aref", tile), work.decided
