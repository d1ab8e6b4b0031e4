"""One population of particles on several devices of a host, with the bits of one device.

Each device has a share of the particles. Devices wait for each other between the kernels of a step
(`shares.cuh`), and read of the others what children need of their parents. The host looks at the
control blocks after a batch of steps, as for one device; when a share needs room, all stop, and all
get as many rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tawa.cuppl.cpu.memory import Image
from tawa.cuppl.gpu.device import Device
from tawa.cuppl.gpu.smc import (
    BATCH,
    CONTROLS,
    DEEP,
    FIRST,
    OLD_ROWS,
    OUTCOME,
    POOL_FULL,
    POOL_WORDS,
    SHALLOW,
    SHARE_SIZE,
    SHARES,
    SPILL_WORDS,
    SPILLERS,
    WAITS,
    WHOLE,
    GpuMemory,
    GpuRun,
    first_failure,
)
from tawa.cuppl.inference.settings import Limits
from tawa.cuppl.inference.smc import SmcRun
from tawa.cuppl.lowering.pipeline import Lowered
from tawa.cuppl.natives import control as k
from tawa.cuppl.typing.errors import UnsupportedMethod
from tawa.cuppl.typing.failures import ALL_ZERO, DEPTH, STACK_FULL

__all__ = ["SharedDevice", "Shares", "run_on_gpus"]


class SharedDevice(Device, Protocol):
    """A device that others wait for."""

    def use(self) -> None:
        """Make this the device of the calls that follow."""
        ...

    def mark(self) -> Any:
        """An event after all that was launched so far."""
        ...

    def wait(self, event: Any) -> None:
        """Let what is launched from now on come after another device's event."""
        ...


@dataclass(slots=True)
class Share(GpuMemory):
    """What one device has of the particles."""

    first: int = 0
    all_particles: int = 0
    size: int = 0
    """Particles of each share, but for the last."""

    @property
    def whole(self) -> int:
        """Particles of all shares."""
        return self.all_particles

    @property
    def most(self) -> int:
        """Particles of the largest share."""
        return self.size

    def start_machine(self) -> None:
        """Memory of a share: no pool, since a parent's words may be on another device."""
        c = self.control
        c[FIRST], c[WHOLE], c[SHARE_SIZE] = self.first, self.all_particles, self.size
        GpuMemory.start_machine(self)
        c[POOL_WORDS] = c[POOL_WORDS + 1] = 0

    def stops(self) -> int:
        """What particles wait for, after those that found no large stack have run."""
        c = self.control
        waits = int(c[WAITS])
        if not waits and c[DEEP]:
            waits = self.run_deep()
        if waits >> DEPTH & 1 and not waits >> STACK_FULL & 1:
            raise self.error(DEPTH)
        return waits

    def rows_wanted(self) -> int:
        """Rows that those need whose words do not fit."""
        c = self.control
        return max(1, math.ceil(int(c[SPILL_WORDS]) / max(1, int(c[SPILLERS]))) - 1)

    def widen(self, more: int) -> None:
        """More rows, of which nothing is in use yet."""
        self.control[OLD_ROWS] = self.rows
        self.add_rows(more)
        self.device.write(self.address, self.control)


