"""What programs tell each other through memory: read each time, acquired and released for all.

Pairs of programs hand a block over: the first stores it, however, and raises a flag; the second
waits for the flag, however, and loads the block, however.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate import run

tile = tawa.TensorDescriptor.from_tensor
B = 64


@tawa.jit
def hand_over(flag, x, y, out, xs, ys, N: tl.constexpr, BY_ENGINE: tl.constexpr, HOW: tl.constexpr):
    at = tl.arange(0, N)
    if tl.program_id(0) == 0:
        if BY_ENGINE:
            ys.store([0], xs.load([0]) + 1)
        else:
            tl.store(y + at, tl.load(x + at) + 1)
        tl.atomic_xchg(flag, 1, sem="release")
    else:
        if HOW == "volatile":
            while tl.load(flag, volatile=True) == 0:
                pass
        else:
            while tl.atomic_add(flag, 0, sem="acquire") == 0:
                pass
        if BY_ENGINE:
            tl.store(out + at, ys.load([0]) * 2)
        else:
            tl.store(out + at, tl.load(y + (N - 1 - at)) * 2)


def launch(by_engine: bool, how: str) -> tuple[tuple[Any, ...], Any, Any]:
    x, y, out = (np.arange(B, dtype=np.float32) * k for k in (1, 0, 0))
    expected = (x + 1) * 2 if by_engine else (x[::-1] + 1) * 2
    flag = np.zeros(1, np.int32)
    arguments = (flag, x, y, out, tile(x, [B]), tile(y, [B]), B, by_engine, how)
    return arguments, out, expected


@pytest.mark.parametrize("how", ["volatile", "atomic"])
@pytest.mark.parametrize("by_engine", [False, True])
def test_what_is_released_is_acquired(by_engine: bool, how: str) -> None:
    arguments, out, expected = launch(by_engine, how)
    compiled = hand_over.compile(*arguments, may_overlap=(("y", "ys"), ("x", "xs")))
    named = dict(zip(hand_over.arg_names, arguments, strict=True))
    run(compiled.module("hopper"), (2,), [named[name] for name in compiled.spec.arguments])
    np.testing.assert_array_equal(out, expected)


def ops_of(kernel: tawa.Kernel, *arguments: Any, **options: Any) -> list[str]:
    """The names of a kernel's ops of the hopper level, in their order."""
    text = kernel.compile(*arguments, **options).stages["hopper"]
    assert isinstance(text, str)
    found = re.findall(r"\b(hopper\.[a-z_]+|scf\.[a-z]+)\b", text)
    return [name.partition(".")[2] for name in found]


def between(ops: list[str], first: str, last: str) -> list[str]:
    begin = ops.index(first)
    return ops[begin + 1 : ops.index(last, begin)]


@tawa.jit
def publish(flags, xs, ys, n, N: tl.constexpr):
    for i in range(n):
        ys.store([i * N], xs.load([i * N]))
        tl.atomic_xchg(flags + i, 1, sem="release")


def test_copies_are_complete_before_they_are_released() -> None:
    ops = ops_of(publish, "*i32", "desc<f32,64>", "desc<f32,64>", "i32", B)
    assert "bulk_wait" in between(ops, "tma_store", "global_atomic")
    assert ops.count("bulk_wait") <= 2  # one in the loop, one at the end


@tawa.jit
def consume(flags, ys, out, n, N: tl.constexpr):
    for i in range(n):
        while tl.load(flags + i, volatile=True) == 0:
            pass
        tl.store(out + i * N + tl.arange(0, N), ys.load([0]))


def test_the_engine_reads_what_was_acquired_and_no_earlier() -> None:
    ops = ops_of(consume, "*i32", "desc<f32,64>", "*f32", "i32", B)
    assert ops.count("role") == 1  # nobody loads ahead
    assert "fence_proxy_global" in between(ops, "memory_fence", "tma_load")
    assert ops.index("for") < ops.index("memory_fence") < ops.index("tma_load")


@tawa.jit
def products(flags, a, b, out, n, N: tl.constexpr, SEM: tl.constexpr):
    rows, columns = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    acc = tl.zeros([N, N], tl.float32)
    turn = 0
    for k in range(n):
        turn += tl.atomic_add(flags, 1, sem=SEM)
        acc = tl.dot(a.load([0, k * N]), b.load([k * N, 0]), acc)
    tl.store(out + rows * N + columns, acc + turn)


