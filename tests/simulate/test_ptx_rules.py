"""Programs in PTX that break a rule of the machine are stopped, and say which; ones that do not run."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.base.kernel_spec import KernelSpec, PointerParam
from tawa.simulate.ptx.cta import ORDERS, PtxFailed
from tawa.simulate.ptx.launch import run
from tawa.simulate.ptx.program import kernels

THREADS = 64

FRAME = """
.visible .entry small(.param .u64 out) {
.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<19>; .reg .f32 %f<9>; .reg .b64 %rd<9>;
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    setp.eq.u32 %p1, %r1, 0;
    mov.u32 %r8, 0;
    mov.u32 %r9, 0;
    BODY
    st.global.u32 [%rd3], %r9;
    ret;
}
"""

MEETING = """
    @%p1 mbarrier.init.shared.b64 [%r8], 64;
    bar.sync 0;
    mbarrier.arrive.shared.b64 _, [%r8];
wait:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r8], 0;
    @!%p2 bra wait;
    mov.u32 %r9, 1;
"""


def outcome(body: str, order: str = ORDERS[0]) -> np.ndarray:
    """What 64 threads with 4 KiB of shared memory leave in a word each."""
    spec = KernelSpec("small", THREADS, 4096, parameters=(PointerParam(0),), arguments=("out",))
    out = np.full(THREADS, -1, np.int32)
    run(FRAME.replace("BODY", body), spec, (1,), [out], order=order)
    return out


RIGHT: dict[str, tuple[str, list[int]]] = {
    "all arrive": (MEETING, [1] * 64),
    "a warp meets": (
        "setp.lt.u32 %p2, %r1, 32; @%p2 bar.sync 1, 32; mov.u32 %r9, 2;", [2] * 64),
    "some arrive, others wait": (
        "setp.lt.u32 %p2, %r1, 32; @%p2 bar.arrive 1, 64; @!%p2 bar.sync 1, 64; mov.u32 %r9, 3;",
        [3] * 64),
    "a barrier used again": ("bar.sync 1; bar.sync 1; bar.sync 1; mov.u32 %r9, 4;", [4] * 64),
    "lanes exchange": ("shfl.sync.bfly.b32 %r9, %r2, 1, 31, -1;",
                       [(i % 32) ^ 1 for i in range(64)]),
    "a matrix of 8 rows": (
        "shl.b32 %r3, %r1, 2; st.shared.u32 [%r3], %r1; bar.sync 0; and.b32 %r4, %r1, 7;"
        "shl.b32 %r4, %r4, 4; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r4];",
        [i % 32 for i in range(64)]),
    "nothing to wait for": ("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;"
                            "mov.u32 %r9, 7;", [7] * 64),
    "an address of another CTA": (
        "and.b32 %r3, %r1, 3; mov.u32 %r8, 64; mapa.shared::cluster.u32 %r9, %r8, %r3;",
        [64 | (1 + i % 4) << 24 for i in range(64)]),
    "an update": ("@%p1 st.shared.u32 [%r8], 0; bar.sync 0;"
                  "atom.shared.add.u32 %r5, [%r8], 1; bar.sync 0; ld.shared.u32 %r9, [%r8];",
                  [64] * 64),
}  # fmt: skip

WRONG: dict[str, tuple[str, str]] = {
    "too many arrivals": (MEETING.replace("64;", "63;", 1), "more arrivals"),
    "nobody made the barrier": (MEETING.replace("@%p1 mbarrier.init.shared.b64 [%r8], 64;", ""),
                                "no mbarrier was initialised at 0"),
    "another barrier": (MEETING.replace("_, [%r8]", "_, [%r8+8]"), "initialised at 8"),
    "one arrival too few": (MEETING.replace("64;", "65;", 1), "nobody can go on"),
    "the next phase": (MEETING.replace("[%r8], 0;", "[%r8], 0; @%p2 mbarrier.try_wait.parity"
                                       ".shared.b64 %p2, [%r8], 1;"), "nobody can go on"),
    "more threads than meet": ("bar.sync 1, 32;", "barrier 1 of 32"),
    "fewer threads than meet": ("setp.lt.u32 %p2, %r1, 32; @%p2 bar.sync 1, 64;",
                                "nobody can go on"),
    "arriving twice": ("setp.lt.u32 %p2, %r1, 32; @%p2 bar.arrive 1, 64; @%p2 bar.arrive 1, 64;"
                       "@!%p2 bar.sync 1, 64;", "a second time"),
    "some lanes exchange": ("setp.lt.u32 %p2, %r2, 16; @%p2 ldmatrix.sync.aligned.m8n8.x1.shared"
                            ".b16 {%r9}, [%r8];", "only some lanes"),
    "rows between": ("and.b32 %r4, %r1, 7; shl.b32 %r4, %r4, 3; ldmatrix.sync.aligned.m8n8.x1"
                     ".shared.b16 {%r9}, [%r4];", "multiple of 16 bytes"),
    "a trap": ("@%p1 trap;", "traps"),
    "outside of shared memory": ("mov.u32 %r4, 4096; ld.shared.u32 %r9, [%r4];", ""),
    "the last word's end": ("mov.u32 %r4, 4094; ld.shared.u32 %r9, [%r4];", ""),
    "below shared memory": ("mov.u32 %r4, -4; ld.shared.u32 %r9, [%r4];", ""),
    "outside of the array": ("ld.global.u32 %r9, [%rd3+4];", "address 0x"),
    "before the array": ("ld.global.u32 %r9, [%rd3+-4];", "address 0x"),
    "no tensor map": ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"
                      " [%rd1, {%r8, %r8}], [%r8];", "no tensor map"),
    "an unknown type": ("add.q32 %r9, %r1, %r1;", ""),
    "an unknown instruction": ("frobnicate.b32 %r9, %r1;", "does not know"),
    "an unknown modifier": ("fma.rn.relu.f32 %f1, %f1, %f1, %f1;", "does not know"),
    "an unknown function": ("call.uni luck, ();", ""),
}  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", RIGHT)
def test_what_keeps_the_rules_runs(name: str, order: str):
    body, expected = RIGHT[name]
    assert outcome(body, order).tolist() == expected


@pytest.mark.parametrize("name", WRONG)
def test_what_breaks_a_rule_is_stopped(name: str):
    body, why = WRONG[name]
    with pytest.raises(PtxFailed) as failed:
        outcome(body)
    assert why in str(failed.value), failed.value


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (".const .align 4 .b8 table[3] = {1, 255, 0};", b"\x01\xff\x00"),
        (".global .align 1 .s8 table[2] = {-1, 127};", b"\xff\x7f"),
        (".global .align 2 .u16 table[2] = {65535, 258};", b"\xff\xff\x02\x01"),
        (".const .align 8 .s64 table[] = {-2};", b"\xfe" + b"\xff" * 7),
        (".global .align 4 .b32 table[2] = {-1, 4294967295};", b"\xff" * 8),
    ],
)
def test_constants_in_memory(declared: str, expected: bytes) -> None:
    """As bytes of their width, the lowest first, whatever their sign."""
    text = f".version 9.0\n.target sm_90a\n.address_size 64\n{declared}\n.visible .entry k()\n{{\nret;\n}}\n"
    (kernel,) = kernels(text).values()
    assert kernel.arrays == {"table": expected}
