"""Launches with the arguments as they are, of kernels that were compiled for promised types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import tawa
import tawa.language as tl
from tawa.runtime import launch
from tawa.triton.promised import promised_launch


@tawa.jit
def scaled(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    tl.store(out + BLOCK + i, value * 2, mask=i < n)
    tl.store(out + i, value, mask=i < n)


@dataclass
class Fake:
    """What a launch asks of a tensor."""

    address: int
    device: int = 0
    nbytes: int = 400
    shape: tuple[int, ...] = (100,)
    strides: tuple[int, ...] = (1,)

    def data_ptr(self) -> int:
        return self.address

    def get_device(self) -> int:
        return self.device

    def is_contiguous(self) -> bool:
        return self.strides == (1,)

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def element_size(self) -> int:
        return 4


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[Any], Any]:
    """Quick launches, those that took a closer look, and the function that launches."""
    types = {"x": "*fp32", "out": "*fp32", "n": "i32"}
    compiled = scaled.compile("*f32:16", "*f32:16", "i32", BLOCK=64)
    assert compiled.spec.apart, "a store between the load and the other store"
    quick: list[Any] = []
    looked: list[Any] = []
    monkeypatch.setattr(launch, "load", lambda spec, cubin, device: lambda *a: quick.append(a))
    run = promised_launch(compiled, types, lambda *a, **k: looked.append((a, k)), lambda: None)
    return quick, looked, run


@pytest.mark.parametrize(
    "x", [Fake(4096), Fake(4096, shape=(32, 32), strides=(1, 32)), Fake(4096, strides=(10,))]
)
def test_arguments_are_passed_on(x: Fake, launches: tuple[list[Any], list[Any], Any]) -> None:
    quick, looked, run = launches
    run(7, 1, 1, 99, x, Fake(8192), 100)
    assert quick == [((7, 1, 1), (4096, 8192, 100), 99)]
    assert not looked


@pytest.mark.parametrize(
    ("x", "out"),
    [
        (Fake(4096), Fake(4096)),
        (Fake(4096), Fake(4400)),
        (Fake(4400), Fake(4096)),
        (Fake(4096, strides=(11,)), Fake(8192)),
        (Fake(4096, device=-1), Fake(8192, device=-1)),
    ],
)
def test_others_are_looked_at(x: Fake, out: Fake, launches: tuple[Any, list[Any], Any]) -> None:
    quick, looked, run = launches
    run(7, 1, 1, 99, x, out, 100)
    assert not quick
    assert looked == [((7, 1, 1, 99, x, out, 100), {})]