@pytest.mark.parametrize("sem", ["acquire", "acq_rel"])
def test_a_role_does_not_load_before_the_program_acquires(sem: str) -> None:
    types = ("*i32", "desc<f16,64x64>", "desc<f16,64x64>", "*f32", "i32", B)
    assert ops_of(products, *types, sem).count("role") == 1
    assert ops_of(products, *types, "relaxed").count("role") == 2


def ptx_of(kernel: tawa.Kernel, *types: Any) -> str:
    text = kernel.compile(*types).stages["ptx"]
    assert isinstance(text, str)
    return text[text.index(".entry") :]


def loops_of(ptx: str) -> list[str]:
    """The text of every loop: from a label to the last branch back to it."""
    found = list[str]()
    for label in re.finditer(r"^(\$L__\w+):", ptx, re.M):
        backs = list(re.finditer(rf"bra(\.uni)?\s+{re.escape(label[1])};", ptx[label.end() :]))
        if backs:
            found.append(ptx[label.end() : label.end() + backs[-1].end()])
    return found


@tawa.jit
def wait_for_one(flag, out):
    while tl.load(flag, volatile=True) == 0:
        pass
    tl.store(out, tl.load(out + 1))


@tawa.jit
def wait_for_all(flags, out, N: tl.constexpr):
    at = tl.arange(0, N)
    while tl.min(tl.load(flags + at, volatile=True)) == 0:
        pass
    tl.store(out + at, at)


@tawa.jit
def wait_without_saying_so(flag, out):
    while tl.load(flag) == 0:
        pass
    tl.store(out, tl.load(out + 1))


@tawa.jit
def wait_and_count(flags, out):
    polls = 0
    seen = tl.load(flags + tl.program_id(0))
    while seen == 0:
        polls += 1
        seen = tl.load(flags + tl.program_id(0))
    tl.store(out, polls)


@pytest.mark.parametrize(
    ("kernel", "types"),
    [
        (wait_for_one, ("*i32", "*i32")),
        (wait_for_all, ("*i32:16", "*i32:16", 128)),
        (wait_without_saying_so, ("*i32", "*i32")),
        (wait_and_count, ("*i32", "*i32")),
    ],
    ids=lambda v: v.fn.__name__ if isinstance(v, tawa.Kernel) else "",
)
def test_a_wait_reads_memory_each_time(kernel: tawa.Kernel, types: tuple[Any, ...]) -> None:
    loops = loops_of(ptx_of(kernel, *types))
    assert loops
    assert any("ld.volatile.global" in loop and "fence.acq_rel.gpu" in loop for loop in loops)


@tawa.jit
def search(x, out, key):
    at = 0
    while tl.load(x + at) < key:
        at += 1
    tl.store(out, at)


def test_a_search_is_no_wait() -> None:
    assert "ld.volatile" not in ptx_of(search, "*i32", "*i32", "i32")


@pytest.mark.parametrize("width", ["*i8", "*i16", "*i32", "*i64", "*f16", "*f32", "*f64"])
def test_all_widths_are_read_as_they_are(width: str) -> None:
    assert "ld.volatile.global" in ptx_of(volatile_copy, width, width, 256)


@tawa.jit
def volatile_copy(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at, volatile=True))


@tawa.jit
def chain(flags, x, out, N: tl.constexpr):
    """Each program adds its block to the sums of those before it."""
    pid, at = tl.program_id(0), tl.arange(0, N)
    total = tl.load(x + pid * N + at)
    if pid > 0:
        while tl.load(flags + pid - 1) == 0:
            pass
        total += tl.load(out + (pid - 1) * N + at)
    tl.store(out + pid * N + at, total)
    tl.atomic_xchg(flags + pid, 1)


@pytest.mark.parametrize("deal", [1, 2, "even"])
def test_programs_that_wait_are_not_serialised(deal: int | str) -> None:
    programs = 7
    x, out = np.ones(programs * B, np.float32), np.zeros(programs * B, np.float32)
    arguments = (np.zeros(programs, np.int32), x, out)
    compiled = chain.compile(*arguments, B, persistent=True, deal=deal)
    assert compiled.spec.grid == "plain"
    assert any("programs wait for others" in str(remark) for remark in compiled.remarks)
    run(compiled.module("hopper"), (programs,), arguments, multiprocessors=2)
    np.testing.assert_array_equal(out, np.repeat(np.arange(programs) + 1, B))
