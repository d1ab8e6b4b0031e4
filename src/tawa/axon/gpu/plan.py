"""A plan: what one call with arguments of given shapes launches, in order, and on which memory.

Intermediate results share one block of memory: a tensor's place is free again after its last
reader. Nothing in a plan depends on the contents of the arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tawa.axon.gpu import library
from tawa.axon.gpu.ahead import Compilations, compile_later
from tawa.axon.gpu.attend import attention_call
from tawa.axon.gpu.convolve import convolution_kernel
from tawa.axon.gpu.graph.errors import NotForGpu
from tawa.axon.gpu.graph.fusion import Group
from tawa.axon.gpu.graph.lower import Program, is_reshape, places
from tawa.axon.gpu.graph.memory import Memory, memory_of
from tawa.axon.gpu.graph.nodes import BYTES, Node
from tawa.axon.gpu.graph.recompute import fused
from tawa.axon.gpu.kernels import KernelCall, points_kernel, rows_kernel
from tawa.axon.gpu.product import product_kernel
from tawa.axon.gpu.text import Descriptor
from tawa.axon.gpu.unconvolve import slopes_call
from tawa.runtime.arrays import HOST
from tawa.runtime.descriptor import Geometry, TensorDescriptor, geometry_of

LARGEST = 2**31
"""Numbers of a tensor that kernels can index."""

LONG_CHOSEN = frozenset({"attention"})
"""Kinds of groups whose tiles are chosen by reading programs, which takes the compiler."""


class Located(NamedTuple):
    """A tensor of a launch on the device: what launching reads of a descriptor."""

    address: int
    geometry: Geometry

    def pointer(self) -> int:
        """The address of the first element."""
        return self.address


@dataclass(frozen=True, slots=True)
class Slot:
    """An argument of a launch that depends on where its tensor lies.

    `geometry` is None for plain pointers; `offset` counts elements.
    """

    position: int
    base: Node
    offset: int
    geometry: Geometry | None


@dataclass
class Launch:
    """A kernel, its grid, and its arguments with the slots to be filled."""

    call: KernelCall
    values: list[Any]
    slots: list[Slot]
    start: Any = None

    @property
    def source(self) -> str:
        """The kernel's text."""
        return library.kernel_of(self.call).source.text


@dataclass(repr=False)
class Plan:
    """All launches of a call, and the memory they share."""

    program: Program
    inputs: list[Node]
    launches: list[Launch]
    memory: Memory
    place: library.Place | None
    constants: dict[Node, Any] = field(default_factory=dict[Node, Any])
    """Arrays that tracing found, on the device."""


def make_plan(
    program: Program, inputs: list[Node], aligned: dict[Node, bool],
    place: library.Place | None,
) -> Plan:  # fmt: skip
    """Fuse and write the kernels, and place the memory. Raises NotForGpu.

    With a `place`, those that it launches are compiled and loaded, and those for other sizes are
    begun; without, `compile_all` compiles them.
    """
    for node in program.nodes():
        if node.size >= LARGEST:
            raise NotForGpu("a tensor of 2^31 or more numbers", span=node.span)
    groups = fused(program)
    placed = places(program.nodes())
    calls = _calls(groups, placed, aligned, place)
    launches = [_launch(calls[group]) for group in groups]
    if place is not None:
        for launch in launches:
            call = launch.call
            launch.start = library.entry(call, call.variant, aligned, place).launch
        if place.device != HOST:
            compile_later(calls.values(), aligned)
    return Plan(program, inputs, launches, memory_of(program, groups, placed), place)


def _calls(
    groups: list[Group], placed: dict[Node, Any], aligned: dict[Node, bool],
    place: library.Place | None,
) -> dict[Group, KernelCall]:  # fmt: skip
    """The kernel of each group, compiled if there is a device: others are, while one is chosen."""
    simulated = place is not None and place.device == HOST
    at_once = place is None or simulated
    ordered = sorted(groups, key=lambda group: group.kind in LONG_CHOSEN)
    own_kinds = LONG_CHOSEN & {group.kind for group in groups}
    calls: dict[Group, KernelCall] = {}
    with Compilations(aligned, chosen=True, own_kinds=own_kinds) as compilations:
        for group in ordered:
            call = calls[group] = kernel_call(group, placed, aligned, simulated)
            if not at_once:
                compilations.begin(call)
        compilations.finish()
    return calls


def kernel_call(
    group: Group, placed: dict[Node, Any], aligned: dict[Node, bool], simulated: bool
) -> KernelCall:
    """The kernel of a group."""
    match group.kind:
        case "points" | "scatter":
            return points_kernel(group, placed)
        case "rows":
            return rows_kernel(group, placed)
        case "product":
            return product_kernel(group, placed, aligned, simulated)
        case "convolution":
            return convolution_kernel(group, placed)
        case "slopes":
            return slopes_call(group)
        case _:
            return attention_call(group, placed)


