"""What a launch runs: a compiled kernel, loaded where the launch's arrays lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tawa.driver.host_launch import Launch, simulation
from tawa.driver.variants import Variants
from tawa.runtime import driver, launch
from tawa.runtime.arrays import HOST
from tawa.runtime.binding import BoundParameter, Guard, compile_guard, selected
from tawa.runtime.kinds import Kind
from tawa.runtime.streams import current_stream, is_capturing, stream_address
from tawa.runtime.timeline import active

if TYPE_CHECKING:
    from tawa.driver.compiled import Compiled

SIMULATOR = "simulator"
"""The device of a launch that the simulator runs."""


@dataclass(frozen=True)
class Entry:
    """What a call's key leads to: the compiled kernel, how to launch it, and on which device."""

    compiled: Compiled
    launch: Launch
    place: int = HOST
    guard: Guard | None = None
    """Takes a quick look at arrays of a launch, where the code takes some to be apart."""
    variants: Variants | None = None
    """Of a kernel that suits launches of other sizes better when compiled otherwise."""


@dataclass(frozen=True)
class Known:
    """What a kernel is launched by, as long as all that it names stands for the same."""

    digest: str
    unchanged: Callable[[], bool]
    entries: dict[tuple[Any, ...], Entry]


UNKNOWN = Known("", lambda: False, {})


def chip_of(kinds: Mapping[str, Kind]) -> str:
    """The name of the chip that a kernel is compiled for.

    That of the device where the arrays lie, or of the first device; the default without one.
    """
    devices = (kind.device for kind in kinds.values())
    return driver.chip(next((d for d in devices if d is not None and d != HOST), 0)).name


def place_of(kinds: Mapping[str, Kind], device: Any) -> int:
    """The device that a launch's arrays lie on, or `HOST`. Raises `WrongDevice`."""
    names = list(kinds)
    devices = [kind.device for kind in kinds.values()]
    found = [number for number, place in enumerate(devices) if place is not None]
    if device == SIMULATOR or not found:
        expected = HOST if device == SIMULATOR else 0
    else:
        expected = devices[found[0]]
    assert expected is not None
    for number in found:
        place = devices[number]
        assert place is not None
        launch.require_device(names, number, place, expected)
    return expected


def launch_of(compiled: Compiled, kinds: Mapping[str, Kind], place: int) -> Launch:
    """Load a compiled kernel on a device (or for the simulator): how to launch it."""
    select = selected(list(kinds), compiled.spec.arguments)
    if place == HOST:
        return simulation(compiled, select)
    launcher = launch.load(compiled.spec, compiled.cubin, place)
    library = next((kind.library for kind in kinds.values() if kind.device is not None), "")
    current = current_stream(library, place)

    def start(grid: Any, values: Sequence[Any], stream: Any) -> None:
        address = current() if stream is None else stream_address(stream)
        launcher(grid, values if select is None else select(values), address)

    def record(grid: Any, values: Sequence[Any], stream: Any) -> None:
        address = current() if stream is None else stream_address(stream)
        active().record(launcher, grid, values if select is None else select(values), address)

    return start if compiled.spec.timeline is None else record


def guard_of(
    compiled: Compiled, parameters: Sequence[BoundParameter], kinds: Mapping[str, Kind], place: int
) -> Guard | None:
    """What takes a quick look at a call's arrays; None where the code takes none to be apart.

    It can't say of parts of tuples, nor of arrays that the simulator is given.
    """
    pairs, own = compiled.spec.apart, {parameter.name for parameter in parameters}
    named = [*pairs, *compiled.spec.alike]
    if not pairs:
        return None
    if place == HOST or any(name not in own for names in named for name in names):
        return lambda values, given: None
    return compile_guard(parameters, pairs, kinds, compiled.spec.entry, compiled.spec.alike)


def captures_of(kinds: Mapping[str, Kind], place: int) -> Callable[[Any], bool]:
    """A function that says of a launch's stream whether it is being captured in a graph."""
    if place == HOST:
        return lambda stream: False
    library = next((kind.library for kind in kinds.values() if kind.device is not None), "")
    current = current_stream(library, place)
    return lambda stream: is_capturing(current() if stream is None else stream_address(stream))
