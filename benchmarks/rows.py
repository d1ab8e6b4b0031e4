"""Benchmark rows: what was measured, where, with which versions; one JSON object a line."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tawa.runtime import driver, nvrtc
from tawa.runtime.timing import Timing

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("torch", "triton", "nvidia-cublas", "cuda-bindings", "xdsl", "numpy")


class Run:
    """One run of one suite on one device; its rows share an identifier.

    Rows are appended to `<folder>/<suite>.jsonl` and kept in `rows`.
    """

    def __init__(self, suite: str, folder: Path | None = None, device: int = 0) -> None:
        self.suite = suite
        self.folder = folder or RESULTS
        self.rows: list[dict[str, Any]] = []
        self.sampler = Sampler(device)
        self._shared = {
            "run": f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}",
            "suite": suite,
            "device": driver.device(device).name,
            "commit": commit(),
            "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "versions": versions(),
        }

    def add(self, case: dict[str, Any], impl: str, timing: Timing | None, **more: Any) -> None:
        """Write one row; `timing` is in milliseconds, None for a case that could not be measured.

        `flops` and `bytes`, where given, become `tflops` and `gbps`.
        """
        row: dict[str, Any] = {**self._shared, "case": case, "impl": impl}
        flops, count = more.pop("flops", None), more.pop("bytes", None)
        if timing is not None:
            row |= {
                "ms": round(timing.median, 6),
                "ms_min": round(min(timing.times), 6),
                "ms_max": round(max(timing.times), 6),
                "reps": len(timing.times),
            }
            if flops is not None:
                row["tflops"] = round(flops / timing.median / 1e9, 2)
            if count is not None:
                row["gbps"] = round(count / timing.median / 1e6, 1)
        row |= {key: value for key, value in more.items() if value is not None}
        self.rows.append(row)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{self.suite}.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")


class Sampler:
    """Reads the device's clock and power in the background, while one contender runs."""

    PERIOD = 0.02

    def __init__(self, device: int) -> None:
        self._samples: dict[str, list[tuple[float, float]]] = {}
        self._label: str | None = None
        self._handle = _nvml_handle(device)

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Sample inside this context."""
        stop = threading.Event()
        thread = threading.Thread(target=self._loop, args=(stop,), daemon=True)
        if self._handle is not None:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            if self._handle is not None:
                thread.join()
            self._label = None

    def turn(self, label: str) -> None:
        """From now on samples belong to `label`."""
        self._label = label

    def readings(self, label: str) -> dict[str, float]:
        """Median SM clock (MHz) and power (W) while `label` ran; removes its samples."""
        samples = self._samples.pop(label, [])
        if not samples:
            return {}
        clocks, powers = zip(*samples, strict=True)
        return {
            "clock_mhz": round(statistics.median(clocks)),
            "power_w": round(statistics.median(powers)),
        }

    def _loop(self, stop: threading.Event) -> None:
        import pynvml

        while not stop.wait(self.PERIOD):
            label = self._label
            if label is not None:
                clock = pynvml.nvmlDeviceGetClockInfo(self._handle, pynvml.NVML_CLOCK_SM)
                power = pynvml.nvmlDeviceGetPowerUsage(self._handle) / 1e3
                self._samples.setdefault(label, []).append((clock, power))


def _nvml_handle(device: int) -> Any:
    """NVML's handle of a device; None without the package `nvidia-ml-py` or its library."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByIndex(device)
    except Exception as error:
        print(f"no clock and power readings: {error}")
        return None


@cache
def commit() -> str:
    """The checked-out commit, with `+` if files differ from it; `TAWA_COMMIT` goes first."""
    if found := os.environ.get("TAWA_COMMIT"):
        return found
    root = Path(__file__).parents[1]
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no", "src", "benchmarks")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def versions() -> dict[str, str]:
    """Versions of the driver, the compiler and the packages that take part."""
    found = {"nvrtc": nvrtc.version(), "driver": str(driver.checked("cuDriverGetVersion"))}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def seconds_since(start: float) -> str:
    """Time since `start` (`time.perf_counter`), for progress lines."""
    return f"{time.perf_counter() - start:.1f} s"
