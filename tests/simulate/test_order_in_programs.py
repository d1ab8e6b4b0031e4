"""Sequential programs that were once compiled to others: at the tile and hopper levels, and checked.

What changes after a launch is in `tests/test_stale_code.py`, threads and forks in
`tests/test_threads.py`, files that others wrote in `tests/runtime/test_cache.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.base.numerics import Array
from tawa.simulate import check, run
from tawa.simulate.launch import kernel_of, spec_of

tile = tawa.TensorDescriptor.from_tensor
OPTIONS: tuple[dict[str, Any], ...] = ({}, {"specialize": False})
Case = tuple[tuple[Any, ...], Array, Array]
"""A launch's arguments, the array that it changes, and what it then holds."""


# --- a loop that loads what it stored, through another argument -----------------------------------


@tawa.jit
def halved_by_tiles(source, target, n, B: tl.constexpr):
    for i in range(n):
        target.store([(i + 1) * B], source.load([i * B]) * 0.5)


@tawa.jit
def halved_by_both(source, target, n, B: tl.constexpr):
    at = tl.arange(0, B)
    for i in range(n):
        target.store([(i + 1) * B], tl.load(source + i * B + at) * 0.5)


def halved(by_tiles: bool) -> Case:
    x = np.zeros(64 * 5, np.float32)
    x[:64] = np.arange(64)
    source = tile(x, [64]) if by_tiles else x
    expected = np.concatenate([np.arange(64) * 0.5**k for k in range(5)]).astype(np.float32)
    return (source, tile(x, [64]), 4, 64), x, expected


# --- in place through two pointers -----------------------------------------------------------------


@tawa.jit
def multiplied_in_place(p, q, w, n, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    b = tl.load(w + tl.arange(0, N)[:, None] * N + j)
    for t in range(n):
        a = tl.load(p + t * M * N + i * N + j)
        tl.store(q + (t + 1) * M * N + i * N + j, tl.dot(a, b).to(tl.float16))


def multiplied() -> Case:
    x = np.zeros((4 * 64, 64), np.float16)
    x[:64] = 8
    expected = np.repeat([8, 4, 2, 1], 64)[:, None] * np.ones(64, np.float16)
    return (x, x, (np.eye(64) * 0.5).astype(np.float16), 3, 64, 64), x, expected


@tawa.jit
def read_after_the_store(x, w, y, z, column, K, M: tl.constexpr, N: tl.constexpr):
    a = x.load([0, 0])
    acc = tl.zeros((M, N), tl.float32)
    rows = tl.arange(0, M)
    for i in range(0, K, 64):
        b = w.load([i, 0])
        p = tl.dot(a, b.T)
        y.store([0, 0], p.to(tl.float16))
        s = tl.load(column + rows * 64)  # what was just stored
        acc = tl.dot((p * s.to(tl.float32)[:, None]).to(tl.float16), b, acc)
    z.store([0, 0], acc.to(tl.float32))


def read_after() -> Case:
    random = np.random.default_rng(0)
    x, w = (random.integers(-2, 3, (rows, 64)).astype(np.float16) for rows in (64, 192))
    y, z, total = np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float32), 0.0
    for i in range(0, 192, 64):
        b = w[i : i + 64].astype(np.float32)
        p = x.astype(np.float32) @ b.T
        total = total + (p * p[:, :1]).astype(np.float16).astype(np.float32) @ b
    tiles = (tile(array, [64, 64]) for array in (x, w, y, z))
    return (*tiles, y, 192, 64, 64), z, np.asarray(total)


# --- elements that other threads of the program stored -----------------------------------------------


@tawa.jit
def stored_then_reversed(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i))
    tl.store(y + N + i, tl.load(y + (N - 1 - i)))


def reversed_() -> Case:
    x, y = np.arange(1024, dtype=np.float32), np.zeros(2048, np.float32)
    return (x, y, 1024), y, np.concatenate([x, x[::-1]])


# --- tiles that a loop carries or a branch chooses ----------------------------------------------------


@tawa.jit
def carried_tile(a, b, o, n):
    acc = tl.zeros((64, 64), tl.float32)
    before = a.load([0, 0])
    for k in range(n):
        acc = tl.dot(before, b.load([k * 64, 0]), acc)
        before = a.load([0, k * 64 + 64])
    o.store([0, 0], acc)