def _launch(call: KernelCall) -> Launch:
    values: list[Any] = []
    slots: list[Slot] = []
    for position, parameter in enumerate(call.parameters):
        value = parameter.value
        if parameter.kind == "pointer":
            slots.append(Slot(position, value, 0, None))
            values.append(None)
        elif parameter.kind == "descriptor":
            slots.append(Slot(position, value.node, value.offset, geometry(value, call)))
            values.append(None)
        else:
            values.append(value)
    return Launch(call, values, slots)


def geometry(descriptor: Descriptor, call: KernelCall) -> Geometry:
    """How a tensor lies, and the block that a launch moves of it."""
    block = library.block_of(descriptor, call.variant)
    element = library.element_type(descriptor.node)
    strides = tuple(
        stride if size > 1 or number == len(descriptor.shape) - 1 else _whole(descriptor, stride)
        for number, (size, stride) in enumerate(
            zip(descriptor.shape, descriptor.strides, strict=True)
        )
    )
    return geometry_of(element, descriptor.shape, strides, block, "zero")


def _whole(descriptor: Descriptor, stride: int) -> int:
    """The stride of an axis of size 1 matters to nobody but has to be a multiple of 16 bytes."""
    step = 16 // BYTES[descriptor.node.element]
    return max(step, -(-stride // step) * step)


def compile_all(call: KernelCall, aligned: dict[Node, bool]) -> None:
    """Compile all variants of a kernel."""
    for variant in call.variants:
        library.compiled(call, variant, aligned)


def run_on_device(plan: Plan, arrays: Sequence[Any], allocate: Any, stream: int) -> list[Any]:
    """Launch everything on a stream; the results' arrays, by node of the plan's results."""
    addresses: dict[Node, int] = {
        node: array.data_ptr() for node, array in zip(plan.inputs, arrays, strict=True)
    }
    for node, array in plan.constants.items():
        addresses[node] = array.data_ptr()
    memory = plan.memory
    arena = allocate.bytes(memory.size) if memory.size else None
    start = arena.data_ptr() if arena is not None else 0
    for node, offset in memory.offsets.items():
        addresses[node] = start + offset
    outputs: dict[Node, Any] = {}
    for launch in plan.launches:
        values = launch.values.copy()
        for slot in launch.slots:
            address = addresses.get(slot.base)
            if address is None:  # a result: made while kernels before run
                base = slot.base
                array = outputs[base] = allocate.array(base.shape, base.element)
                address = addresses[base] = array.data_ptr()
            if slot.geometry is None:
                values[slot.position] = address
            else:
                address += slot.offset * BYTES[slot.base.element]
                values[slot.position] = Located(address, slot.geometry)
        launch.start(launch.call.grid, values, stream)
    for node in plan.memory.outputs:  # those without numbers
        if node not in outputs:
            outputs[node] = allocate.array(node.shape, node.element)
    return [_result(outputs, node) for node in plan.program.results]


def run_in_simulator(plan: Plan, arrays: Sequence[Any], allocate: Any) -> list[Any]:
    """Run everything in the simulator, on NumPy arrays."""
    found: dict[Node, Any] = {
        node: array.reshape(-1) for node, array in zip(plan.inputs, arrays, strict=True)
    }
    for node, array in plan.constants.items():
        found[node] = array.reshape(-1)
    arena = allocate.bytes(plan.memory.size)
    for node, offset in plan.memory.offsets.items():
        found[node] = allocate.typed(arena[offset : offset + node.bytes], node.element)
    outputs = {node: allocate.array(node.shape, node.element) for node in plan.memory.outputs}
    for node, array in outputs.items():
        found[node] = array.reshape(-1)
    for launch in plan.launches:
        values = launch.values.copy()
        for slot in launch.slots:
            array = found[slot.base]
            if slot.geometry is not None:
                g = slot.geometry
                array = TensorDescriptor(array[slot.offset :], g.shape, g.strides, g.block_shape)
            values[slot.position] = array
        launch.start(launch.call.grid, values, None)
    return [_result(outputs, node) for node in plan.program.results]


def _result(outputs: dict[Node, Any], node: Node) -> Any:
    array = outputs[node.base]
    if node.op != "view" or is_reshape(node):
        return array if node.op != "view" else array.reshape(node.shape)
    n, c, *image = node.shape  # images that lie pixel by pixel
    pixels, rank = array.reshape((n, *image, c)), len(node.shape)
    axes = 0, rank - 1, *range(1, rank - 1)
    return pixels.permute(axes) if hasattr(pixels, "permute") else pixels.transpose(axes)
