"""A program's accesses to memory look as if they were done one after the other, however addressed.

Each kernel runs at the hopper level, where threads and copies go on by themselves, and at the tile
level, the program's meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate import check, run

tile = tawa.TensorDescriptor.from_tensor
B = 64


@tawa.jit
def reversed_copy(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at))
    tl.store(y + N + at, tl.load(y + (N - 1 - at)))


@tawa.jit
def reversed_in_place(x, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(x + (N - 1 - at), tl.load(x + at))


@tawa.jit
def counted(count, out, N: tl.constexpr):
    before = tl.load(count)
    tl.store(count, before + 1)
    tl.store(out + tl.arange(0, N), before + tl.zeros([N], tl.int32))


@tawa.jit
def halves(source, target, n, N: tl.constexpr):
    for i in range(n):
        target.store([(i + 1) * N], source.load([i * N]) * 0.5)


@tawa.jit
def stored_by_engine(x, tiles, n, N: tl.constexpr):
    at = tl.arange(0, N)
    for i in range(n):
        tiles.store([(i + 1) * N], tl.load(x + i * N + (N - 1 - at)) + 1)


@tawa.jit
def loaded_by_engine(tiles, x, n, N: tl.constexpr):
    at = tl.arange(0, N)
    for i in range(n):
        tl.store(x + (i + 1) * N + (N - 1 - at), tiles.load([i * N]) + 1)


@tawa.jit
def atomic_then_load(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.atomic_add(x + at, 1.0)
    tl.store(y + at, tl.load(x + (N - 1 - at)))


@tawa.jit
def block_pointers(x, n, N: tl.constexpr):
    for i in range(n):
        source = tl.make_block_ptr(x, [n * N + N], [1], [i * N], [N], [0])
        target = tl.make_block_ptr(x, [n * N + N], [1], [i * N + N], [N], [0])
        tl.store(target, tl.load(source) * 0.5)


@tawa.jit
def in_a_branch(x, y, n, N: tl.constexpr):
    at = tl.arange(0, N)
    for i in range(n):
        if i % 2 == 0:
            tl.store(x + at, tl.load(y + (N - 1 - at)) + i)
        else:
            tl.store(y + at, tl.load(x + (N - 1 - at)) * 2)


@tawa.jit
def one_in_three_arguments(x, y, tiles, n, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + N + at, tl.load(x + at) * 2)
    total = tl.zeros([N], tl.float32)
    for i in range(n):
        total += tiles.load([i * N])
    tl.store(y + at, total)


def floats(count: int) -> Any:
    return np.random.default_rng(0).standard_normal(count).astype(np.float32)


def _halves(one: bool) -> tuple[tuple[Any, ...], Any]:
    x = floats(5 * B)
    return ((tile(x, [B]), tile(x, [B]) if one else x, 4, B), x)


@tawa.jit
def shifted(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at))


@tawa.jit
def shifted_in_a_loop(x, n, N: tl.constexpr):
    at = tl.arange(0, N)
    for i in range(n):
        tl.store(x + i + at, tl.load(x + i + at) * 0.5)


@tawa.jit
def rows_of_a_matrix(x, stride, n, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * stride + tl.arange(0, N)[None, :]
    for i in range(n):
        tl.store(x + i * N + at, tl.load(x + i * N + at) * 0.5)


@tawa.jit
def stored_twice(tiles, also, n, N: tl.constexpr):
    for i in range(n):
        tiles.store([i * N // 2], tl.full([N], 2 * i, tl.float32))
        also.store([i * N], tl.full([N], 2 * i + 1, tl.float32))


CASES: dict[str, tuple[tawa.Kernel, Callable[[], tuple[tuple[Any, ...], Any]]]] = {
    "other threads load": (reversed_copy, lambda: ((floats(512), y := floats(1024), 512), y)),
    "other threads store": (reversed_in_place, lambda: ((x := floats(512), 512), x)),
    "one thread stores": (
        counted,
        lambda: ((np.array([7], np.int32), y := np.zeros(256, np.int32), 256), y),
    ),
    "two descriptors": (halves, lambda: _halves(one=True)),
    "stored by the engine": (
        stored_by_engine,
        lambda: ((x := floats(5 * B), tile(x, [B]), 4, B), x),
    ),
    "loaded by the engine": (
        loaded_by_engine,
        lambda: ((tile(x := floats(5 * B), [B]), x, 4, B), x),
    ),
    "atomic": (atomic_then_load, lambda: ((floats(512), y := floats(512), 512), y)),
    "block pointers": (block_pointers, lambda: ((x := floats(5 * B), 4, B), x)),
    "three arguments": (
        one_in_three_arguments,
        lambda: ((x := floats(4 * B), x, tile(x, [B]), 3, B), x),
    ),
    "branches, two arrays": (in_a_branch, lambda: ((floats(256), y := floats(256), 5, 256), y)),
    "loaded, then stored elsewhere": (
        shifted,
        lambda: (((x := floats(1028))[:1024], x[4:], 1024), x),
    ),
    "a window that moves on": (shifted_in_a_loop, lambda: ((x := floats(1040), 9, 1024), x)),
    "rows as far apart as the launch says": (
        rows_of_a_matrix,
        lambda: ((x := floats(4096), 8, 3, 16), x),
    ),
    "stored twice by the engine": (
        stored_twice,
        lambda: ((tile(x := floats(5 * B), [B]), tile(x, [B]), 4, B), x),
    ),
    "branches, one array": (in_a_branch, lambda: ((x := floats(256), x, 5, 256), x)),
}


@pytest.mark.parametrize("options", [{}, {"specialize": False}, {"num_warps": 8}], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_levels_agree(name: str, options: dict[str, Any]) -> None:
    kernel, make = CASES[name]
    arguments, found = make()
    expected_arguments, expected = make()
    kernel[(1,)](*expected_arguments, **options)
    compiled = kernel.compile(*arguments, **options)
    named = dict(zip(kernel.arg_names, arguments, strict=True))
    run(compiled.module("hopper"), (1,), [named[name] for name in compiled.spec.arguments])
    np.testing.assert_array_equal(found, expected)


def test_the_checker_agrees() -> None:
    arguments, _ = _halves(one=True)
    compiled = halves.compile(*arguments)
    assert check(compiled.module("hopper"), (1,), list(arguments[:3])).proved


def test_the_simulator_refuses_what_was_compiled_for_other_arrays() -> None:
    arguments, x = _halves(one=True)
    compiled = halves.compile(arguments[0], tile(x.copy(), [B]), 4, B)
    with pytest.raises(tawa.TawaError, match="of `source` and `target` overlaps"):
        check(compiled.module("hopper"), (1,), list(arguments[:3]))


@tawa.jit
def scaled_in_place(x, N: tl.constexpr):
    at = x + tl.program_id(0) * N + tl.arange(0, N)
    tl.store(at, tl.load(at) * 2)


@tawa.jit
def two_passes(x, y, n, N: tl.constexpr):
    at = tl.arange(0, N)
    total = 0.0
    for i in range(n):
        total += tl.sum(tl.load(x + i * N + at))
    for i in range(n):
        tl.store(y + i * N + at, tl.load(x + i * N + at) / total)


def meetings(kernel: tawa.Kernel, *arguments: Any) -> int:
    text = kernel.compile(*arguments).stages["hopper"]
    assert isinstance(text, str)
    return text.count("hopper.cta_sync") + text.count("hopper.bulk_wait ")


def test_a_threads_own_elements_need_no_meeting() -> None:
    assert meetings(scaled_in_place, "*f32:16", 512) == 0


def test_arrays_that_are_apart_need_no_meeting() -> None:
    x, y = floats(1024), floats(1024)
    apart = meetings(two_passes, x, y, 2, 512)
    assert two_passes.compile(x, y, 2, 512).spec.apart == (("x", "y"),)
    both = floats(1040)
    assert meetings(two_passes, both[:1024], both[16:], 2, 512) > apart


def test_a_thread_s_own_elements_in_two_arguments_that_are_one_need_no_meeting() -> None:
    """What the first loop has loaded is stored by the same threads in the second."""
    x = floats(1024)
    in_place = two_passes.compile(x, x, 2, 512)
    assert in_place.spec.same == (("x", "y"),)
    before, second = in_place.stages["hopper"].rsplit("scf.for", 1)
    assert "global_store" in second
    assert "cta_sync" not in second
    assert "orders_memory" not in before


def test_a_launch_looks_at_its_arrays() -> None:
    kernel = tawa.jit(two_passes.fn)
    x, y = np.ones(1024, np.float32), np.zeros(1024, np.float32)
    apart = kernel[(1,)](x, y, 2, 512)
    assert kernel[(1,)](x, y[:1024], 2, 512) is apart
    overlapping = kernel[(1,)](x, x, 2, 512)
    assert overlapping is not apart
    assert not overlapping.spec.apart
    assert kernel[(1,)](y, y, 2, 512) is overlapping
    assert kernel[(1,)](x, y, 2, 512) is apart


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(tawa.TawaError, match="names no argument `z`"):
        two_passes.compile("*f32", "*f32", "i32", 512, may_overlap=(("x", "z"),))


@tawa.jit
def rotated_in_place(x, stride, HEADS: tl.constexpr, D: tl.constexpr):
    first = tl.arange(0, HEADS)[:, None] * D + tl.arange(0, D // 2)[None, :]
    at = x + tl.program_id(0) * stride + first
    a, b = tl.load(at), tl.load(at + D // 2)
    tl.store(at, b)
    tl.store(at + D // 2, a)


@tawa.jit
def blocks_in_a_loop(x, n, N: tl.constexpr):
    for i in range(n):
        at = x + i * N + tl.arange(0, N)
        tl.store(at, tl.load(at) * 0.5)


@tawa.jit
def blocks_by_the_engine(tiles, n, N: tl.constexpr):
    for i in range(n):
        tiles.store([i * N], tl.full([N], 2 * i, tl.float32))


def test_places_that_never_meet_need_no_meeting() -> None:
    assert meetings(rotated_in_place, "*f16:16", "i32", 8, 64) == 0
    assert meetings(blocks_in_a_loop, "*f32:16", "i32", 512) == 0
    assert meetings(shifted_in_a_loop, "*f32:16", "i32", 512) > 0
    assert "bulk_wait 0" not in blocks_by_the_engine.compile("desc<f32,64>", 8, 64).stages["hopper"]


@tawa.jit
def strided_tiles(x, steps, far: tl.int64, N: tl.constexpr, OFF: tl.constexpr):
    """Tiles some programs apart, their numbers cut off to 32 bits: each thread comes to its own."""
    for j in range(steps):
        tile = tl.program_id(0).to(tl.int64) + j * far
        at = (tile * N).to(tl.int32) + tl.arange(0, N)
        tl.store(x + at, tl.load(x + at + OFF) * 2)


@tawa.jit
def odd_tiles(x, steps, far, N: tl.constexpr):
    """Tiles that any number lies between: another thread may have had an element."""
    for j in range(steps):
        at = x + j * far + tl.arange(0, N)
        tl.store(at, tl.load(at) * 2)


@tawa.jit
def every_other(x, steps, far, N: tl.constexpr):
    """Elements with a gap between: a tile's bytes do not say which thread has one of them."""
    for j in range(steps):
        at = x + j * far * N + tl.arange(0, N) * 2
        tl.store(at, tl.load(at) * 2)


