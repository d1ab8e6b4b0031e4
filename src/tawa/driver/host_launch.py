"""Launches on NumPy arrays: the tile simulator runs what the compiler made of a kernel.

The simulator runs the tile level, the program's meaning, so it needs nothing of the levels below.
A kernel whose later stages fail (a block that is loaded after it was stored, a tile no
multiprocessor holds, a machine without NVRTC) runs all the same, and a warning says once why no
GPU would run it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tawa.base.errors import TawaError
from tawa.base.kernel_spec import KernelSpec
from tawa.base.options import Options, RequestUnmet
from tawa.base.user_frames import stack_level
from tawa.ir.decisions.assembling import OnlySimulated
from tawa.machine.chips import DEFAULT
from tawa.runtime import launch
from tawa.runtime.arrays import host_array
from tawa.runtime.descriptor import TensorDescriptor
from tawa.runtime.recorded import simulated
from tawa.runtime.timeline import active

if TYPE_CHECKING:
    from tawa.driver.compiled import Compiled
    from tawa.frontend.source.function import JITFunction

Launch = Callable[[Any, Sequence[Any], Any], None]
"""Runs a compiled kernel for a grid, the launch values of all run-time parameters, and a stream."""

STORAGE = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""NumPy's own type in which the simulator holds elements that NumPy itself does not have."""


class SimulatedOnly(UserWarning):
    """A kernel that runs on NumPy arrays in the simulator does not compile for a GPU."""


def compile_for_host(
    fn: JITFunction,
    types: Mapping[str, str],
    constants: Mapping[str, object],
    options: Options,
    compile_: Callable[[], Compiled],
) -> Compiled:
    """The compiled kernel; its tile stage alone, with a warning, if only that can be made.

    Raises what the compiler raises for a kernel that is wrong, for options that were asked for
    and cannot be met, and for bugs of its own.
    """
    from tawa.driver.compilation import PassFailed

    try:
        return compile_()
    except (RequestUnmet, PassFailed):
        raise
    except TawaError as error:
        found = _tile_stage(fn, types, constants, options)
        if found is None:
            raise
        why = f"`{fn.__name__}` runs on NumPy arrays only: it does not compile for {options.target}"
        warnings.warn(f"{why}\n{error.render()}", SimulatedOnly, stacklevel=stack_level())
        return replace(found, decisions=(OnlySimulated(why, error.message),))


def _tile_stage(
    fn: JITFunction, types: Mapping[str, str], constants: Mapping[str, object], options: Options
) -> Compiled | None:
    """What can be run of a kernel that does not compile; None if that is nothing."""
    from tawa.driver.compilation import Compilation
    from tawa.driver.compiled import Compiled, text_of
    from tawa.driver.compiler import tile_level

    try:
        module = tile_level(Compilation(options), fn, types, constants)
    except TawaError:
        return None
    spec = KernelSpec(fn.__name__, 32, 0, (), tuple(types))
    return Compiled(fn.__name__, {"tile": text_of(module)}, spec, "")


def simulation(
    compiled: Compiled, select: Callable[[Sequence[Any]], tuple[Any, ...]] | None
) -> Launch:
    """How to run a compiled kernel in the simulator: at the tile level, the program's meaning."""
    from tawa.simulate.interpret.tile import run

    module = compiled.module("tile")

    def start(grid: Any, values: Sequence[Any], stream: Any) -> None:
        sizes = launch.grid_sizes(grid)
        chosen = [stored(v) for v in (values if select is None else select(values))]
        if compiled.spec.timeline is not None:
            record(compiled, sizes, chosen)
        run(module, sizes, chosen)

    return start


def record(compiled: Compiled, sizes: tuple[int, ...], values: Sequence[Any]) -> None:
    """Give the timeline of the block that this is in the times of the simulator's replay."""
    from tawa.driver.prediction.launches import predict

    timeline = active()
    found = predict(compiled, sizes, values, None, DEFAULT, timeline=True)
    assert found.first is not None
    timeline.add(simulated(compiled.spec, sizes, found.first.stamps, found.clock_ghz))


def stored(value: Any) -> Any:
    """An argument as the simulator takes it: the same memory, in NumPy's own types."""
    if isinstance(value, TensorDescriptor):
        from tawa.simulate.interpret.tile import HostDescriptor

        base = host_array(value.base) if hasattr(value.base, "data_ptr") else value.base
        return HostDescriptor(stored(base), value.shape, value.strides, value.padding)
    name = STORAGE.get(getattr(getattr(value, "dtype", None), "name", ""))
    return value if name is None else value.view(name)
