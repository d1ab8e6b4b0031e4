"""The kernels of a plan are compiled by several processes, and found by this one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tawa import axon
from tawa.axon.gpu import ahead, library
from tawa.axon.gpu.compile import compile_for_device, plan_for_device

ROWS = np.broadcast_to(np.float32(0), (8, 64))


QUERIES = np.broadcast_to(np.float16(0), (1, 2, 128, 64))


@dataclass
class Handed:
    """In place of a process: what it was handed."""

    priority: int
    texts: list[bytes] = field(default_factory=list[bytes])
    closed: bool = False
    process: subprocess.Popen[bytes] = field(default_factory=lambda: subprocess.Popen("true"))

    def hand(self, text: bytes) -> None:
        self.texts.append(text)

    def close(self) -> None:
        self.closed = True


def attended() -> axon.gpu.compile.CompiledFunction:
    """Attention of rows, and rows of it."""
    source = """
def f (q: f16[..b, t, d]) (k: f16[..b, t, d]) (v: f16[..b, t, d]) =
  softmax (attention (softmax q) (softmax (k .+ q)) (softmax (v .* v)))
"""
    return axon.compile(axon.load(source)["f"])


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is kept, in this process or on disk, and there are cores for two processes."""
    monkeypatch.setenv("TAWA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(ahead.os, "sched_getaffinity", lambda process: set(range(4)))
    monkeypatch.setattr(library, "_COMPILED", {})
    monkeypatch.setattr(library, "_KERNELS", {})
    monkeypatch.setattr(ahead, "START", 0)


@pytest.fixture
def softmax() -> axon.gpu.compile.CompiledFunction:
    """A kernel of rows, which is compiled for several widths."""
    return axon.compile(axon.load("def f x = softmax x")["f"])


def test_what_other_processes_compiled_is_not_compiled_here(
    softmax: axon.gpu.compile.CompiledFunction, monkeypatch: pytest.MonkeyPatch
):
    plan = plan_for_device(softmax, (ROWS,), {})
    calls = [launch.call for launch in plan.launches]
    assert ahead.compile_ahead(calls, {}) == 2
    assert ahead.compile_ahead(calls, {}) == 0  # all are kept

    def compiles(*given: object, **more: object) -> None:
        raise AssertionError("compiled here")

    monkeypatch.setattr("tawa.driver.compiler.compile_kernel", compiles)
    compile_for_device(softmax, (ROWS,), {})
    assert axon.compilations() == sum(len(call.variants) for call in calls) >= 4


def test_what_no_process_could_compile_is_compiled_here(
    softmax: axon.gpu.compile.CompiledFunction, monkeypatch: pytest.MonkeyPatch
):
    (launch,) = plan_for_device(softmax, (ROWS,), {}).launches
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert ahead.compile_ahead([launch.call], {}) == 2
    assert library.compiled(launch.call, launch.call.variant, {}).cubin


def test_a_call_waits_for_the_chosen_alone(
    softmax: axon.gpu.compile.CompiledFunction, monkeypatch: pytest.MonkeyPatch
):
    (launch,) = plan_for_device(softmax, (ROWS,), {}).launches
    asked: list[Handed] = []

    def started(priority: int = 0) -> Handed:
        asked.append(Handed(priority))
        return asked[-1]

    monkeypatch.setattr(ahead, "Helper", started)
    assert ahead.compile_ahead([launch.call], {}, chosen=True) == 0  # one is compiled here
    assert ahead.compile_later([launch.call], {}) == 2
    assert sum(len(helper.texts) for helper in asked) == len(launch.call.variants)
    assert all(helper.priority == ahead.LATER and helper.closed for helper in asked)


def test_kernels_are_handed_out_before_attention_is_chosen(monkeypatch: pytest.MonkeyPatch):
    """So other processes import the compiler meanwhile. What chose attention's tiles compiles it."""
    asked: list[Handed] = []

    def started(priority: int = 0) -> Handed:
        asked.append(Handed(priority))
        return asked[-1]

    monkeypatch.setattr(ahead, "Helper", started)
    monkeypatch.setattr(ahead, "START", 1)
    with ahead.Compilations({}, chosen=True, own_kinds={"attention"}) as compilations:
        for launch in plan_for_device(attended(), (QUERIES,) * 3, {}).launches:
            compilations.begin(launch.call)
    kinds = [wanted.name for wanted in compilations.own]
    assert "attention_forward" in kinds
    assert all(helper.closed for helper in asked)
    assert sum(len(helper.texts) for helper in asked) == len(compilations.seen) - len(kinds) > 0


def test_few_kernels_are_not_worth_a_process(
    softmax: axon.gpu.compile.CompiledFunction, monkeypatch: pytest.MonkeyPatch
):
    (launch,) = plan_for_device(softmax, (ROWS,), {}).launches
    monkeypatch.setattr(ahead, "START", len(launch.call.variants) - 1)
    assert ahead.compile_ahead([launch.call], {}) == 0
