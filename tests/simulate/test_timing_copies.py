"""What a role that copies through pointers takes: addresses that count once, copies, arrivals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import f32, i64
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import SSAValue

from tawa.base.layout import Layout, Mode
from tawa.base.types import PtrType
from tawa.hopper.dialect.types import FragType
from tawa.ir.elementwise import Map
from tawa.machine.chips import H100
from tawa.simulate.timing import copies
from tawa.simulate.timing.copies import copied_together, without_dropped
from tawa.simulate.timing.work import Work

LAYOUT = Layout((1024,), (Mode(8, 0, 1),), (Mode(32, 0, 8),), (Mode(4, 0, 256),))


class Copy(Made):
    """Stands for a copy of so many elements of a thread at once."""

    name = "test.copy"


def frag(kind: Any = i64) -> SSAValue:
    return Made(result_types=[FragType.of(kind, LAYOUT)]).results[0]


def copy(value: SSAValue, vector: int = 4) -> Copy:
    op = Copy(operands=[value])
    op.vector = SimpleNamespace(value=SimpleNamespace(data=vector))  # type: ignore[attr-defined]
    return op


@pytest.fixture(autouse=True)
def stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "CopyAsync", Copy)


def sums(value: SSAValue) -> Map:
    return Map("addi", [value, value])


def test_values_that_copies_alone_use() -> None:
    """Also through other addresses and from turn to turn: as many as a copy takes at once."""
    value = frag()
    op = sums(value)
    copy(op.result)
    assert copied_together(op.result) == 4
    copy(op.result, 8)
    assert copied_together(op.result) == 8
    further = sums(op.result)
    copy(further.result, 16)
    assert copied_together(op.result) == 16
    scf.YieldOp(further.result)
    assert copied_together(op.result) == 16
    Made(operands=[further.result])
    assert copied_together(op.result) == 1
    assert copied_together(further.result) == 1
    assert copied_together(sums(value).result) == 1


def test_what_the_assembler_drops() -> None:
    op = sums(frag())
    work = Work(8.0, 4.0, latency=3.0)
    assert without_dropped(op, work) is work
    copy(op.result)
    assert without_dropped(op, work) == Work(2.0, 1.0)
    assert without_dropped(Made(), work) is work


class Code:
    """Collects what is written."""

    def __init__(self, **of: Any) -> None:
        self.places = self.counting = False
        self.threads, self.target = 128, H100
        self.written: list[Any] = []
        self.__dict__.update(of)

    def line(self, text: str) -> None:
        self.written.append(text)

    event = add = line

    def name(self, value: str) -> str:
        return value


def test_a_tile_s_copies() -> None:
    """Instructions for each, then the bytes of all threads; what loads is counted, not done."""
    pointers = frag(PtrType(f32))
    op: Any = SimpleNamespace(
        bytes=16, pointers=pointers, vector=SimpleNamespace(value=SimpleNamespace(data=4))
    )
    size = 16 * 2 * 128
    code = Code()
    copies._copy(code, op, set())  # type: ignore[arg-type]
    work, event = code.written
    assert work == Work(H100.timing.copy_instructions * 2, shared=size / H100.shared_memory_bytes)
    assert event.endswith(f", {size}")
    counting = Code(counting=True)
    copies._copy(counting, op, set())  # type: ignore[arg-type]
    assert counting.written == [f"loads += 1; loaded += {size}"]
    places = Code(places=True, counting=True)
    copies._copy(places, op, set())  # type: ignore[arg-type]
    assert places.written == []


def test_arrivals_of_copies() -> None:
    code = Code()
    copies._arrive(code, SimpleNamespace(barrier="full", slot="k"), set())  # type: ignore[arg-type]
    (event,) = code.written
    assert event.endswith(", full + k * 8, 128")
