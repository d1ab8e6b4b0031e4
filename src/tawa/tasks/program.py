"""A compiled program of tasks: traced once for arguments that lie alike, run for many sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from tawa.base.user_frames import entries, users_place
from tawa.driver.inspection.products import matrix_instructions
from tawa.driver.inspection.tile_programs import run_tile_module, tile_module
from tawa.driver.jit import Kernel
from tawa.language import dtypes
from tawa.runtime.arrays import ELEMENT_BYTES, HOST, is_array, view
from tawa.runtime.descriptor import TensorDescriptor
from tawa.tasks.graph import events
from tawa.tasks.graph.copies import eliminate
from tawa.tasks.graph.ir import TaskProgram
from tawa.tasks.graph.reductions import place_reductions
from tawa.tasks.graph.tracing import trace
from tawa.tasks.language.arguments import checked_kinds
from tawa.tasks.language.defaults import Resolved, resolve_entry
from tawa.tasks.language.element_types import (
    number_type,
    numpy_type,
    storage_type,
    torch_type,
    type_name,
)
from tawa.tasks.language.errors import SharedCapTooSmall
from tawa.tasks.language.mapping import EMPTY, Mapping
from tawa.tasks.language.offsets import check_offsets
from tawa.tasks.language.record_checks import check_records
from tawa.tasks.language.sizes import Known, Number, Size, elements_of, value
from tawa.tasks.language.task import Task
from tawa.tasks.language.tensors import Buffer
from tawa.tasks.lowering.ends import StrayCounts, check_ends
from tawa.tasks.lowering.generated import function_of
from tawa.tasks.lowering.grids import sizes_in
from tawa.tasks.lowering.groups import share_loops
from tawa.tasks.lowering.kernel_text import Described, KernelText, Stride
from tawa.tasks.lowering.layouts import check_layouts
from tawa.tasks.lowering.lies import Lie, lie_of
from tawa.tasks.lowering.places import places_of
from tawa.tasks.lowering.schedule import HostLoop, Launch, Step, schedule

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tawa.simulate import LaunchPrediction


@entries
@dataclass(eq=False)
class CompiledTasks:
    """What a task's call runs: stages to look at, and kernels in order.

    `stages` has `tasks` (the program with every copy that launches make), `copies` (with those that
    are left), `events` (what waits for what) and a text for each kernel.
    """

    task: Task
    mapping: Mapping
    program: TaskProgram
    known: Known
    stages: dict[str, str]
    steps: list[Step]
    graph: list[events.Event]
    kernels: dict[int, Kernel] = field(default_factory=dict[int, Kernel])
    modules: dict[Any, ModuleOp] = field(default_factory=dict[Any, "ModuleOp"])

    @property
    def launches(self) -> list[Launch]:
        """The launches of kernels in the program, each once."""
        return list(_launches(self.steps))

    def svg(self) -> str:
        """The event graph as a picture."""
        return events.svg(self.graph)

    def run(self, args: Sequence[Any]) -> None:
        """Run the kernels, on the device where the arrays lie or for NumPy's in the simulator."""
        values, arrays = self._values(args), self.arrays(args)
        for launch, now in in_order(self.steps, values):
            grid = prod(value(e, now) for e in launch.kernel.grid)
            if grid > 0:
                kernel = self.kernel(launch)
                given = [given_for(p, arrays, now) for p in launch.kernel.parameters.values()]
                with places_of(launch.kernel):
                    kernel[(grid,)](*given, **self.options(launch, kernel, given))

    def simulate(self, args: Sequence[Any]) -> None:
        """Run the kernels' tile level on NumPy arrays: nothing below it is compiled."""
        values = self._values(args)
        arrays = {name: storage_type(a) for name, a in self.arrays(args).items()}
        for launch, now in in_order(self.steps, values):
            grid = prod(value(e, now) for e in launch.kernel.grid)
            if grid > 0:
                given = [given_for(p, arrays, now) for p in launch.kernel.parameters.values()]
                self.run_tile_level(launch, grid, given, now)

    def run_tile_level(
        self, launch: Launch, grid: int, given: Sequence[Any], now: dict[str, Any]
    ) -> None:
        """Run one launch's tile level."""
        with places_of(launch.kernel):
            module = self.tile_level(launch, now)
        run_tile_module(module, grid, given)

    def predict(self, *args: Any) -> list[LaunchPrediction]:
        """How long each launch of a call would take, by the timing model; needs no device."""
        values, arrays, found = self._values(args), self.arrays(args), list[Any]()
        for launch, now in in_order(self.steps, values):
            grid = prod(value(e, now) for e in launch.kernel.grid)
            if grid > 0:
                kernel = self.kernel(launch)
                given = [given_for(p, arrays, now) for p in launch.kernel.parameters.values()]
                with places_of(launch.kernel):
                    options = self.options(launch, kernel, given)
                    found.append(kernel.predict(*given, grid=(grid,), **options))
        return found

    def kernel(self, launch: Launch) -> Kernel:
        """The kernel of a launch, as `tawa.jit` makes them."""
        found = self.kernels.get(id(launch))
        if found is None:
            text = launch.kernel
            found = Kernel(function_of(text.name, text.text, text.leaves))
            self.kernels[id(launch)] = found
        return found

    def arguments(self, launch: Launch, args: Sequence[Any]) -> list[Any]:
        """What a kernel's parameters are given for a call; of a loop's launches, in the first."""
        arrays = self.arrays(args)
        for found, now in in_order(self.steps, self._values(args)):
            if found is launch:
                return [given_for(p, arrays, now) for p in launch.kernel.parameters.values()]
        return []

    def check_ends(self, launch: Launch) -> None:
        """Raises `PastTheEnd`, `StrayCounts`."""
        with places_of(launch.kernel):
            check_ends(launch.kernel, self.tile_level(launch, self.known.values), self.known)

    def forget(self, launch: Launch) -> None:
        """Drop what was made of a launch's kernel: it has another now."""
        self.kernels.pop(id(launch), None)
        self.modules = {k: m for k, m in self.modules.items() if k[0] != id(launch)}

    def tile_level(self, launch: Launch, values: dict[str, Any]) -> ModuleOp:
        """A kernel's first level, for numbers of the types of these values."""
        types = self._signature(launch.kernel, values)
        key = id(launch), tuple(types.values())
        if key not in self.modules:
            self.modules[key] = tile_module(self.kernel(launch), types)
        return self.modules[key]

    def _signature(self, kernel: KernelText, values: dict[str, Any]) -> dict[str, str]:
        types: dict[str, str] = {}
        for name, parameter in kernel.parameters.items():
            if isinstance(parameter, Buffer):
                types[name] = f"*{type_name(parameter.dtype)}"
            elif isinstance(parameter, Described):
                block = "x".join(map(str, parameter.block))
                types[name] = f"desc<{type_name(parameter.buffer.dtype)},{block}>"
            elif isinstance(parameter, Stride):
                types[name] = "i64"
            else:
                types[name] = number_type(values.get(parameter, 0))
        return types

    def options(self, launch: Launch, kernel: Kernel, given: Sequence[Any]) -> dict[str, Any]:
        """A launch's options; with a cap, fewer slots where they do not fit and none were asked."""
        options = dict(launch.options)
        shared = launch.kernel.one_tensor
        if shared:
            options["may_overlap"] = (*options.get("may_overlap", ()), *shared)
        options = self._capped(launch, kernel, given, options)
        if self.program.required or any(call.shares for call in launch.shared):
            found = kernel.compile(*given, **options)
            made = matrix_instructions(found.module("hopper"))
            check_layouts(made, launch.shared, self.program.required)
        return options

    def _capped(
        self, launch: Launch, kernel: Kernel, given: Sequence[Any], options: dict[str, Any]
    ) -> dict[str, Any]:
        """Options with as many slots as fit under the mapping's cap. Raises `SharedCapTooSmall`."""
        if launch.cap is None:
            return options
        while True:
            found = kernel.compile(*given, **options)
            used = found.spec.shared_bytes
            if used <= launch.cap:
                return options
            slots = options.get("num_stages", 4)
            if "num_stages" in launch.options or slots == 1:
                raise SharedCapTooSmall(
                    f"`{launch.kernel.name}` needs more shared memory than its cap",
                    span=launch.kernel.scope.instance.record.span,
                    expected=f"at most {launch.cap} bytes",
                    found=f"{used} bytes with {slots} slots a ring",
                    hint="use smaller tiles, or a smaller pipeline",
                    notes=["in the task tree: " + " > ".join(launch.kernel.scope.instance.path)],
                )
            options["num_stages"] = slots - 1

    def _values(self, args: Sequence[Any]) -> dict[str, Any]:
        return values_of(self.task, args)

    def arrays(self, args: Sequence[Any]) -> dict[str, Any]:
        """Arrays by buffer's name: the arguments, and tensors that the device makes."""
        named = dict(zip(self.task.parameters, args, strict=True))
        arrays = {name: named[name] for name in self.program.arguments}
        values = self._values(args)
        first = next(iter(arrays.values()))
        for buffer in self.program.made:
            if buffer.memory == "global":
                shape = tuple(int(value(size, values)) for size in buffer.shape)
                arrays[buffer.name] = empty(first, shape, buffer.dtype)
        self._check_offsets(arrays, values)
        return arrays

    def _check_offsets(self, arrays: dict[str, Any], values: dict[str, Any]) -> None:
        """Look at offsets that the host has. Raises `BadOffsets`."""
        for name, most in self.offsets.items():
            if self.program.arguments.get(name) and view(arrays[name]).device == HOST:
                check_offsets(name, storage_type(arrays[name]), int(value(most, values)), None)

    @cached_property
    def offsets(self) -> dict[str, Number]:
        """The tensors whose elements are offsets, and what these are at most."""
        return {
            element.name: element.right
            for launch in self.launches
            for size in sizes_in(launch.kernel.scope)
            for element in elements_of(size)
        }


