"""Decisions are data: nothing that is compiled depends on what is printed of them, or of the IR."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from blinded import blinded
from catalogue import BY_NAME
from reassembled import BLOCKS, BYTES, POINTERS, many_registers, states
from simulation import Arrays, Recorded, recorded, recording
from suite import cases
from xdsl.dialects.builtin import ModuleOp

import tawa
from tawa.base.attempts import ATTEMPTS
from tawa.base.source import Span
from tawa.driver.compiled import Compiled
from tawa.driver.compiler import compile_kernel
from tawa.driver.jit import Kernel
from tawa.driver.request import Request
from tawa.ir.decisions.assembling import (
    AttemptLeftOut,
    AttemptRejected,
    CompiledForNeighbours,
    CostsSpeed,
    EntryRegisters,
    ProductsNarrowed,
    RegistersForMore,
)
from tawa.ir.decisions.decision import Decision, from_json, remarks, to_json
from tawa.ir.decisions.loops import LoopScheduled, ProductsInFlight, ProductsInTurns, Usage
from tawa.ir.decisions.loops import ScheduledOp as Op
from tawa.ir.decisions.memory import MemoryLaidOut, Part
from tawa.ir.decisions.roles import CopiedThroughPointers, NotSpecialised, Specialised
from tawa.kernels.attention import Configuration, attention
from tawa.runtime import nvrtc

SOURCE = Path(tawa.__file__).parent

Asked = tuple[Kernel, Request]


def example(name: str) -> Asked:
    launch = recorded(BY_NAME[name])[0]
    return launch.kernel, launch.request()


def of_suite(name: str) -> Asked:
    made = cases()[name](Arrays())
    launch = Recorded(made.kernel, made.grid, tuple(made.args), dict(made.constants))
    return launch.kernel, launch.request()


def asked(kernel: Kernel, *types: str, **more: Any) -> Asked:
    return kernel, kernel.request(*types, **more)


def shared() -> Asked:
    launch = cases()["cross_entropy_with_smoothing"](Arrays())
    types = ["*bf16:16", "i32:16", "*i64:16", "*f32:16", *["i32:16"] * 3, "f32"]
    return asked(launch.kernel, *types, BLOCK=4096, num_warps=16)


def rejected() -> Asked:
    """Attention in two CTAs a multiprocessor, whose first schedule the assembler spills."""
    arrays = [np.empty((32, 32, 512, 64), ml_dtypes.bfloat16) for _ in range(3)]
    two = {"persistent": True, "deal": "even", "consumers": 2, "ctas_per_sm": 2}
    with recording() as launches:
        attention(*arrays, causal=True, using=Configuration(128, 64, two, ascending=True))
    first = launches[0]
    return first.kernel, first.kernel.request(*first.args, **first.kwargs)


KERNELS: dict[str, tuple[Callable[[], Asked], type[Decision]]] = {
    "gemm": (lambda: example("gemm-cooperative"), ProductsInFlight),
    "gemm, persistent": (lambda: example("gemm-persistent"), ProductsInFlight),
    "consumers in turn": (lambda: example("fused_mlp-alternate"), ProductsInTurns),
    "attention": (lambda: example("attention-causal-64"), LoopScheduled),
    "pointers": (lambda: example("pointers-small"), NotSpecialised),
    "rejected": (rejected, AttemptRejected),
    "spilled": (
        lambda: asked(many_registers, *BYTES, **BLOCKS, num_warps=2, num_stages=1, persistent=True),
        ProductsNarrowed,
    ),
    "more on a multiprocessor": (shared, RegistersForMore),
    "neighbours": (
        lambda: asked(states, *POINTERS, M=64, N=128, BK=64),
        CompiledForNeighbours,
    ),
    "norm": (lambda: of_suite("rms_norm"), EntryRegisters),
}
"""Kernels, and what is decided about them: all ways in which the driver chooses."""


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_is_chosen_by_printed_text(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Without remarks and without printed IR, the machine code is the same.

    Kernels of each kind of choice; `scripts/hash_kernels.py --blind` compares all.
    """
    make, kind = KERNELS[name]
    kernel, request = make()

    def made(folder: str) -> Compiled:
        monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path / folder))
        return compile_kernel(kernel, request.types, request.constants, request.options)

    plain = made("plain")
    assert plain.decided(kind), f"the case shows no {kind.__name__}"
    with blinded():
        blind = made("blind")
    assert blind.cubin == plain.cubin
    assert blind.decisions == plain.decisions


def test_printing_is_poisoned():
    """The test above would see a module being printed."""
    with blinded(), pytest.raises(AssertionError, match="what is printed"):
        str(ModuleOp([]))


def test_the_log_is_read_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    read: list[str] = []
    plain = nvrtc.parse_log

    def counted(log: str) -> Any:
        read.append(log)
        return plain(log)

    monkeypatch.setattr(nvrtc, "parse_log", counted)
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))
    kernel, request = example("gemm-tiny")
    made = compile_kernel(kernel, request.types, request.constants, request.options)
    assert len(read) == 1
    again = compile_kernel(kernel, request.types, request.constants, request.options)
    assert len(read) == 1
    assert again.assembled == made.assembled
    assert again.findings == made.findings


def test_nobody_else_reads_the_log():
    readers = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(
            isinstance(node, ast.ImportFrom) and any(a.name == "parse_log" for a in node.names)
            for node in ast.walk(ast.parse(path.read_text()))
        )
    }
    assert readers == {"runtime/nvrtc.py"}


def test_decisions_survive_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))
    kernel, request = example("attention-causal-64")
    given = kernel, request.types, request.constants, request.options
    begin = time.perf_counter()
    made, again = compile_kernel(*given), compile_kernel(*given)
    assert 0 < sum(made.timings.values()) < time.perf_counter() - begin
    assert not again.timings
    assert again.decisions == made.decisions
    assert again.remarks == made.remarks


SPAN = Span("kernel.py", 3, 4, 3, 9)


@pytest.mark.parametrize(
    "found",
    [
        AttemptLeftOut(ATTEMPTS[3], "no schedule found"),
        AttemptRejected(ATTEMPTS[1], ("spill: 8 bytes", "wgmma serialised: why")),
        CopiedThroughPointers(("x", "y"), span=SPAN),
        CostsSpeed("spill", "8 bytes"),
        LoopScheduled(
            100, "the tensor core", True, (Usage("the tensor core", 100),),
            (Op(0, 1, "exp2", "thread", 20, None), Op(8, 0, "dot", "tensor core", 100, 7)),
            ((0, 1), (8, 0)), span=SPAN,
        ),
        MemoryLaidOut(80, (Part("a", 64), Part("barriers", 16)), 384),
        ProductsInTurns((SPAN, None)),
    ],
    ids=lambda found: type(found).__name__,
)  # fmt: skip
def test_decisions_survive_json(found: Decision):
    import json

    (again,) = from_json(json.loads(json.dumps(to_json([found]))))
    assert again == found
    assert str(again) == str(found)


def test_remarks_are_printed_from_decisions():
    made = [ProductsInFlight(1, span=SPAN), Specialised(True, 2, 1), ProductsInFlight(1, span=SPAN)]
    assert remarks(made) == (
        "async-dots: 1 iteration(s) of matrix products in flight (kernel.py:3:5)",
        "partition: one loading thread and 2 teams of 1 consumer warp group",
    )
