"""Whole kernels by their PTX: right where the kernel is, and what is wrong with it is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from catalogue import BY_NAME
from simulation import Arrays, check, simulate
from suite import cases

import tawa
import tawa.language as tl
from tawa.base.kernel_spec import KernelSpec, PointerParam, ScalarParam
from tawa.simulate.ptx.cta import ORDERS, TOGETHER, PtxFailed
from tawa.simulate.ptx.launch import run

SUITE = [
    "rope", "masks_of_where", "layer_norm", "cumulative_sum", "histogram", "matmul_64",
    "matmul_rows_16", "matmul_e4m3", "split_k", "described_k_80", "int4_weights", "atomics",
    "atomics_of_halves", "special_functions", "random_numbers_of_64_bits", "assertion_that_holds",
    "copied_operands", "gather_along_columns", "state_space_chunk", "tiles_by_ticket",
]  # fmt: skip
EXAMPLES = ["vector_add-f32-4", "gemm-ping-pong", "gemm-one-role", "persistent_gemm"]

block = tawa.TensorDescriptor.from_tensor


@pytest.mark.parametrize("name", SUITE)
def test_the_suite(name: str) -> None:
    launch = cases()[name](Arrays())
    given = launch.kernel, launch.grid, launch.args, dict(launch.expected), launch.tolerance
    check(*given, levels=["ptx"], **launch.constants)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    simulate(BY_NAME[name], ["ptx"])


@tawa.jit
def product(a, b, c, K, N: tl.constexpr):
    total = tl.zeros((N, N), tl.float32)
    for k in range(0, K, N):
        total = tl.dot(a.load([0, k]), b.load([k, 0]), total)
    c.store([0, 0], total.to(tl.float16))


@tawa.jit
def reversed_copy(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at))
    tl.store(y + N + at, tl.load(y + (N - 1 - at)))


@tawa.jit
def waits_for_another(flag, out):
    if tl.program_id(0) == 0:
        while tl.atomic_add(flag, 0) == 0:
            pass
        tl.store(out, tl.load(out + 1) + 1)
    else:
        tl.store(out + 1, 7)
        tl.atomic_xchg(flag, 1)


def _product() -> tuple[list[Any], Any]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 64 * n)).astype(np.float16) for n in (3, 3))
    c = np.zeros((64, 64), np.float16)
    tall = np.ascontiguousarray(b.T)
    return [block(a, [64, 64]), block(tall, [64, 64]), block(c, [64, 64]), 192, 64], c


def _copied() -> tuple[list[Any], Any]:
    x, y = np.arange(256, dtype=np.float32), np.zeros(512, np.float32)
    return [x, y, 256], y


Make = Callable[[], tuple[list[Any], Any]]


def outcome(
    kernel: tawa.Kernel, make: Make, change: Callable[[str], str], order: str = TOGETHER
) -> Any:
    """What a kernel gives with its PTX changed."""
    arguments, found = make()
    compiled = kernel.compile(*arguments)
    ptx = str(compiled.stages["ptx"])
    changed = change(ptx)
    assert change(ptx) != ptx or change is unchanged
    named = dict(zip(kernel.arg_names, arguments, strict=True))
    values = [named[name] for name in compiled.spec.arguments]
    run(changed, compiled.spec, (1,), values, order=order)
    return found


def unchanged(ptx: str) -> str:
    return ptx


def without(pattern: str, last: bool = False) -> Callable[[str], str]:
    """Leave out one instruction, the first or the last of its kind."""

    def change(ptx: str) -> str:
        found = list(re.finditer(pattern, ptx))[-1 if last else 0]
        return ptx[: found.start()] + ptx[found.end() :]

    return change


def instead(old: str, new: str) -> Callable[[str], str]:
    return lambda ptx: ptx.replace(old, new, 1)


DEFECTS: dict[str, tuple[tawa.Kernel, Make, Callable[[str], str]]] = {
    "no wait for tiles": (
        product,
        _product,
        lambda ptx: re.sub(r"mbarrier\.try_wait[^;]*;", "setp.eq.u32 done, 0, 0;", ptx, count=1),
    ),
    "other bytes are expected": (product, _product, instead("16384;", "8192;")),
    "an operand begins elsewhere": (product, _product, without(r"add\.s64[^;]*, 128;")),
    "an operand is turned": (product, _product, instead("p, 1, 1, 0, 1;", "p, 1, 1, 0, 0;")),
    "no wait for the staged tile": (product, _product, without(r"bar\.sync[^;]*;", last=True)),
    "an arrival is missing": (product, _product, without(r"mbarrier\.arrive\.expect_tx[^;]*;")),
    "threads do not meet": (reversed_copy, _copied, without(r"bar\.sync[^;]*;")),
    "a store is lost": (reversed_copy, _copied, without(r"st\.global[^;]*;", last=True)),
    "an address is too low": (reversed_copy, _copied, without(r"add\.s64[^;]*;", last=True)),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found(name: str) -> None:
    kernel, make, change = DEFECTS[name]
    arguments, expected = make()
    kernel[(1,)](*arguments)

    def is_right(order: str) -> bool:
        try:
            found = outcome(kernel, make, change, order)
        except PtxFailed:
            return False
        return np.allclose(found, expected, rtol=2e-3, atol=2e-2)

    assert not all(is_right(order) for order in ORDERS)


def test_they_are_right() -> None:
    for kernel, make in ((product, _product), (reversed_copy, _copied)):
        arguments, expected = make()
        kernel[(1,)](*arguments)
        for order in ORDERS:
            found = outcome(kernel, make, unchanged, order)
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-2)


MEETS_BEFORE = """
.visible .entry meets(.param .u64 out, .param .align 2 .b8 table[8]) {
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    mov.u32 %r1, %tid.x;
    mov.u32 %r3, 0;
    mov.u32 %r6, 0;
    bra.uni begin;
meeting:
    shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1;
    add.u32 %r3, %r3, %r4;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p2, %r6, 3;
    @%p2 bra begin;
    mov.b64 %rd4, table;
    ld.param.u16 %r5, [%rd4+2];
    add.u32 %r3, %r3, %r5;
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r3;
    ret;
begin:
    and.b32 %r2, %r1, 1;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 bra other;
    add.u32 %r2, %r2, 4;
    bra.uni meeting;
other:
    add.u32 %r2, %r2, 7;
    bra.uni meeting;
}
"""
"""Lanes branch apart in a loop and meet in a block that stands first; a parameter's address."""