def _launches(steps: Sequence[Step]) -> Iterator[Launch]:
    for step in steps:
        if isinstance(step, Launch):
            yield step
        else:
            yield from _launches(step.steps)


def in_order(
    steps: Sequence[Step], values: dict[str, Any]
) -> Iterator[tuple[Launch, dict[str, Any]]]:
    """Launches in order, each with the values of the loops around it."""
    for step in steps:
        if isinstance(step, Launch):
            yield step, values
            continue
        assert isinstance(step, HostLoop)
        extents = [range(value(extent, values)) for extent in step.loop.extents]
        for index in product(*extents):
            yield from in_order(
                step.steps, values | dict(zip(step.loop.indices, index, strict=True))
            )


def given_for(parameter: Any, arrays: dict[str, Any], values: dict[str, Any]) -> Any:
    """What a kernel's parameter is given at a launch."""
    if isinstance(parameter, Buffer):
        return arrays[parameter.name]
    if isinstance(parameter, Described):
        array = arrays[parameter.buffer.name]
        found = view(array)
        order = slice(None, None, -1) if parameter.turned else slice(None)
        return TensorDescriptor(
            array, list(found.shape[order]), list(found.strides[order]), list(parameter.block)
        )
    if isinstance(parameter, Stride):
        return view(arrays[parameter.buffer.name]).strides[parameter.dimension]
    return values[parameter]


