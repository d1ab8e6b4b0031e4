"""Objects that libraries pass for tensors: an address with an element type, and perhaps an extent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.runtime.arguments import classify
from tawa.runtime.arrays import HOST, host_array, view
from tawa.runtime.overlaps import overlapping, reach


class Placed:
    """An address with a type, as FlagGems' strided buffers are: no method of tensors but these."""

    def __init__(self, base: np.ndarray, dtype: str, device: str = "cpu") -> None:
        self.base_, self.dtype = base, f"torch.{dtype}"
        self.device = SimpleNamespace(type=device, index=1 if device == "cuda" else None)
        self.shape = base.shape

    def data_ptr(self) -> int:
        return self.base_.ctypes.data

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.base_.itemsize for step in self.base_.strides)


@tawa.jit
def double(x, y, stride, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, 2 * tl.load(x + i * stride))


@pytest.mark.parametrize(
    ("dtype", "kind"), [("float32", np.float32), ("int64", np.int64), ("uint8", np.uint8)]
)
def test_an_address_in_the_cpus_memory_is_simulated(dtype, kind):
    base, out = np.arange(32).astype(kind), np.zeros(16, kind)
    double[(1,)](Placed(base[::2], dtype), Placed(out, dtype), 2, N=16)
    np.testing.assert_array_equal(out, 2 * base[::2])


def test_elements_that_numpy_lacks_are_seen_as_integers_of_their_size():
    bits = np.arange(6, dtype=np.uint16).reshape(2, 3)
    seen = host_array(Placed(bits.T, "bfloat16"))
    assert seen.dtype == np.uint16
    np.testing.assert_array_equal(seen, bits.T)


def test_an_address_on_a_device_is_passed_as_it_is():
    base = np.zeros((4, 8), np.float16)
    kind, passed = classify(Placed(base, "float16", "cuda"))
    assert (kind.type, kind.device, passed) == ("*f16", 1, base.ctypes.data)
    assert view(Placed(base, "float16")).device == HOST


class TorchLike(Placed):
    """As a tensor of PyTorch says where it lies: -1 is the CPU's memory."""

    def __init__(self, base: np.ndarray, dtype: str, device: int) -> None:
        super().__init__(base, dtype, "cpu" if device < 0 else "cuda")
        self.number = device

    def get_device(self) -> int:
        return self.number


@pytest.mark.parametrize("shift", [0, 1])
def test_a_tensor_is_passed_as_its_address_or_in_the_cpus_memory_as_an_array(shift: int) -> None:
    memory = np.zeros(80, np.uint8)
    start = -memory.ctypes.data % 16 + 2 * shift
    base = memory[start : start + 64].view(np.float16)
    kind, passed = classify(TorchLike(base, "float16", HOST))
    text = "*f16" if shift else "*f16:16"
    assert (kind.text, kind.device, kind.library) == (text, HOST, "torch")
    assert isinstance(passed, np.ndarray)
    assert passed.ctypes.data == base.ctypes.data
    kind, passed = classify(TorchLike(base, "float16", 1))
    assert (kind.text, kind.device) == (text, 1)
    assert passed == base.ctypes.data


def test_where_an_address_says_how_far_it_reaches_that_counts():
    base = np.zeros(64, np.float32)
    first, second = Placed(base[:32], "float32"), Placed(base[32:], "float32")
    assert overlapping([("a", "b")], {"a": first, "b": second})[0] == ()
    assert overlapping([("a", "b")], {"a": first, "b": Placed(base[16:], "float32")})[0] != ()
    here = SimpleNamespace(type="cpu")
    bare: Any = SimpleNamespace(
        dtype="torch.float32", data_ptr=lambda: base.ctypes.data, device=here
    )
    assert overlapping([("a", "b")], {"a": bare, "b": second})[0] != ()  # it might reach anywhere


def test_what_has_only_a_type_lies_nowhere():
    assert reach(SimpleNamespace(dtype="torch.float32", data_ptr=lambda: 0)) is None
    stand_in = SimpleNamespace(dtype="torch.float16", data_ptr=lambda: 0)
    compiled = double.compile(x=stand_in, y=stand_in, stride=2, N=16)
    assert "f16" in str(compiled.stages["tile"])
