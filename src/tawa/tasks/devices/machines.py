"""Devices that do work in streams: those of the host, and NumPy arrays that stand for them.

Each device has a stream that computes and one that copies what comes to it. Work waits for the
events that it names, and for what was given to its stream before; nothing else orders it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tawa.runtime.peers import Peers
from tawa.tasks.devices.held import Event
from tawa.tasks.language.element_types import numpy_type, torch_type


@dataclass(eq=False)
class Work:
    """A piece of work of the simulated devices."""

    number: int
    stream: str
    text: str
    after: tuple[int, ...]
    do: Callable[[], None]

    def __str__(self) -> str:
        waits = f" after {', '.join(f'e{n}' for n in self.after)}" if self.after else ""
        return f"e{self.number} on {self.stream}: {self.text}{waits}"


@dataclass
class Simulated:
    """Devices of NumPy arrays. Work is done at the end, in any order that events and streams allow.

    So an event that is missing shows: arrays begin full of bits that are NaN.
    """

    seed: int = 0
    works: list[Work] = field(default_factory=list[Work])

    def empty(self, device: int, shape: Sequence[int], dtype: Any, *, zero: bool) -> Any:
        """A new array, of zeros or of what shows where it is read."""
        data: Any = np.zeros(tuple(shape), numpy_type(dtype))
        if not zero:
            data.reshape(-1).view(np.uint8)[:] = 0xFF
        return data

    def copy(
        self, source: Any, target: Any, devices: tuple[int, int], after: Sequence[Event], what: str
    ) -> Event:
        """Copy later."""

        def do() -> None:
            target[...] = source

        text = f"copy {what} from device {devices[0]} to device {devices[1]}"
        return self._add(f"copies to {devices[1]}", text, after, do)

    def launch(
        self, device: int, after: Sequence[Event], text: str, do: Callable[[], None]
    ) -> Event:
        """Launch kernels later."""
        return self._add(f"device {device}", text, after, do)

    def _add(self, stream: str, text: str, after: Sequence[Event], do: Callable[[], None]) -> Event:
        self.works.append(Work(len(self.works), stream, text, tuple(sorted({*after})), do))
        return len(self.works) - 1

    def finish(self) -> None:
        """Do the work, in an order that events and streams allow."""
        chance, done, left = random.Random(self.seed), set[int](), list(self.works)
        while left:
            heads = {work.stream: work for work in reversed(left)}
            ready = [work for work in heads.values() if done.issuperset(work.after)]
            work = chance.choice(sorted(ready, key=lambda one: one.number))
            work.do()
            done.add(work.number)
            left.remove(work)


@dataclass
class Gpus:
    """The host's GPUs, with PyTorch's tensors.

    A device computes in PyTorch's current stream, and copies in one of its own; at the end all
    devices' streams wait for all copies, so that memory is free in their order.
    """

    count: int
    works: list[Work] = field(default_factory=list[Work])

    @cached_property
    def peers(self) -> Peers:
        """The streams and events."""
        return Peers(self.count)

    def empty(self, device: int, shape: Sequence[int], dtype: Any, *, zero: bool) -> Any:
        """A new tensor, of zeros or of anything."""
        torch: Any = sys.modules["torch"]
        make = torch.zeros if zero else torch.empty
        tensor = make(tuple(shape), dtype=torch_type(dtype), device=f"cuda:{device}")
        self.peers.allocated(device)  # earlier work of the device may still use the memory
        return tensor

    def copy(
        self, source: Any, target: Any, devices: tuple[int, int], after: Sequence[Event], what: str
    ) -> Event:
        """Copy in the target's stream for copies."""
        return self.peers.copy(source, target, devices[1], after)

    def launch(
        self, device: int, after: Sequence[Event], text: str, do: Callable[[], None]
    ) -> Event:
        """Launch in the device's current stream."""
        self.peers.wait(device, after)
        do()
        return self.peers.mark(device)

    def finish(self) -> None:
        """Let the devices' streams wait for the copies."""
        self.peers.join()
