"""What DLPack says of an array: its first byte, elements, shape, strides, and device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tawa.runtime import dlpack


def told(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> dlpack.Described:
    """What is made of a tensor's description."""
    of: dict[str, Any] = {
        "data": 1 << 20, "byte_offset": 24, "rank": 2, "shape": (4, 6), "strides": (12, 2),
        "dtype": SimpleNamespace(code=2, bits=16, lanes=1),
        "device": SimpleNamespace(type=dlpack.CUDA, index=3), **changes,
    }  # fmt: skip
    monkeypatch.setattr(dlpack, "_capsule", lambda array: None)
    monkeypatch.setattr(dlpack, "_tensor", lambda capsule: SimpleNamespace(**of))
    return dlpack.describe(None)


def test_a_tensor_begins_where_its_offset_says(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(monkeypatch)
    assert found == dlpack.Described((1 << 20) + 24, "f16", (4, 6), (12, 2), 3)


def test_without_strides_rows_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, strides=None).strides == (6, 1)
    assert told(monkeypatch, strides=None, rank=1, shape=(4,)).strides == (1,)


@pytest.mark.parametrize(
    ("type_", "device"), [(1, -1), (dlpack.CUDA, 3), (dlpack.CUDA_MANAGED, 3), (3, -1), (10, -1)]
)
def test_only_a_gpu_s_memory_is_on_a_device(
    monkeypatch: pytest.MonkeyPatch, type_: int, device: int
) -> None:
    assert told(monkeypatch, device=SimpleNamespace(type=type_, index=3)).device == device


class Asked:
    """An array that notes how its capsule is asked for; libraries may know no streams."""

    def __init__(self, device: tuple[int, int], refused: type[Exception] | None = None) -> None:
        self.device, self.refused, self.asked = device, refused, list[Any]()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **asked: Any) -> str:
        self.asked.append(asked)
        if asked and self.refused is not None:
            raise self.refused
        return "capsule"


@pytest.mark.parametrize("number", [0, 1, dlpack.CUDA, dlpack.CUDA_MANAGED])
def test_only_a_gpu_s_arrays_are_asked_not_to_wait(number: int) -> None:
    for type_ in (1, 3, 10):
        host = Asked((type_, number))
        assert dlpack._capsule(host) == "capsule"  # pyright: ignore[reportPrivateUsage]
        assert host.asked == [{}]
    for type_ in (dlpack.CUDA, dlpack.CUDA_MANAGED):
        device = Asked((type_, number))
        assert dlpack._capsule(device) == "capsule"  # pyright: ignore[reportPrivateUsage]
        assert device.asked == [{"stream": -1}]


@pytest.mark.parametrize("refused", [TypeError, ValueError, RuntimeError, BufferError])
def test_where_streams_are_not_known_the_library_waits(refused: type[Exception]) -> None:
    device = Asked((dlpack.CUDA, 0), refused)
    assert dlpack._capsule(device) == "capsule"  # pyright: ignore[reportPrivateUsage]
    assert device.asked == [{"stream": -1}, {}]


def test_arrays_of_numpy() -> None:
    whole = np.arange(48, dtype=np.int32).reshape(6, 8)
    found = dlpack.describe(whole[1:5, 2:8:2])
    assert found.strides == (8, 2)
    assert (found.shape, found.device, found.element_type) == ((4, 3), -1, "i32")
    assert found.pointer == whole.ctypes.data + 4 * 10
