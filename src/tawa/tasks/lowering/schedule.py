"""What the device does, kernel after kernel: the part of a program above blocks.

A parallel loop of the device is the grid of each block's scope in it; loops in order are the
host's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from tawa.tasks.graph.ir import Call, Copy, Loop, Node, Scope, accesses, copy_text, walk
from tawa.tasks.language.defaults import where
from tawa.tasks.language.errors import BadMapping, TensorNotMapped
from tawa.tasks.language.mapping import WARPS
from tawa.tasks.language.sizes import is_of_data, names, text
from tawa.tasks.lowering.groups import warps_of
from tawa.tasks.lowering.kernel_text import KernelText, kernel_text
from tawa.tasks.lowering.lies import Lie


@dataclass(eq=False)
class Launch:
    """A kernel, and the options that it is launched with."""

    kernel: KernelText
    options: dict[str, Any]
    cap: int | None
    """Most bytes of shared memory, if the mapping says so."""
    exact: Callable[[], KernelText]
    """The kernel whose boxes of groups are zero past the end."""
    shared: tuple[Call, ...] = ()
    """The calls of leaves that warp groups share as the mapping says."""


@dataclass(eq=False)
class HostLoop:
    """Steps in order, for each value of an index."""

    loop: Loop
    steps: list[Step]


Step: TypeAlias = Launch | HostLoop

DEFAULT_ORDER = 8
"""Rows of a grid's blocks that are walked together: neighbours share what they load."""


def schedule(root: Scope, lies: dict[str, Lie]) -> list[Step]:
    """The steps of a program. Raises what kernels raise, and `TensorNotMapped`, `BadMapping`."""
    if root.instance.processor == "block":
        return [_launch(root, (), lies, f"{root.instance.record.name}_kernel")]
    return list(_steps(root.body, (), lies, {}))


def _steps(
    nodes: Sequence[Node], grid: tuple[Loop, ...], lies: dict[str, Lie], counts: dict[str, int]
) -> Iterator[Step]:
    for node in nodes:
        if isinstance(node, Scope):
            name = node.instance.record.name
            counts[name] = counts.get(name, 0) + 1
            suffix = "" if counts[name] == 1 else f"_{counts[name]}"
            yield _launch(node, grid, lies, f"{name}{suffix}_kernel")
        elif isinstance(node, Loop) and node.parallel:
            yield from _steps(node.body, (*grid, node), lies, counts)
        elif isinstance(node, Loop):
            _check_independent(node, grid)
            yield HostLoop(node, list(_steps(node.body, grid, lies, counts)))
        else:
            raise TensorNotMapped(
                "the device would have to copy or compute by itself",
                span=node.span,
                expected="launches that run on blocks",
                found=_step_text(node),
                hint="map the tensor to global, or the launch to a block",
                notes=[where(node.instance)],
            )


def _check_independent(loop: Loop, grid: tuple[Loop, ...]) -> None:
    if any(is_of_data(extent) for extent in loop.extents):
        raise BadMapping(
            "how often a loop of the device runs depends on a tensor's elements",
            span=loop.span,
            expected="an extent that follows from sizes: the device does not wait for its results",
            found=", ".join(text(extent) for extent in loop.extents),
            hint="map the loop to a block, or use `prange` in a `prange` over the groups",
            notes=[where(loop.instance)],
        )
    indices = {i for outer in grid for i in outer.indices}
    if any(name in indices for extent in loop.extents for name in names(extent)):
        raise BadMapping(
            "how often a loop of the device runs depends on a block's place",
            span=loop.span,
            expected="an extent that is the same for all iterations of the `prange` around it",
            found=str(loop.extents),
            hint="map what is in the `prange` to blocks",
            notes=[where(loop.instance)],
        )


def _step_text(node: Copy | Call) -> str:
    if isinstance(node, Copy):
        return copy_text(node)
    return f"call of {node.leaf.name}"


def _check_made(scope: Scope, grid: tuple[Loop, ...]) -> None:
    """A tensor in global memory is one: iterations that run at once can't have one each."""
    parallel = {index for loop in grid for index in loop.indices}
    for view, _ in accesses(scope):
        buffer = view.buffer
        if buffer.memory != "global" or buffer.kind == "argument":
            continue
        sized = {name for size in buffer.shape for name in names(size)} & {*buffer.inside}
        if sized or parallel & {*buffer.inside}:
            raise TensorNotMapped(
                f"each iteration of a loop makes a `{buffer.name}` of its own",
                span=buffer.span,
                expected="a tensor that is made before the loop, for all of its iterations",
                found="a tensor in global memory, which is one for all"
                + (", of sizes that change" if sized else ""),
                hint="make a larger tensor outside, and pass a box of it; or map the launch to a "
                "block, and the tensor to register",
                notes=[where(scope.instance)],
            )


def _launch(scope: Scope, grid: tuple[Loop, ...], lies: dict[str, Lie], name: str) -> Launch:
    _check_made(scope, grid)
    options: dict[str, Any] = {}
    cap: int | None = None
    order: int | None = None
    instances = {id(scope.instance): scope.instance}
    for node in walk(scope.body):
        instances[id(node.instance)] = node.instance
    for instance in instances.values():
        record = instance.record
        for option, value in record.launch_options.items():
            if options.setdefault(option, value) != value:
                raise BadMapping(
                    f"two instances of one block ask for different values of `{option}`",
                    span=record.span,
                    expected=f"{option}={options[option]!r} throughout a kernel",
                    found=f"{value!r}",
                    notes=[where(instance)],
                )
        if record.shared_cap is not None:
            cap = min(cap or record.shared_cap, record.shared_cap)
        order = record.tile_order if order is None else order
    calls = [node for node in walk(scope.body) if isinstance(node, Call)]
    _share(calls, options)
    group = DEFAULT_ORDER if order is None else order
    return Launch(
        kernel_text(name, scope, grid, group, lies),
        options,
        cap,
        partial(kernel_text, name, scope, grid, group, lies, exact=True),
        tuple(calls),
    )


def _share(calls: Sequence[Call], options: dict[str, Any]) -> None:
    """Give a block the warp groups that its loops over them ask for."""
    found = warps_of(calls)
    if found is None:
        return
    warps, instance = found
    groups = warps // WARPS
    if options.setdefault("consumers", groups) != groups:
        raise BadMapping(
            f"`{instance.record.name}` is shared by {groups} warp groups",
            span=instance.record.span,
            expected=f"{options['consumers']}, which `warp_groups` says",
            found=f"a `prange` of {groups}",
            hint="leave `warp_groups` out: the `prange` says how many there are",
            notes=[where(instance)],
        )
