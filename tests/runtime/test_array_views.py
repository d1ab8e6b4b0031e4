"""What arrays of libraries are seen as: element types, devices, and what a tensor map can describe."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tawa.base.errors import TawaError
from tawa.runtime import arrays
from tawa.runtime.arrays import HOST
from tawa.runtime.descriptor import check
from tawa.runtime.dlpack import _element_type

NAMES = {
    (0, 32, 1): "i32", (1, 8, 1): "u8", (2, 16, 1): "f16", (2, 64, 1): "f64", (4, 16, 1): "bf16",
    (6, 8, 1): "i1", (10, 8, 1): "e4m3", (12, 8, 1): "e5m2", (2, 32, 4): "f32x4",
    (4, 16, 2): "bf16x2", (5, 64, 1): "code64",
}  # fmt: skip


@pytest.mark.parametrize("given", NAMES, ids=str)
def test_element_types(given: tuple[int, int, int]):
    code, bits, lanes = given
    assert _element_type(SimpleNamespace(code=code, bits=bits, lanes=lanes)) == NAMES[given]


def test_two_lanes_of_bytes_are_no_byte():
    assert _element_type(SimpleNamespace(code=10, bits=8, lanes=2)) not in ("e4m3", "e5m2")


DEVICES: dict[str, tuple[Any, int]] = {
    "asked": (SimpleNamespace(get_device=lambda: 5), 5),
    "named": (SimpleNamespace(device=SimpleNamespace(type="cuda", index=3)), 3),
    "the first": (SimpleNamespace(device=SimpleNamespace(type="cuda", index=0)), 0),
    "the host": (SimpleNamespace(device=SimpleNamespace(type="cpu", index=0)), HOST),
    "the current one": (SimpleNamespace(device=SimpleNamespace(type="cuda", index=None)), 2),
    "an address alone": (SimpleNamespace(), 2),
}


@pytest.mark.parametrize("name", DEVICES)
def test_devices(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrays.driver, "current_device", lambda: 2)
    given, expected = DEVICES[name]
    assert arrays._device_of(given) == expected


def test_without_a_current_device_it_is_the_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrays.driver, "current_device", lambda: None)
    assert arrays._device_of(SimpleNamespace()) == 0


Sizes = tuple[int, ...]

FITS: dict[str, tuple[Sizes, Sizes, Sizes]] = {
    "rows": ((64, 64), (64, 1), (8, 16)),
    "rows apart": ((64, 60), (64, 1), (8, 16)),
    "one row": ((1, 64), (3, 1), (1, 16)),
    "one column": ((64, 1), (8, 5), (8, 8)),
    "nothing": ((0, 64), (3, 7), (8, 16)),
    "rows on themselves": ((64, 64), (0, 1), (8, 16)),
    "five dimensions": ((2, 2, 2, 2, 64), (512, 256, 128, 64, 1), (1, 1, 1, 1, 16)),
    "a row": ((64,), (1,), (16,)),
}
DOES_NOT: dict[str, tuple[Sizes, Sizes, Sizes, str]] = {
    "columns": ((64, 64), (1, 64), (8, 16), "InnerStrideNotOne"),
    "every other": ((64, 64), (128, 2), (8, 16), "InnerStrideNotOne"),
    "odd rows": ((64, 64), (65, 1), (8, 16), "StrideNotAligned"),
    "two odd rows": ((2, 64), (65, 1), (2, 16), "StrideNotAligned"),
    "backwards": ((64, 64), (-64, 1), (8, 16), "SizeOutOfRange"),
    "far apart": ((64, 64), (1 << 40, 1), (8, 16), "SizeOutOfRange"),
    "below nothing": ((-1, 64), (64, 1), (8, 16), "SizeOutOfRange"),
    "many rows": ((1 << 33, 64), (64, 1), (8, 16), "SizeOutOfRange"),
    "six dimensions": ((1,) * 6, (8,) * 5 + (1,), (1,) * 6, "DescriptorMismatch"),
    "no dimension": ((), (), (), "DescriptorMismatch"),
    "a stride too few": ((64, 64), (1,), (8, 16), "DescriptorMismatch"),
    "a block of a dimension less": ((64, 64), (64, 1), (16,), "DescriptorMismatch"),
}


def checked(shape: Sizes, strides: Sizes, block: Sizes) -> None:
    seen = arrays.view(np.zeros((64, 64), np.float16))
    check(seen, shape, strides, block)


@pytest.mark.parametrize("name", FITS)
def test_what_a_map_describes(name: str):
    checked(*FITS[name])


@pytest.mark.parametrize("name", DOES_NOT)
def test_what_no_map_describes(name: str):
    *sizes, kind = DOES_NOT[name]
    with pytest.raises(TawaError) as caught:
        checked(*sizes)
    assert type(caught.value).__name__ == kind


@pytest.mark.parametrize(
    ("given", "device"),
    [
        (SimpleNamespace(__dlpack_device__=lambda: (2, 3), device=SimpleNamespace(id=1)), 3),
        (SimpleNamespace(device=SimpleNamespace(id=1)), 1),
        (SimpleNamespace(device=SimpleNamespace()), 0),
        (SimpleNamespace(), 0),
    ],
)
def test_devices_of_arrays_with_an_interface(given: Any, device: int):
    assert arrays._cuda_device(given) == device


POINTED: dict[str, tuple[Any, int]] = {
    "tensors": (type("T", (), {"data_ptr": lambda self: 7, "__dlpack__": None}), 7),
    "of a GPU": (type("C", (), {"__cuda_array_interface__": {"data": (9, True)}}), 9),
}


@pytest.mark.parametrize("name", POINTED)
def test_addresses_are_read_the_fastest_way(name: str):
    made, address = POINTED[name]
    assert arrays.pointer_of(made()) == address
    assert arrays.pointer_of(made()) == address


def test_the_address_of_an_array_of_numpy():
    x = np.zeros(8, np.int16)
    assert arrays.pointer_of(x[3:]) == x.ctypes.data + 6


STANDS: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing but a type": ({"data_ptr": lambda: 0}, True),
    "an address": ({"data_ptr": lambda: 64}, False),
    "empty on a device": ({"data_ptr": lambda: 0, "get_device": lambda: 0}, False),
    "empty somewhere": ({"data_ptr": lambda: 0, "device": "cuda"}, False),
    "no tensor": ({}, False),
}


@pytest.mark.parametrize("name", STANDS)
def test_what_only_stands_for_an_array(name: str):
    fields, expected = STANDS[name]
    assert arrays.is_stand_in(SimpleNamespace(**fields)) is expected


@pytest.mark.parametrize(("fields", "known"), [("shape stride", True), ("shape", False),
                                               ("stride", False), ("", False)])  # fmt: skip
def test_what_says_how_far_it_reaches(fields: str, known: bool):
    assert arrays.has_extent(SimpleNamespace(**dict.fromkeys(fields.split(), 1))) is known


@pytest.mark.parametrize(
    ("strides", "expected"),
    [(None, (15, 5, 1)), ((120, 40, 8), (15, 5, 1)), ((8, 16, -8), (1, 2, -1))],
)
def test_an_interface_counts_bytes(strides: Any, expected: tuple[int, ...]):
    interface = {"data": (64, False), "shape": (2, 3, 5), "typestr": "<f8", "strides": strides}
    given = SimpleNamespace(__cuda_array_interface__=interface, dtype=np.dtype(np.float64))
    assert arrays.view(given) == (64, "f64", (2, 3, 5), expected, 0)
    for odd in ((120, 40, 4), (4, 40, 8)):
        interface["strides"] = odd
        with pytest.raises(arrays.StrideNotWhole, match="multiples of 8 bytes"):
            arrays.view(given)