def test_threads_come_to_their_own_elements_again() -> None:
    kinds = "*f32:16", "i32", "i64"
    assert meetings(strided_tiles, *kinds, 512, 0) == 0
    assert meetings(strided_tiles, *kinds, 512, 1024) == 0
    assert meetings(strided_tiles, *kinds, 512, 1) > 0
    assert meetings(odd_tiles, "*f32:16", "i32", "i32", 512) > 0
    assert meetings(every_other, "*f32:16", "i32", "i32", 512) > 0


@pytest.mark.parametrize("far", [0, 1, 2])
@pytest.mark.parametrize("offset", [0, 1, 256])
def test_tiles_that_come_again_are_in_order(far: int, offset: int) -> None:
    x = np.arange(2048, dtype=np.float32)
    expected = x.copy()
    for j in range(3):
        at = j * far * 256 + np.arange(256)
        expected[at] = expected[at + offset] * 2
    compiled = strided_tiles.compile(x, 3, far, 256, offset)
    run(compiled.module("hopper"), (1,), [x, 3, far])
    np.testing.assert_array_equal(x, expected)


@tawa.jit
def stored_in_a_loop_and_after_it(
    a_desc, b_desc, c_desc, n, M: tl.constexpr, N: tl.constexpr, BEFORE: tl.constexpr
):
    b = b_desc.load([0, 0])
    acc = tl.zeros((M, N), tl.float32)
    if BEFORE:
        c_desc.store([0, 0], acc.to(tl.float16))
    for i in range(n):
        acc = tl.dot(a_desc.load([i * M, 0]), b, acc)
        c_desc.store([i * M, 0], acc.to(tl.float16))
    if not BEFORE:
        c_desc.store([n * M, 0], (acc * 2).to(tl.float16))


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("options", [{}, {"staging": 1}, {"staging": 3, "num_warps": 8}], ids=str)
def test_buffers_that_stores_share_in_chunks_and_whole(options: Any, before: bool) -> None:
    random, m, n = np.random.default_rng(0), 64 * options.get("num_warps", 4) // 4, 128
    a = random.integers(-2, 3, (3 * m, 32)).astype(np.float16)
    b, c = random.integers(-2, 3, (32, n)).astype(np.float16), np.zeros((4 * m, n), np.float16)
    described = tile(a, [m, 32]), tile(b, [32, n]), tile(c, [m, n])
    constants = {"M": m, "N": n, "BEFORE": before}
    compiled = stored_in_a_loop_and_after_it.compile(*described, 3, **constants, **options)
    named = dict(zip(("a_desc", "b_desc", "c_desc"), described, strict=True)) | {"n": 3}
    arguments = [named[name] for name in compiled.spec.arguments]
    assert check(compiled.module("hopper"), (1,), arguments).proved
    expected = np.cumsum([a[i * m : i * m + m] @ b for i in range(3)], axis=0)
    np.testing.assert_array_equal(c[: 3 * m], expected.reshape(3 * m, n))
    np.testing.assert_array_equal(c[3 * m :], 0 if before else 2 * expected[-1])


