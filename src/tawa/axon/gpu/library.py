"""Compiled kernels: made from source text once, for each variant and alignment of arguments."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tawa
import tawa.language as tl
from tawa.axon.gpu.graph.nodes import BYTES, Node
from tawa.axon.gpu.kernels import KernelCall, Variant
from tawa.axon.gpu.text import Descriptor, Parameter
from tawa.driver.entries import Entry, launch_of
from tawa.driver.jit import Kernel
from tawa.kernels.convolution.kernels import sums_of_taps, sums_of_windows
from tawa.language import libdevice
from tawa.runtime.kinds import Kind, kind_of

ALIGNMENT = 16
"""What a kernel may know that sizes and addresses are multiples of."""


@tawa.jit
def multiply(a: Any, b: Any):
    """The product, for reductions."""
    return a * b


FUNCTIONS: dict[str, Any] = {
    "tl": tl, "libdevice": libdevice, "multiply": multiply, "sums_of_taps": sums_of_taps,
    "sums_of_windows": sums_of_windows,
}  # fmt: skip
"""What the texts of kernels may name."""

_KERNELS: dict[str, Kernel] = {}
_COMPILED: dict[tuple[Any, ...], Any] = {}
_ENTRIES: dict[tuple[Any, ...], Entry] = {}


def compilations() -> int:
    """How many kernels were compiled (or found in the cache on disk) in this process."""
    return len(_COMPILED)


def kernel_of(call: KernelCall) -> Kernel:
    """The kernel of a source text; the same text gives the same kernel."""
    if isinstance(call.source, Kernel):
        return call.source
    found = _KERNELS.get(call.source)
    if found is None:
        found = _KERNELS[call.source] = kernel_from(call.source, call.group.kind)
    return found


def kernel_from(source: str, kind: str) -> Kernel:
    """A kernel of a text that leaves its name open; the name says of which kind it is."""
    name = f"axon_{kind}_{hashlib.sha256(source.encode()).hexdigest()[:10]}"
    text = source.replace("NAME", name, 1)
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = dict(FUNCTIONS)
    exec(compile(text, file, "exec"), scope)
    return tawa.jit(scope[name])


@dataclass(frozen=True)
class Place:
    """Where a plan runs: a device's number (`HOST` for the simulator) and the arrays' library."""

    device: int
    library: str


def types_of(call: KernelCall, variant: Variant, aligned: Mapping[Node, bool]) -> dict[str, str]:
    """The type of each run-time parameter for a variant, as `Kernel.compile` takes it."""
    return {p.name: _type(p, variant, aligned) for p in call.parameters}


def _type(parameter: Parameter, variant: Variant, aligned: Mapping[Node, bool]) -> str:
    value = parameter.value
    match parameter.kind:
        case "pointer":
            return f"*{element_type(value)}" + (":16" if aligned.get(value, True) else "")
        case "descriptor":
            block = "x".join(str(size) for size in block_of(value, variant))
            return f"desc<{element_type(value.node)},{block}>"
        case "step":
            return "i32:16" if value % ALIGNMENT == 0 else "i32"
        case _:
            return parameter.kind


def element_type(node: Node) -> str:
    """The run time's name of a node's element type."""
    return "i1" if node.element == "bool" else node.element


def block_of(descriptor: Descriptor, variant: Variant) -> tuple[int, ...]:
    """The block of a descriptor in a variant."""
    return tuple(
        variant.constants[size] if isinstance(size, str) else size for size in descriptor.block
    )


def given(call: KernelCall, variant: Variant, aligned: Mapping[Node, bool]) -> dict[str, Any]:
    """The keywords of `Kernel.compile` for a variant."""
    types = types_of(call, variant, aligned)
    values = {name: None if text == "none" else text for name, text in types.items()}
    return {**values, **variant.constants, **variant.options}


def compiled(call: KernelCall, variant: Variant, aligned: Mapping[Node, bool]) -> Any:
    """The compiled kernel of a variant; compiles it if it is new. Needs no device."""
    kernel = kernel_of(call)
    types = types_of(call, variant, aligned)
    key = (kernel, *types.values(), *variant.constants.items(), *map(str, variant.options.items()))
    if key not in _COMPILED:
        _COMPILED[key] = kernel.compile(**given(call, variant, aligned))
    return _COMPILED[key]


def entry(call: KernelCall, variant: Variant, aligned: dict[Node, bool], place: Place) -> Entry:
    """The loaded kernel of a variant, and how to launch it."""
    found = compiled(call, variant, aligned)
    key = (id(found), place)
    if key not in _ENTRIES:
        types = types_of(call, variant, aligned)
        kinds = {name: _kind(text, place) for name, text in types.items()}
        launch = launch_of(found, kinds, place.device)
        _ENTRIES[key] = Entry(found, launch, place.device)
    return _ENTRIES[key]


def _kind(text: str, place: Place) -> Kind:
    type_, _, rest = text.partition(":")
    if type_.startswith(("*", "desc<")):
        return kind_of(type_, rest == "16", False, place.device, place.library)
    return kind_of(type_, rest == "16")


__all__ = [
    "BYTES", "Place", "block_of", "compilations", "compiled", "entry", "given", "kernel_from",
    "kernel_of",
]  # fmt: skip