@tawa.jit
def sometimes_loaded(a, b, o, n):
    acc = tl.zeros((64, 64), tl.float32)
    y = b.load([0, 0])
    for k in range(n):
        if k % 3 == 0:
            y = b.load([(k // 3) * 64, 0])
        acc = tl.dot(a.load([0, k * 64]), y, acc)
    o.store([0, 0], acc)


@tawa.jit
def chosen_tile(a, b, o, n):
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(n):
        if k % 2 == 0:
            y = b.load([k * 64, 0])
        else:
            y = b.load([0, 0])
        acc = tl.dot(a.load([0, k * 64]), y, acc)
    o.store([0, 0], acc)


@tawa.jit
def carried_by_pointers(a, b, o, n):
    acc = tl.zeros((64, 64), tl.float32)
    r = tl.arange(0, 64)
    before = tl.load(a + r[:, None] * 256 + r[None, :])
    for k in range(n):
        acc = tl.dot(before, tl.load(b + (k * 64 + r)[:, None] * 64 + r[None, :]), acc)
        before = tl.load(a + r[:, None] * 256 + (k * 64 + 64 + r)[None, :])
    tl.store(o + r[:, None] * 64 + r[None, :], acc)


@tawa.jit
def last_tile(a, b, o, n):
    y = a.load([0, 0])
    for k in range(n):
        y = b.load([k * 64, 0])
    o.store([0, 0], y.to(tl.float32))


def products(tiles: tuple[int, ...], pointers: bool = False) -> Case:
    """The sum of products of `a`'s first tiles and these of `b`."""
    random = np.random.default_rng(1)
    a = random.integers(-3, 4, (64, 256)).astype(np.float16)
    b = random.integers(-3, 4, (256, 64)).astype(np.float16)
    o = np.zeros((64, 64), np.float32)
    whole = a.astype(np.float32), b.astype(np.float32)
    pairs = [(whole[0][:, 64 * k : 64 * k + 64], whole[1][64 * t : 64 * t + 64])
             for k, t in enumerate(tiles)]  # fmt: skip
    arrays = (a, b, o) if pointers else tuple(tile(x, [64, 64]) for x in (a, b, o))
    return (*arrays, len(tiles)), o, np.asarray(sum(x @ y for x, y in pairs))


def last() -> Case:
    arguments, o, _ = products((0, 1, 2))
    return arguments, o, arguments[1].base[128:192].astype(np.float32)


CASES: dict[str, tuple[Any, Callable[[], Case]]] = {
    "two descriptors of one array": (halved_by_tiles, lambda: halved(True)),
    "a pointer and a descriptor": (halved_by_both, lambda: halved(False)),
    "two pointers to one array": (multiplied_in_place, multiplied),
    "a column of a tile just stored": (read_after_the_store, read_after),
    "elements of other threads": (stored_then_reversed, reversed_),
    "a tile that a loop carries": (carried_tile, lambda: products((0, 1, 2))),
    "a tile loaded now and then": (sometimes_loaded, lambda: products((0, 0, 0, 1))),
    "a tile that a branch chooses": (chosen_tile, lambda: products((0, 0, 2))),
    "a carried tile by pointers": (carried_by_pointers, lambda: products((0, 1, 2), True)),
    "the last tile of a loop": (last_tile, last),
}


@pytest.mark.parametrize("options", OPTIONS, ids=("by roles", "one role"))
@pytest.mark.parametrize("name", CASES)
def test_a_program_does_what_it_says(name: str, options: dict[str, Any]) -> None:
    kernel, make = CASES[name]
    arguments, found, expected = make()
    kernel[(1,)](*arguments, **options)
    np.testing.assert_array_equal(found, expected)

    arguments, found, _ = make()
    module = kernel.compile(*arguments, **options).module("hopper")
    named = dict(zip(kernel.arg_names, arguments, strict=True))
    given = [named[n] for n in spec_of(module, kernel_of(module)).arguments]
    report = check(module, (1,), given, schedules=2)
    assert report.proved
    assert report.same_results
    np.testing.assert_array_equal(found, expected)


# --- loops that wait -----------------------------------------------------------------------------------


@tawa.jit
def waits(flag, out):
    if tl.program_id(0) == 1:
        while tl.load(flag) == 0:
            pass
        tl.store(out, tl.load(out + 1) + 1)
    else:
        tl.store(out + 1, 41)
        tl.atomic_xchg(flag, 1)


@tawa.jit
def waits_for_all(flag, out):
    i = tl.arange(0, 128)
    if tl.program_id(0) == 1:
        while tl.min(tl.load(flag + i, volatile=True)) == 0:
            pass
        tl.store(out, 42)
    else:
        tl.atomic_xchg(flag + i, 1)


@pytest.mark.parametrize("kernel", [waits, waits_for_all], ids=("a number", "a tile"))
def test_a_loop_that_waits_loads_again_and_ends(kernel: Any) -> None:
    flag, out = np.zeros(128, np.int32), np.zeros(2, np.int32)
    kernel[(2,)](flag, out)
    assert out[0] == 42
    flag[:] = out[:] = 0
    compiled = kernel.compile(flag, out)
    named = {"flag": flag, "out": out}
    run(compiled.module("hopper"), (2,), [named[n] for n in compiled.spec.arguments])
    assert out[0] == 42
    # In the loop: between a label and the branch back to it.
    body = compiled.stages["ptx"]
    load = body.index("ld.volatile.global")
    label = body[:load].rstrip().rpartition("\n$")[2].partition(":")[0]
    assert f"${label};" in body[load:]


def test_an_exponential_has_no_denormals_at_any_level() -> None:
    @tawa.jit
    def exponentials(x, y):
        i = tl.arange(0, 128)
        tl.store(y + i, tl.exp(tl.load(x + i)))

    x, y, z = np.full(128, -90, np.float32), np.ones(128, np.float32), np.ones(128, np.float32)
    exponentials[(1,)](x, y)
    compiled = exponentials.compile(x, z)
    run(compiled.module("hopper"), (1,), [x, z])
    assert not y.any()
    assert not z.any()
    assert "ex2.approx.ftz.f32" in compiled.stages["ptx"]
