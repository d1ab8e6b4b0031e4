"""Whether tensors are written before they are read, and results at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tawa.base.source import Span
from tawa.tasks.language.defaults import Resolved, where
from tawa.tasks.language.errors import TensorUndefined
from tawa.tasks.language.privileges import Privilege
from tawa.tasks.language.sizes import Size, names, value
from tawa.tasks.language.task import Task
from tawa.tasks.language.tensors import Buffer, Tensor


@dataclass
class Written:
    """The buffers of which some launch has written a box, in the order of a trace."""

    found: dict[int, Buffer] = field(default_factory=dict[int, Buffer])

    def before(self, task: Task, args: Sequence[Any], caller: Resolved, span: Span | None) -> None:
        """Raises `TensorUndefined` for a launch that reads what nothing was written to."""
        for name, arg in zip(task.parameters, args, strict=True):
            if not isinstance(arg, Tensor) or arg.buffer.kind != "made":
                continue
            if task.privileges[name].reads and id(arg.buffer) not in self.found:
                raise TensorUndefined(
                    f"`{task.name}` reads `{arg.buffer.name}`, which nothing was written to",
                    span=span,
                    expected="a launch before that writes it: its elements are undefined",
                    found=f"`{name}`: {task.privileges[name]}",
                    hint="launch `clear` or `fill` on it first",
                    notes=[where(caller)],
                )

    def after(self, task: Task, args: Sequence[Any]) -> None:
        """A launch was made."""
        for name, arg in zip(task.parameters, args, strict=True):
            if isinstance(arg, Tensor) and task.privileges[name].writes:
                self.found[id(arg.buffer)] = arg.buffer

    def results(self, instance: Resolved, args: Sequence[Any]) -> None:
        """Raises `TensorUndefined` for a result that a variant, which has run, leaves undefined."""
        task = instance.variant.task
        for name, arg in zip(task.parameters, args, strict=True):
            if not isinstance(arg, Tensor) or id(arg.buffer) in self.found:
                continue
            own: Privilege = task.privileges[name]
            if own.writes and not own.reads and _has_elements(arg):
                raise TensorUndefined(
                    f"`{instance.variant.name}` launches nothing that writes `{name}`",
                    span=instance.variant.span,
                    expected=f"a launch that writes it: its privilege is {own}, all of it",
                    found="none",
                    hint="give the task READ_WRITE if what was there may stay",
                    notes=[where(instance)],
                )


def _has_elements(tensor: Tensor) -> bool:
    """Whether a tensor has elements in this launch; not if that is not known."""
    sizes = [size for size in tensor.size if isinstance(size, Size)]
    if any(name not in size.known.values for size in sizes for name in names(size)):
        return False
    return (
        prod(
            value(size, size.known.values) if isinstance(size, Size) else size
            for size in tensor.size
        )
        > 0
    )