def test_lanes_meet_wherever_the_meeting_stands() -> None:
    given = PointerParam(0), ScalarParam(1 << 16 | 2, "i64")
    spec = KernelSpec("meets", threads=32, shared_bytes=0, parameters=given, arguments=("out",))
    out = np.zeros(32, np.int32)
    run(MEETS_BEFORE, spec, (1,), [out])
    assert out.tolist() == [3 * 5 + 1, 3 * 7 + 1] * 16


SCOPES = """
.visible .entry scopes(.param .u64 out) {
.reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out];
    {.reg .b64 o, v; mov.b64 v, -5; atom.global.add.u64 o, [%rd1], v; mov.b64 %rd2, o;}
    {.reg .b32 o, v; mov.b32 v, 7; atom.global.add.u32 o, [%rd1+8], v;}
    ret;
}
"""


def test_scopes_have_registers_of_their_own() -> None:
    spec = KernelSpec("scopes", 32, 0, parameters=(PointerParam(0),), arguments=("out",))
    out = np.zeros(2, np.int64)
    run(SCOPES, spec, (1,), [out])
    assert out.tolist() == [-5 * 32, 7 * 32]


def test_programs_that_wait_for_each_other() -> None:
    flag, out = np.zeros(1, np.int32), np.zeros(2, np.int32)
    compiled = waits_for_another.compile(flag, out)
    named = {"flag": flag, "out": out}
    arguments = [named[name] for name in compiled.spec.arguments]
    run(str(compiled.stages["ptx"]), compiled.spec, (2,), arguments)
    assert out.tolist() == [8, 7]


@tawa.jit
def takes_turns(x, y, out, n):
    for _ in range(n):
        x, y = y, x
    tl.store(out, tl.load(x) - tl.load(y))


def test_pointers_that_change_places() -> None:
    x, y, out = (np.full(1, value, np.int32) for value in (5, 3, 0))
    compiled = takes_turns.compile(x, y, out, 3)
    named = {"x": x, "y": y, "out": out, "n": 3}
    run(
        str(compiled.stages["ptx"]),
        compiled.spec,
        (1,),
        [named[n] for n in compiled.spec.arguments],
    )
    assert out[0] == -2


def test_what_nobody_ends_is_named() -> None:
    arguments, _ = _product()
    compiled = product.compile(*arguments)
    ptx = without(r"cp\.async\.bulk\.tensor\.2d\.shared[^;]*;")(str(compiled.stages["ptx"]))
    named = dict(zip(product.arg_names, arguments, strict=True))
    with pytest.raises(PtxFailed, match="nobody can go on") as failed:
        run(ptx, compiled.spec, (1,), [named[name] for name in compiled.spec.arguments])
    assert "try_wait" in str(failed.value)


def test_instructions_and_addresses_are_named() -> None:
    with pytest.raises(PtxFailed, match="does not know"):
        outcome(reversed_copy, _copied, instead("bar.sync", "bar.red"))
    x, short = np.zeros(256, np.float32), np.zeros(256, np.float32)
    with pytest.raises(PtxFailed, match="address 0x"):
        outcome(reversed_copy, lambda: ([x, short, 256], short), unchanged)


@tawa.jit
def polls(flag, out):
    if tl.program_id(0) == 0:
        while tl.load(flag, volatile=True) == 0:
            pass
        tl.store(out, tl.load(out + 1) + 1)
    else:
        tl.store(out + 1, 7)
        tl.atomic_xchg(flag, 1)


def polled(change: Callable[[str], str]) -> tuple[str, np.ndarray]:
    """The PTX of a program that polls memory which a later one writes, and what it gives."""
    flag, out = np.zeros(1, np.int32), np.zeros(2, np.int32)
    compiled = polls.compile(flag, out)
    ptx, named = change(str(compiled.stages["ptx"])), {"flag": flag, "out": out}
    run(ptx, compiled.spec, (2,), [named[name] for name in compiled.spec.arguments])
    return ptx, out


def test_a_volatile_load_that_is_not_repeated_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _, out = polled(unchanged)
    assert out.tolist() == [8, 7]
    monkeypatch.setattr("tawa.simulate.ptx.cta.STEPS", 15_000)

    def once(ptx: str) -> str:
        return re.sub(r"ld\.volatile\.global\.b32 (%r\d+), [^;]*;", r"mov.b32 \1, 0;", ptx)

    with pytest.raises(PtxFailed, match="does not end") as failed:
        polled(once)
    assert "of the PTX: " in str(failed.value)


def test_errors_name_the_line_of_the_ptx() -> None:
    arguments, _ = _copied()
    text = str(reversed_copy.compile(*arguments).stages["ptx"])
    line = text.count("\n", 0, text.index("bar.sync")) + 1
    with pytest.raises(PtxFailed, match=f"line {line} of the PTX: bar.red"):
        outcome(reversed_copy, _copied, instead("bar.sync", "bar.red"))
