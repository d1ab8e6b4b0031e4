"""Calls of the CUDA driver, against one that stands for it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tawa.runtime import driver
from tawa.runtime.driver import Device, DriverFailure, NoDevice, WrongArchitecture


class Driver(SimpleNamespace):
    """Two devices; some calls fail."""

    def __init__(self, status: int = 0) -> None:
        self.status, self.began, self.asked = status, [], []
        self.CUdevice_attribute = SimpleNamespace(
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="count",
        )
        self.CUresult = int

    def cuInit(self, flags: int) -> tuple[int]:
        self.began.append(flags)
        return (self.status,)

    def cuDeviceGetCount(self) -> tuple[int, int]:
        return 0, 2

    def cuDeviceGet(self, index: int) -> tuple[int, str]:
        return 0, f"handle {index}"

    def cuDeviceGetName(self, size: int, handle: str) -> tuple[int, bytes]:
        return 0, b"a chip\0\0"

    def cuDeviceGetAttribute(self, name: str, handle: str) -> tuple[int, int]:
        self.asked.append(handle)
        return 0, {"major": 9, "minor": 0, "count": 132}[name]

    def cuDevicePrimaryCtxRetain(self, handle: str) -> tuple[int, int]:
        return 0, 77

    def cuGetErrorName(self, code: int) -> tuple[int, bytes | None]:
        return 0, None if code == 999 else b"BAD"

    def cuGetErrorString(self, code: int) -> tuple[int, bytes | None]:
        return 0, None if code == 998 else b"it is bad"

    def nothing(self) -> tuple[int]:
        return (0,)

    def first_of_two(self, a: int, b: int) -> tuple[int, int, int]:
        return 0, a, b

    def failing(self) -> tuple[int]:
        return (7,)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    found = Driver()
    monkeypatch.setattr(driver, "bindings", lambda: found)
    for name in ("device_count", "device"):
        getattr(driver, name).cache_clear()
    yield found
    for name in ("device_count", "device"):
        getattr(driver, name).cache_clear()


def test_what_a_call_gives(fake: Driver) -> None:
    assert driver.checked("nothing") is None
    assert driver.checked("first_of_two", 3, 4) == 3
    with pytest.raises(DriverFailure, match="failing failed") as caught:
        driver.checked("failing")
    assert caught.value.found == "BAD (it is bad)"


def test_codes_without_a_description(fake: Driver) -> None:
    assert driver.describe_status(3) == "BAD (it is bad)"
    assert driver.describe_status(999) == "error 999"
    assert driver.describe_status(998) == "error 998"


def test_devices(fake: Driver) -> None:
    assert driver.device_count() == 2
    found = driver.device(1)
    assert (found.index, found.capability, found.multiprocessors) == (1, (9, 0), 132)
    assert found.context == 77
    assert set(fake.asked) == {"handle 1"}
    assert driver.device(0).index == 0
    with pytest.raises(NoDevice, match="no CUDA device 2") as caught:
        driver.device(2)
    assert caught.value.found == "2 devices"


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise NoDevice("the CUDA driver can't be loaded")

    monkeypatch.setattr(driver, "bindings", missing)
    driver.device_count.cache_clear()
    assert driver.device_count() == 0
    driver.device_count.cache_clear()


@pytest.mark.parametrize(("status", "works"), [(0, True), (100, False)])
def test_a_driver_is_initialised_once(
    monkeypatch: pytest.MonkeyPatch, status: int, works: bool
) -> None:
    module = Driver(status)
    monkeypatch.setattr(driver, "import_module", lambda name: module)
    load = driver.bindings.__wrapped__
    if works:
        assert load() is module
    else:
        with pytest.raises(NoDevice, match="finds no device") as caught:
            load()
        assert caught.value.found == "100"
    assert module.began == [0]


@pytest.mark.parametrize("error", [ImportError, RuntimeError, OSError])
def test_a_driver_that_can_not_be_loaded(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(name: str) -> Any:
        raise error("no such library")

    monkeypatch.setattr(driver, "import_module", fail)
    with pytest.raises(NoDevice, match="can't be loaded") as caught:
        driver.bindings.__wrapped__()
    assert caught.value.found == "no such library"


@pytest.mark.parametrize(
    ("capability", "target", "runs"),
    [((9, 0), "sm_90a", True), ((9, 0), "sm_90", True), ((9, 0), "sm_100a", False),
     ((10, 0), "sm_100f", True), ((8, 9), "sm_90a", False), ((9, 1), "sm_90a", False)],
)  # fmt: skip
def test_what_runs_on_a_device(capability: tuple[int, int], target: str, runs: bool) -> None:
    device = Device(0, "a chip", capability, 132, 0)
    if runs:
        device.require(target)
    else:
        with pytest.raises(WrongArchitecture, match=f"a kernel for {target}"):
            device.require(target)