@dataclass(slots=True)
class Shares:
    """The shares of one run."""

    shares: list[Share]
    devices: list[SharedDevice]

    @staticmethod
    def of(
        devices: Sequence[SharedDevice], lowered: Lowered, image: Image, particles: int, seed: int,
        threshold: float, limits: Limits,
    ) -> Shares:  # fmt: skip
        """As many particles for each device, but for the last."""
        size = -(-particles // len(devices))
        count = -(-particles // size)
        shares = [
            Share(
                device, lowered, image, min(size, particles - at * size), seed, threshold, limits,
                first=at * size, all_particles=particles, size=size,
            )
            for at, device in enumerate(devices[:count])
        ]  # fmt: skip
        if shares[0].allocates():
            raise UnsupportedMethod(
                "particles with objects on the heap stay on one device",
                expected="a program whose particles hold numbers", hint="leave `devices` out",
            )  # fmt: skip
        return Shares(shares, list(devices[:count]))

    def start(self) -> None:
        """Everything before the first step."""
        for share, device in zip(self.shares, self.devices, strict=True):
            device.use()
            share.start()
        controls = np.array([share.address for share in self.shares], dtype=np.int64)
        for share, device in zip(self.shares, self.devices, strict=True):
            device.use()
            share.control[CONTROLS] = share.own_array("controls", controls)
            share.control[SHARES] = len(self.shares)
            device.write(share.address, share.control)

    def launch(self, name: str, argument: int = 0) -> None:
        """A kernel on all devices, on as many blocks as run at once."""
        for share, device in zip(self.shares, self.devices, strict=True):
            device.use()
            lanes = share.lanes[SHALLOW] // device.block
            blocks = lanes if name == "advance" else share.grid(name)
            blocks = 1 if name in ("decide_share", "turn_share") else blocks
            device.launch([(name, blocks, argument)], share.address)

    def meet(self) -> None:
        """Let all devices wait for all."""
        events: list[Any] = []
        for device in self.devices:
            device.use()
            events.append(device.mark())
        for device, own in zip(self.devices, events, strict=True):
            device.use()
            for event in events:
                if event is not own:
                    device.wait(event)

    def step(self) -> None:
        """Launch what makes one step."""
        share = self.shares[0]
        self.launch("advance")
        self.meet()
        self.launch("weigh_share")
        self.meet()
        self.launch("decide_share")
        self.launch("count_share")
        for number in range(-(-share.rows // share.free_rows)):
            self.meet()
            self.launch("copy_share", number)
        self.launch("turn_share")

    def look(self) -> None:
        """Read all control blocks. Raises what a share failed with."""
        for share, device in zip(self.shares, self.devices, strict=True):
            device.use()
            device.read(share.address, share.control)
        for share, device in zip(self.shares, self.devices, strict=True):
            device.use()
            failed = first_failure(share.control)
            if failed:
                share.control[k.FAILED_PARTICLE] += share.first
                raise share.error(failed)

    def close(self) -> None:
        """Give the memory of all shares back."""
        for share, device in zip(self.shares, self.devices, strict=True):
            device.use()
            for address, _ in share.owned.values():
                device.free(address)
            share.owned.clear()
        self.devices[0].use()

    def make_room(self) -> None:
        """Give all shares the rows that some need, and stacks to those that need them."""
        more = 0
        for share, device in zip(self.shares, self.devices, strict=True):
            device.use()
            waits = share.stops()
            if waits >> STACK_FULL & 1:
                share.grow_stacks()
            if waits >> POOL_FULL & 1:
                more = max(more, share.rows_wanted())
        for share, device in zip(self.shares, self.devices, strict=True):
            device.use()
            if more:
                share.widen(more)
            share.resume()

    def run(self) -> GpuRun:
        """Run to the end, and give all memory back."""
        try:
            return self.run_open()
        finally:
            self.close()

    def run_open(self) -> GpuRun:
        """Run to the end."""
        self.start()
        for device in self.devices:
            device.use()
            device.synchronize()
        begin = time.perf_counter()
        while True:
            for _ in range(BATCH):
                self.step()
            self.look()
            outcome = int(self.shares[0].control[OUTCOME])
            if outcome == k.DEAD:
                self.devices[0].use()
                raise self.shares[0].error(ALL_ZERO)
            if outcome == k.FINISHED:
                return self.finish(time.perf_counter() - begin)
            if outcome == k.NEED_ROOM:
                self.make_room()

    def finish(self, seconds: float) -> GpuRun:
        """Results and evidence of all shares together."""
        logw, rows, firsts = list[Any](), list[Any](), list[Any]()
        for share, device in zip(self.shares, self.devices, strict=True):
            device.use()
            weights = np.empty(share.particles)
            device.read(share.owned["logw"][0], weights)
            found, first = share.result_rows()
            logw.append(weights)
            rows.append(found)
            firsts.append(first)
        one, all_weights = self.shares[0], np.concatenate(logw)
        c, heap = one.control, np.empty(1, dtype=np.int64)
        run = SmcRun(
            np.concatenate(rows, axis=1), all_weights, one.evidence(all_weights),
            np.concatenate(firsts), int(c[k.RESAMPLED]), int(c[k.STEP]), [heap],
        )  # fmt: skip
        sizes = {
            f"{name} of {at}": size
            for at, share in enumerate(self.shares)
            for name, (_, size) in share.owned.items()
        }
        peak = sum(share.peak for share in self.shares)
        return GpuRun(run, heap, 0, peak, seconds, one.rows, sizes)


def run_on_gpus(
    devices: Sequence[SharedDevice], lowered: Lowered, image: Image, particles: int, seed: int,
    threshold: float, limits: Limits,
) -> GpuRun:  # fmt: skip
    """Run a lowered program (with explicit recursion) that stops at weights, on some devices."""
    return Shares.of(devices, lowered, image, particles, seed, threshold, limits).run()
