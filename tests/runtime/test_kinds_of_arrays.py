"""What a launch takes of arrays: their type, whether 16 divides their address, and where they lie."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tawa.runtime import arguments
from tawa.runtime.arguments import (
    INTEGER_KINDS,
    IntegerKinds,
    UnsupportedArgument,
    classify,
    classify_part,
    classify_unaligned,
    classify_unspecialized,
    integer_kind,
)
from tawa.runtime.arrays import HOST, TensorWithoutMemory
from tawa.runtime.kinds import constant_kind, kind_of

MEMORY = np.zeros(64, np.float16)


class Tensor:
    """Has what PyTorch's tensors have, on a GPU or in the memory of `MEMORY`."""

    def __init__(self, device: int, address: int | None = None, dtype: str = "float16") -> None:
        self.dtype, self.address, self.place = f"torch.{dtype}", address, device
        self.shape, self.base = (8, 8), MEMORY

    def data_ptr(self) -> int:
        if self.address is None:
            raise RuntimeError("no storage")
        return self.address

    def stride(self) -> tuple[int, ...]:
        return (8, 1)

    def get_device(self) -> int:
        return self.place

    def detach(self) -> Any:
        return SimpleNamespace(numpy=lambda: MEMORY)


class Interface:
    """An array with an interface alone."""

    def __init__(self, address: int, typestr: str = "<f4") -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False), "shape": (4,), "typestr": typestr, "version": 3,
        }  # fmt: skip
        self.dtype = np.dtype(typestr)
        self.device = SimpleNamespace(id=2)


@pytest.mark.parametrize(
    ("value", "text", "device", "library", "passed"),
    [
        (Tensor(0, 4096), "*f16:16", 0, "torch", 4096), (Tensor(0, 4104), "*f16", 0, "torch", 4104),
        (Tensor(1, 4112), "*f16:16", 1, "torch", 4112), (Tensor(0, 4096, "int64"), "*i64:16", 0, "torch", 4096),
        (Tensor(HOST, 4104), "*f16", HOST, "torch", MEMORY),
        (Interface(4096), "*f32:16", 2, "tests", 4096), (Interface(4100), "*f32", 2, "tests", 4100),
        (Interface(4100, "<i2"), "*i16", 2, "tests", 4100), (MEMORY[1:], "*f16", HOST, "numpy", MEMORY[1:]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_arrays(value: Any, text: str, device: int, library: str, passed: Any) -> None:
    """In the CPU's memory as on a device: the simulator tells accesses that are not aligned."""
    for _ in range(2):  # known by then
        kind, given = classify(value)
        assert (kind.text, kind.device, kind.one) == (text, device, False)
        assert kind.library in (library, __name__.partition(".")[0])
        if isinstance(passed, int):
            assert given == passed
        else:
            assert np.shares_memory(given, passed)
    plain = text.removesuffix(":16")
    for without in (classify_unaligned, classify_unspecialized):
        kind, again = without(value)
        assert (kind.text, kind.device) == (plain, device)
        assert again is given or again == given


def test_tensors_without_memory() -> None:
    with pytest.raises(TensorWithoutMemory):
        classify(Tensor(0))


@pytest.mark.parametrize(
    ("value", "text", "unaligned", "unspecialized"),
    [
        (1, "i32:1", "i32:1", "i32"), (16, "i32:16", "i32", "i32"), (2**40, "i64:16", "i64", "i64"),
        (2**63, "u64:16", "u64", "u64"), (2.0, "f32:+", "f32", "f32"), (True, "i1", "i1", "i1"),
        (None, "none", "none", "none"), (2**31 - 1, "i32", "i32", "i32"), (2**31, "i64:16", "i64", "i64"),
        (-(2**31) - 1, "i64", "i64", "i64"), (-(2**63), "i64:16", "i64", "i64"), (2**63 - 1, "i64", "i64", "i64"),
        (2.0**-64, "f32:+", "f32", "f32"), (2.0**64, "f32:+", "f32", "f32"), (2.0**-65, "f32", "f32", "f32"),
        (2.0**65, "f32", "f32", "f32"), (float("nan"), "f32", "f32", "f32"),
    ],
)  # fmt: skip
def test_numbers(value: Any, text: str, unaligned: str, unspecialized: str) -> None:
    found = [f(value)[0].text for f in (classify, classify_unaligned, classify_unspecialized)]
    assert found == [text, unaligned, unspecialized]
    kind, _ = classify_unaligned((value, MEMORY))
    assert [part.text for part in kind.parts] == [unaligned, "*f16"]


def test_constants_stay_constants() -> None:
    kind, _ = classify_unspecialized((16, ()))
    assert [part.text for part in kind.parts] == ["i32", "constant"]
    assert kind.parts[1] is constant_kind(())


class constexpr:  # recognised by its name
    def __init__(self, value: Any) -> None:
        self.value = value


def test_parts_that_are_compiled_in() -> None:
    assert classify_part(constexpr(5)) == (constant_kind(5), None)
    assert classify_part(5) == (kind_of("i32"), 5)
    with pytest.raises(UnsupportedArgument):
        classify(constexpr(5))


def test_few_integers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IntegerKinds, "LIMIT", 3)
    kinds = IntegerKinds()
    for value in range(5):
        assert kinds[value] is integer_kind(value)
    assert list(kinds) == [0, 1, 2]
    assert INTEGER_KINDS[48] is kind_of("i32", divisible=True)


def test_descriptors_of_others_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until one of their fields is another one."""
    made: list[Any] = []
    monkeypatch.setattr(
        arguments,
        "descriptor_of",
        lambda value: (made.append(value), SimpleNamespace(kind=len(made)))[1],
    )

    class Foreign(SimpleNamespace): ...

    value = Foreign(base=MEMORY, shape=[8, 8], strides=[8, 1], block_shape=[8, 8])
    assert [classify(value)[0] for _ in range(3)] == [1, 1, 1]
    for field, new in (
        ("shape", [4, 8]),
        ("strides", [16, 1]),
        ("block_shape", [4, 8]),
        ("base", MEMORY[:]),
    ):
        setattr(value, field, new)
        count = len(made)
        assert [classify(value)[0] for _ in range(2)] == [count + 1] * 2
