"""Kernels with one mistake each in how their programs share memory, and the right ones beside them.

A mistake names the error and the two lines, by a part of their text: the access that is reported and
the earlier one of another program, where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tawa
import tawa.language as tl

N = 16
PROGRAMS = 4


def zeros(n: int, kind: Any = np.float32) -> np.ndarray:
    return np.zeros(n, kind)


def ramp(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


@dataclass(frozen=True)
class Mistake:
    """A launch that is wrong: `error` names why, `line` and `earlier` are parts of its lines."""

    kernel: Any
    args: Callable[[], list[Any]]
    error: str
    line: str
    earlier: str = ""
    grid: tuple[int, ...] = (PROGRAMS,)
    empty: tuple[int, ...] = ()
    """Positions of the arrays that nobody has written, among the arrays."""
    constants: dict[str, Any] = field(default_factory=lambda: {"B": N})


@tawa.jit
def sum_without_atomics(x, out, B: tl.constexpr):
    part = tl.sum(tl.load(x + tl.program_id(0) * B + tl.arange(0, B)))
    tl.store(out, tl.load(out) + part)


@tawa.jit
def blocks_overlap_by_one(x, out, B: tl.constexpr):
    at = tl.program_id(0) * (B - 1) + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at) * 2.0)


@tawa.jit
def tail_without_mask(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n, other=0.0))


@tawa.jit
def mask_of_another_size(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at <= n, other=0.0), mask=at < n)


@tawa.jit
def neighbour_in_place(x, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    left = tl.load(x + at - 1, mask=at > 0, other=0.0)
    tl.store(x + at, left + 1.0)


@tawa.jit
def other_axis_left_out(x, out, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + tl.program_id(1) * B + at))


@tawa.jit
def flag_set_by_a_store(x, out, flags, B: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, B)
    tl.store(out + p * B + i, tl.load(x + p * B + i))
    tl.store(flags + p, 1)
    if p > 0:
        while tl.load(flags + p - 1, volatile=True) == 0:
            pass
        tl.store(x + p * B + i, tl.load(out + (p - 1) * B + i))


@tawa.jit
def flag_relaxed(out, got, flags, B: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, B)
    tl.store(out + p * B + i, i + 1.0)
    tl.atomic_xchg(flags + p, 1, sem="relaxed")
    if p > 0:
        while tl.load(flags + p - 1, volatile=True) == 0:
            pass
        tl.store(got + p * B + i, tl.load(out + (p - 1) * B + i))


@tawa.jit
def wait_relaxed(out, got, flags, B: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, B)
    tl.store(out + p * B + i, i + 1.0)
    tl.atomic_xchg(flags + p, 1)
    if p > 0:
        while tl.atomic_add(flags + p - 1, 0, sem="relaxed") == 0:
            pass
        tl.store(got + p * B + i, tl.load(out + (p - 1) * B + i))


@tawa.jit
def flag_before_data(out, got, flags, B: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, B)
    tl.atomic_xchg(flags + p, 1)
    tl.store(out + p * B + i, i + 1.0)
    if p > 0:
        while tl.load(flags + p - 1, volatile=True) == 0:
            pass
        tl.store(got + p * B + i, tl.load(out + (p - 1) * B + i))


@tawa.jit
def flag_of_one_further(out, got, flags, B: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, B)
    tl.store(out + p * B + i, i + 1.0)
    tl.atomic_xchg(flags + p, 1)
    if p > 1:
        while tl.load(flags + p - 2, volatile=True) == 0:
            pass
        tl.store(got + p * B + i, tl.load(out + (p - 1) * B + i))


@tawa.jit
def lock_given_back_relaxed(out, lock, B: tl.constexpr):
    i = tl.arange(0, B)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out + i, tl.load(out + i) + 1.0)
    tl.atomic_xchg(lock, 0, sem="relaxed")


@tawa.jit
def store_after_the_lock(out, lock, B: tl.constexpr):
    i = tl.arange(0, B)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    sums = tl.load(out + i) + 1.0
    tl.atomic_xchg(lock, 0)
    tl.store(out + i, sums)


@tawa.jit
def locks_of_their_own(out, locks, B: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, B)
    while tl.atomic_cas(locks + p, 0, 1) == 1:
        pass
    tl.store(out + i, tl.load(out + i) + 1.0)
    tl.atomic_xchg(locks + p, 0)


@tawa.jit
def last_one_sums_relaxed(x, parts, out, counter, B: tl.constexpr):
    p = tl.program_id(0)
    tl.store(parts + p, tl.sum(tl.load(x + p * B + tl.arange(0, B))))
    if tl.atomic_add(counter, 1, sem="relaxed") == tl.num_programs(0) - 1:
        tl.store(out, tl.sum(tl.load(parts + tl.arange(0, 4))))


@tawa.jit
def counter_reads_plainly(x, parts, out, counter, B: tl.constexpr):
    p = tl.program_id(0)
    tl.store(parts + p, tl.sum(tl.load(x + p * B + tl.arange(0, B))))
    tl.atomic_add(counter, 1)
    if tl.load(counter) == tl.num_programs(0):
        tl.store(out, tl.sum(tl.load(parts + tl.arange(0, 4))))


@tawa.jit
def first_one_clears(x, out, B: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, B)
    if p == 0:
        tl.store(out + i, tl.zeros((B,), tl.float32))
    tl.atomic_add(out + i, tl.load(x + p * B + i))


@tawa.jit
def sum_read_at_once(x, out, total, B: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, B)
    tl.atomic_add(total, tl.sum(tl.load(x + p * B + i)))
    tl.store(out + p, tl.load(total))


@tawa.jit
def atomic_of_one_program(x, total, B: tl.constexpr):
    part = tl.sum(tl.load(x + tl.program_id(0) * B + tl.arange(0, B)))
    tl.atomic_add(total, part, scope="cta")


@tawa.jit
def blocks_overlap(x, out, B: tl.constexpr):
    tile = x.load([tl.program_id(0) * B, 0])
    out.store([tl.program_id(0) * (B - 2), 0], tile)


@tawa.jit
def adds_to_nothing(x, out, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(out + at) + tl.load(x + at))


@tawa.jit
def one_part_not_written(x, parts, out, counter, B: tl.constexpr):
    p = tl.program_id(0)
    if p != 2:
        tl.store(parts + p, tl.sum(tl.load(x + p * B + tl.arange(0, B))))
    if tl.atomic_add(counter, 1) == tl.num_programs(0) - 1:
        tl.store(out, tl.sum(tl.load(parts + tl.arange(0, 4))))


@tawa.jit
def flag_never_set(flags, B: tl.constexpr):
    p = tl.program_id(0)
    if p > 0:
        while tl.atomic_add(flags + p, 0) == 0:
            pass
    tl.atomic_xchg(flags + p, 1)


def _flags() -> list[Any]:
    return [zeros(N * PROGRAMS), zeros(N * PROGRAMS), zeros(PROGRAMS, np.int32), N]


def _locked() -> list[Any]:
    return [zeros(N), zeros(PROGRAMS, np.int32), N]


def _parts() -> list[Any]:
    return [ramp(N * PROGRAMS), zeros(PROGRAMS), zeros(1), zeros(1, np.int32), N]


def _in_out(n: int = N * PROGRAMS) -> list[Any]:
    return [ramp(N * PROGRAMS), zeros(n), N]


def _blocks() -> list[Any]:
    arrays = (np.ones((N * PROGRAMS, 16), np.float16), np.zeros((N * PROGRAMS, 16), np.float16))
    return [*(tawa.TensorDescriptor.from_tensor(a, [N, 16]) for a in arrays), N]


RACE, OUTSIDE, EMPTY = "RaceBetweenPrograms", "IllegalAccess", "NeverWritten"

MISTAKES = [
    Mistake(sum_without_atomics, _in_out, RACE, "tl.load(out)", "tl.store(out,"),
    Mistake(blocks_overlap_by_one, _in_out, RACE, "tl.store(out + at", "tl.store(out + at"),
    Mistake(tail_without_mask, lambda: [ramp(50), zeros(50), 50, N], OUTSIDE, "tl.store(out + at"),
    Mistake(mask_of_another_size, lambda: [ramp(50), zeros(50), 50, N], OUTSIDE, "tl.load(x + at"),
    Mistake(neighbour_in_place, lambda: [ramp(64), N], RACE, "tl.load(x + at - 1",
            "tl.store(x + at"),
    Mistake(other_axis_left_out, lambda: [ramp(96), zeros(64), N], RACE, "tl.store(out + at",
            "tl.store(out + at", grid=(PROGRAMS, 2)),
    Mistake(flag_set_by_a_store, lambda: [ramp(64), zeros(64), zeros(4, np.int32), N], RACE,
            "tl.load(flags + p - 1", "tl.store(flags + p, 1)"),
    Mistake(flag_relaxed, _flags, RACE, "tl.load(out + (p - 1)", "tl.store(out + p * B"),
    Mistake(wait_relaxed, _flags, RACE, "tl.load(out + (p - 1)", "tl.store(out + p * B"),
    Mistake(flag_before_data, _flags, RACE, "tl.load(out + (p - 1)", "tl.store(out + p * B"),
    Mistake(flag_of_one_further, _flags, RACE, "tl.load(out + (p - 1)", "tl.store(out + p * B"),
    Mistake(lock_given_back_relaxed, _locked, RACE, "tl.load(out + i)", "tl.store(out + i"),
    Mistake(store_after_the_lock, _locked, RACE, "tl.load(out + i)", "tl.store(out + i"),
    Mistake(locks_of_their_own, _locked, RACE, "tl.load(out + i)", "tl.store(out + i"),
    Mistake(last_one_sums_relaxed, _parts, RACE, "tl.load(parts +", "tl.store(parts +"),
    Mistake(counter_reads_plainly, _parts, RACE, "tl.atomic_add(counter", "tl.load(counter)"),
    Mistake(first_one_clears, _in_out, RACE, "tl.atomic_add(out", "tl.store(out"),
    Mistake(sum_read_at_once, lambda: [ramp(64), zeros(4), zeros(1), N], RACE,
            "tl.atomic_add(total", "tl.load(total)"),
    Mistake(atomic_of_one_program, _in_out, RACE, "tl.atomic_add(total", "tl.atomic_add(total"),
    Mistake(blocks_overlap, _blocks, RACE, "out.store(", "out.store("),
    Mistake(adds_to_nothing, _in_out, EMPTY, "tl.load(out + at)", empty=(1,)),
    Mistake(one_part_not_written, _parts, EMPTY, "tl.load(parts +", empty=(1,)),
    Mistake(flag_never_set, lambda: [zeros(4, np.int32), N], "WaitsForever", "while"),
]  # fmt: skip


@tawa.jit
def flag_right(out, got, flags, B: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, B)
    tl.store(out + p * B + i, i + 1.0)
    tl.atomic_xchg(flags + p, 1, sem="release")
    if p > 0:
        while tl.load(flags + p - 1, volatile=True) == 0:
            pass
        tl.store(got + p * B + i, tl.load(out + (p - 1) * B + i))


@tawa.jit
def lock_right(out, lock, B: tl.constexpr):
    i = tl.arange(0, B)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out + i, tl.load(out + i) + 1.0)
    tl.atomic_xchg(lock, 0)


@tawa.jit
def last_one_sums_right(x, parts, out, counter, B: tl.constexpr):
    p = tl.program_id(0)
    tl.store(parts + p, tl.sum(tl.load(x + p * B + tl.arange(0, B))))
    if tl.atomic_add(counter, 1) == tl.num_programs(0) - 1:
        tl.store(out, tl.sum(tl.load(parts + tl.arange(0, 4))))


@tawa.jit
def chain_right(out, got, flags, B: tl.constexpr):
    """What a program hands on, it hands on of all before: by a chain of flags."""
    p, i = tl.program_id(0), tl.arange(0, B)
    tl.store(out + p * B + i, i + 1.0)
    if p > 0:
        while tl.atomic_add(flags + p - 1, 0) == 0:
            pass
        tl.store(got + p * B + i, tl.load(out + i))
    tl.atomic_xchg(flags + p, 1)


RIGHT = [
    (flag_right, _flags, ()),
    (lock_right, _locked, ()),
    (last_one_sums_right, _parts, (1, 2)),
    (chain_right, _flags, (0, 1)),
]
"""Kernels, arguments and the arrays that nobody has written."""