def values_of(task: Task, args: Sequence[Any]) -> dict[str, Any]:
    """A launch's sizes and numbers by name."""
    values: dict[str, Any] = {}
    for name, arg in zip(task.parameters, args, strict=True):
        if name in task.privileges:
            values |= {f"{name}_size{d}": int(size) for d, size in enumerate(arg.shape)}
        elif isinstance(arg, int | float) and not isinstance(arg, bool):
            values[name] = arg
    return values


def empty(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of the library and on the device of `like`."""
    if hasattr(like, "new_empty"):
        return like.new_empty(shape, dtype=torch_type(dtype))
    if view(like).device == HOST:
        import numpy as np

        return np.empty(shape, numpy_type(dtype))
    return like.__array_namespace__().empty(shape, dtype=_long_name(dtype))


def _long_name(dtype: Any) -> str:
    name = type_name(dtype)
    longer = {"f": "float", "i": "int", "u": "uint", "b": "bfloat"}
    return longer[name[0]] + name.lstrip("bfiu")


_programs: dict[Any, list[CompiledTasks]] = {}


def program_for(
    task: Task, args: Sequence[Any], mapping: Mapping | None, entry: Resolved | None = None
) -> CompiledTasks:
    """The program of a call, compiled if none fits. Raises whatever is wrong with it.

    `entry` is the instance that runs, if the mapping does not say it: one that a node launches.
    """
    mapping = mapping or EMPTY
    span = users_place()
    known, own, lies = Known({}), list[Any](), dict[str, Lie]()
    key: list[Any] = [task, tuple(task.variants), mapping.key, entry and entry.path]
    for name, arg in zip(task.parameters, args, strict=False):
        if is_array(arg):
            found = view(arg, f"`{name}`")
            pointer = 0 if found.device == HOST else found.pointer
            size = ELEMENT_BYTES[found.element_type]
            lies[name] = lie_of(pointer, found.shape, found.strides, size)
            sizes = tuple(Size(known, "name", f"{name}_size{d}") for d in range(len(found.shape)))
            own.append(Buffer(name, sizes, dtypes.dtype_named(found.element_type)))
            key.append((found.element_type, len(found.shape), lies[name]))
        elif isinstance(arg, int | float) and not isinstance(arg, bool):
            known.scalars.add(name)
            own.append(Size(known, "name", name))
            key.append(type(arg))
        else:
            own.append(arg)
            key.append(arg)
    given = (o if isinstance(o, Buffer) else a for o, a in zip(own, args, strict=False))
    checked_kinds(task, (*given, *args[len(own) :]), span)
    values = values_of(task, args)
    programs = _programs.setdefault(tuple(key), [])
    for program in programs:
        if all(guard.admits(values) for guard in program.known.guards.values()):
            return program
    known.values = values
    programs.append(
        _compiled(
            task, own, mapping, known, lies, entry or resolve_entry(task, mapping, span), span
        )
    )
    return programs[-1]


def _compiled(
    task: Task,
    own: list[Any],
    mapping: Mapping,
    known: Known,
    lies: dict[str, Lie],
    entry: Resolved,
    span: Any,
) -> CompiledTasks:
    program = trace(entry, own, mapping, known, span)
    check_records(mapping, (i for i, _ in program.instances), program.tunables)
    stages = {"tasks": program.text()}
    share_loops(program)
    place_reductions(program)
    eliminate(program)
    stages["copies"] = program.text()
    graph = events.event_graph(program)
    stages["events"] = events.text(graph)
    for buffer in program.made:
        if buffer.memory == "global":
            lies[buffer.name] = _made_lie(buffer, known)
    steps = schedule(program.root, lies)
    found = CompiledTasks(task, mapping, program, known, stages, steps, graph)
    for launch in found.launches:
        stages[launch.kernel.name] = launch.kernel.text
        if launch.kernel.has_ends:
            try:
                found.check_ends(launch)
            except StrayCounts:
                launch.kernel = launch.exact()
                found.forget(launch)
                found.check_ends(launch)
            stages[launch.kernel.name] = launch.kernel.text
    return found


def _made_lie(buffer: Buffer, known: Known) -> Lie:
    """How a tensor that the device makes lies: row after row. Whether rows are aligned is asked."""
    size = ELEMENT_BYTES[type_name(buffer.dtype)]
    row: Any = buffer.shape[-1] if len(buffer.shape) > 1 else 16
    aligned = (row * size) % 16 == 0
    return replace(Lie(size), describable=bool(aligned) and 1 <= len(buffer.shape) <= 5)
