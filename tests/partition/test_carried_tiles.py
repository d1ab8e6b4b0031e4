"""Tiles that were loaded through a descriptor, then carried by a loop or chosen by a branch."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate import check
from tawa.simulate.interpret import aref, hopper, tile

RUNS = {"tile": tile.run, "aref": aref.run, "hopper": hopper.run}


@tawa.jit
def carried(a, b, o, n):
    acc = tl.zeros((128, 64), tl.float32)
    before = a.load([0, 0])
    for k in range(n):
        acc = tl.dot(before, b.load([k * 64, 0]), acc)
        before = a.load([0, k * 64])
    o.store([0, 0], acc)


def carried_reference(a, b, n):
    return sum(a[max(k - 1, 0)] @ b[k] for k in range(n))


@tawa.jit
def multiplied_too(a, b, o, n):
    acc = tl.zeros((128, 64), tl.float32)
    y = b.load([0, 0]).T
    for k in range(n):
        x = a.load([0, k * 64])
        acc = tl.dot(x, y, acc)
        y = b.load([k * 64, 0]).T
        acc = tl.dot(x, y, acc)
    o.store([0, 0], acc)


def multiplied_too_reference(a, b, n):
    return sum(a[k] @ (b[max(k - 1, 0)] + b[k]).T for k in range(n))


@tawa.jit
def two_iterations(a, b, o, n):
    acc = tl.zeros((128, 64), tl.float32)
    y = b.load([0, 0])
    z = b.load([64, 0])
    for k in range(n):
        acc = tl.dot(a.load([0, k * 64]), y, acc)
        y = z
        z = b.load([k * 64, 0])
    acc = tl.dot(a.load([0, 0]), z, acc)
    o.store([0, 0], acc)


def two_iterations_reference(a, b, n):
    seen = [b[0], b[1], *b[:n]]
    return sum((a[k] @ seen[k] for k in range(n)), a[0] @ seen[n + 1])


@tawa.jit
def sometimes(a, b, o, n):
    acc = tl.zeros((128, 64), tl.float32)
    y = b.load([0, 0])
    for k in range(n):
        if k % 2 == 1:
            if k > 1:
                y = b.load([k * 64, 0])
            else:
                y = b.load([128, 0])
        acc = tl.dot(a.load([0, k * 64]), y, acc)
    o.store([0, 0], acc)


def sometimes_reference(a, b, n):
    return sum(a[k] @ b[(0, 2, 2, 3)[k]] for k in range(n))


@tawa.jit
def either(a, b, o, n):
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(n):
        if k % 2 == 0:
            x = a.load([0, k * 64])
            y = b.load([k * 64, 0])
        else:
            x = a.load([0, 0])
            y = b.load([64, 0])
        acc = tl.dot(x, y, acc)
    o.store([0, 0], acc)


def either_reference(a, b, n):
    return sum(a[k] @ b[k] if k % 2 == 0 else a[0] @ b[1] for k in range(n))


@tawa.jit
def by_while(a, b, o, n):
    acc = tl.zeros((128, 64), tl.float32)
    k = 0
    x = a.load([0, 0])
    y = b.load([0, 0])
    while k < n:
        acc = tl.dot(x, y, acc)
        x = a.load([0, k * 64])
        y = b.load([k * 64, 0])
        k += 1
    o.store([0, 0], acc)


def by_while_reference(a, b, n):
    return sum(a[max(k - 1, 0)] @ b[max(k - 1, 0)] for k in range(n))


@tawa.jit
def without_product(a, b, o, n):
    acc = tl.zeros((128, 64), tl.float32)
    x = a.load([0, 0])
    for k in range(n):
        z = a.load([0, k * 64])
        acc += x.to(tl.float32) * z.to(tl.float32)
        x = z
    o.store([0, 0], acc + x.to(tl.float32))


def without_product_reference(a, b, n):
    return sum((a[max(k - 1, 0)] * a[k] for k in range(n)), a[max(n - 1, 0)])


PROGRAMS = [
    (carried, carried_reference),
    (multiplied_too, multiplied_too_reference),
    (two_iterations, two_iterations_reference),
    (sometimes, sometimes_reference),
    (either, either_reference),
    (by_while, by_while_reference),
    (without_product, without_product_reference),
]


def arrays(n: int):
    """Arrays of small integers, so that sums are exact."""
    random = np.random.default_rng(n)
    a = random.integers(-3, 4, (128, 256)).astype(np.float16)
    return a, random.integers(-3, 4, (256, 64)).astype(np.float16)


def described(compiled, a, b, n: int):
    """The kernel's arguments, with a poisoned output, and that output."""
    o = np.full((128, 64), np.nan, np.float32)
    describe = tawa.TensorDescriptor.from_tensor
    named = {
        "a": describe(a, [128, 64]),
        "b": describe(b, [64, 64]),
        "o": describe(o, [128, 64]),
        "n": n,
    }
    return [named[name] for name in compiled.spec.arguments], o


@cache
def built(kernel, specialize: bool | None):
    """A kernel for any number of iterations."""
    types = "desc<f16,128x64>", "desc<f16,64x64>", "desc<f32,128x64>", "i32"
    return kernel.compile(*types, specialize=specialize)


@pytest.mark.parametrize("specialize", [None, False], ids=["roles", "one role"])
@pytest.mark.parametrize(("kernel", "reference"), PROGRAMS, ids=[r.__name__ for _, r in PROGRAMS])
def test_what_is_carried_or_chosen_arrives(kernel, reference, specialize) -> None:
    compiled = built(kernel, specialize)
    assert compiled.findings == ()
    for n in (0, 1, 2, 4):
        a, b = arrays(n)
        parts = [slice(64 * i, 64 * i + 64) for i in range(4)]
        blocks = [a[:, s].astype(float) for s in parts], [b[s].astype(float) for s in parts]
        expected = np.zeros((128, 64)) + reference(*blocks, n)
        for level, run in RUNS.items():
            arguments, o = described(compiled, a, b, n)
            run(compiled.module(level), (1,), arguments)
            np.testing.assert_array_equal(o, expected, err_msg=f"{level}, {n} iterations")


@pytest.mark.parametrize("specialize", [None, False], ids=["roles", "one role"])
@pytest.mark.parametrize("kernel", [carried, multiplied_too, sometimes])
def test_slots_are_returned_after_their_tiles_were_read(kernel, specialize) -> None:
    compiled = built(kernel, specialize)
    arguments, _ = described(compiled, *arrays(4), 4)
    report = check(compiled.module("hopper"), (1,), arguments)
    assert report.ordered
    assert report.same_results
    assert not report.reached


@tawa.jit
def without_a_loop(a, b, o):
    o.store([0, 0], tl.dot(a.load([0, 0]), b.load([tl.program_id(1), 0])))


def test_a_cluster_shares_tiles_of_one_slot_that_no_loop_loads() -> None:
    types = "desc<f16,128x64>", "desc<f16,64x64>", "desc<f32,128x64>"
    compiled = without_a_loop.compile(*types, cluster=2)
    a, b = arrays(1)
    arguments, o = described(compiled, a, b, 1)
    hopper.run(compiled.module("hopper"), (2,), arguments)
    np.testing.assert_array_equal(o, a[:, :64].astype(np.float32) @ b[:64].astype(np.float32))