@tawa.jit
def stored_in_two_heights(a_desc, b_desc, low_desc, c_desc, n, M: tl.constexpr, N: tl.constexpr):
    b = b_desc.load([0, 0])
    low_desc.store([0, 0], b.to(tl.float16))
    acc = tl.zeros((M, N), tl.float32)
    for i in range(n):
        acc = tl.dot(tl.minimum(acc, 3.0).to(tl.float16), b, acc)
        acc += tl.dot(a_desc.load([i * M, 0]), b)
        c_desc.store([i * M, 0], acc.to(tl.float16))


def test_buffers_are_as_many_as_the_highest_tile_takes() -> None:
    random, m, n = np.random.default_rng(0), 128, 64
    a = random.integers(-1, 2, (2 * m, n)).astype(np.float16)
    b = random.integers(-1, 2, (n, n)).astype(np.float16)
    low, c = np.zeros((n, n), np.float16), np.zeros((2 * m, n), np.float16)
    described = tile(a, [m, n]), tile(b, [n, n]), tile(low, [n, n]), tile(c, [m, n])
    kernel = stored_in_two_heights
    compiled = kernel.compile(*described, 2, M=m, N=n, consumers=1)
    named = dict(zip(kernel.arg_names, (*described, 2), strict=False))
    arguments = [named[name] for name in compiled.spec.arguments]
    assert check(compiled.module("hopper"), (1,), arguments).proved
    acc = np.zeros((m, n))
    for i in range(2):
        acc = np.minimum(acc, 3) @ b + acc + a[i * m : i * m + m] @ b
        np.testing.assert_array_equal(c[i * m : i * m + m], acc)
    np.testing.assert_array_equal(low, b)
