"""Launches of kernels that were compiled for types and divisors that their caller promises.

TorchInductor declares what a kernel's arguments are, and keeps to it. So nothing has to be asked of
them but where they lie: a small Python function, written for the kernel, passes them on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tawa.driver.compiled import Compiled
from tawa.runtime import launch
from tawa.runtime.overlaps import end_of
from tawa.runtime.timeline import ACTIVE

Run = Callable[..., None]
"""Launches for the sizes of a grid, a stream's address and the run-time arguments, in order."""


def promised_launch(
    compiled: Compiled, types: Mapping[str, str], other: Run, count: Callable[[], None]
) -> Run:
    """What launches a compiled kernel; `types` are the types of its run-time arguments, in order.

    Launches that need a closer look go to `other`: those in the simulator, those whose arrays may
    overlap where the code takes them to be apart, those of a timeline. So do all of a kernel that
    has products, which is fitted to its launches' sizes, or that takes descriptors.
    """
    pointers = [name for name, type_ in types.items() if type_.startswith("*")]
    plain = all(type_.startswith("*") or type_.isalnum() for type_ in types.values())
    known = set(compiled.spec.arguments) <= set(types)
    if "tile.dot" in str(compiled.stages["tile"]) or not (pointers and plain and known):
        return other
    launchers: dict[int, Any] = {-1: None}

    def load(device: int) -> Any:
        return launchers.setdefault(device, launch.load(compiled.spec, compiled.cubin, device))

    scope: dict[str, Any] = {
        "_launchers_": launchers, "_load_": load, "_other_": other, "_count_": count,
        "_timeline_": ACTIVE.get, "_end_": end_of,
    }  # fmt: skip
    exec(_text(compiled, list(types), pointers), scope)
    return scope["run"]


def _text(compiled: Compiled, names: list[str], pointers: list[str]) -> str:
    """The function. Its own names end with an underscore, those of parameters do not."""
    spec = compiled.spec
    addresses = [f"    {name}_ = {name}.data_ptr()" for name in pointers]
    values = [f"{name}_" if name in pointers else name for name in spec.arguments]
    call = f"_x_, _y_, _z_, _stream_, {', '.join(names)}"
    closer = ["_launcher_ is None", "_timeline_() is not None"]
    ends = [
        f"    {name}_end_ = {_end(name)}" for name in sorted({n for p in spec.apart for n in p})
    ]
    closer += [f"{one}_end_ > {other}_ and {other}_end_ > {one}_" for one, other in spec.apart]
    return "\n".join(
        [
            f"def run({call}, **_rest_):",
            f"    _device_ = {pointers[0]}.get_device()",
            "    if _device_ not in _launchers_: _load_(_device_)",
            "    _launcher_ = _launchers_[_device_]",
            *addresses,
            *ends,
            f"    if {' or '.join(closer)}:",
            f"        return _other_({call}, **_rest_)",
            f"    _launcher_((_x_, _y_, _z_), ({', '.join(values)},), _stream_)",
            "    _count_()",
        ]
    )


def _end(name: str) -> str:
    """An expression for the address behind a tensor.

    What Inductor passes is often a tensor in another order, which no closer look should be for.
    """
    return f"{name}_ + {name}.nbytes if {name}.is_contiguous() else _end_({name})"
