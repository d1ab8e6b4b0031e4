"""Whether a launch's arguments are those that a task takes, with privileges that its caller has."""

from __future__ import annotations

from collections.abc import Mapping as Mapping_
from typing import Any

from tawa.base.source import Span
from tawa.tasks.language.defaults import Resolved, where
from tawa.tasks.language.errors import PrivilegeViolation, WrongTaskArguments
from tawa.tasks.language.mapping import Mapping
from tawa.tasks.language.privileges import Privilege
from tawa.tasks.language.task import Task, Variant
from tawa.tasks.language.tensors import Buffer, Tensor

__all__ = ["checked_arguments", "checked_kinds", "in_order_of"]


def checked_arguments(
    task: Task, args: tuple[Any, ...], caller: Resolved, owners: dict[int, Privilege],
    span: Span | None,
) -> None:  # fmt: skip
    """Check a launch. `owners` has the caller's privilege on its arguments, by buffer's id.

    Raises `WrongTaskArguments`, `PrivilegeViolation`.
    """
    checked_kinds(task, args, span, caller)
    for name, arg in zip(task.parameters, args, strict=True):
        if not isinstance(arg, Tensor):
            continue
        own = owners.get(id(arg.buffer))
        if own is None or own.allows(task.privileges[name]):
            continue
        raise PrivilegeViolation(
            f"`{task.name}` has more rights on `{arg}` than its caller",
            span=span,
            expected=f"a task with the privilege {own}, or less",
            found=f"`{name}`: {task.privileges[name]}",
            hint=f"give `{caller.variant.task.name}` the privilege it needs",
            notes=[where(caller)],
        )


def in_order_of(
    task: Any, args: tuple[Any, ...], named: Mapping_[str, Any], span: Span | None
) -> tuple[Any, ...]:
    """A launch's arguments in the order of the task's parameters. Raises `WrongTaskArguments`."""
    if not isinstance(task, Task):
        raise WrongTaskArguments(
            f"`launch` is given {getattr(task, 'name', task)!r}",
            span=span,
            expected="a task: its variants are chosen by the mapping",
            found=f"a {type(task).__name__}",
            hint=f"launch `{task.task.name}`" if isinstance(task, Variant) else None,
        )
    rest = task.parameters[len(args) :]
    if named and {*named} != {*rest}:
        raise WrongTaskArguments(
            f"`{task.name}` is launched with other names than its parameters'",
            span=span,
            expected=f"{', '.join(rest)}" if rest else "no arguments by name: all have a place",
            found=", ".join(named),
        )
    return (*args, *(named[name] for name in rest)) if named else args


def checked_kinds(
    task: Task, args: tuple[Any, ...], span: Span | None, caller: Resolved | None = None
) -> None:
    """Check number and kinds of arguments. Raises `WrongTaskArguments`."""
    notes = [where(caller)] if caller else []
    if len(args) != len(task.parameters):
        raise WrongTaskArguments(
            f"`{task.name}` is launched with {len(args)} arguments",
            span=span,
            expected=f"({', '.join(task.parameters)})",
            found=str(len(args)),
            hint="a mapping is given by name: mapping=..."
            if any(isinstance(arg, Mapping) for arg in args)
            else None,
            notes=notes,
        )
    for name, arg in zip(task.parameters, args, strict=True):
        is_tensor = isinstance(arg, Tensor | Buffer)
        if is_tensor != (name in task.privileges):
            raise WrongTaskArguments(
                f"`{name}` of `{task.name}` is {'no' if is_tensor else 'a'} tensor",
                span=span,
                expected="a number" if is_tensor else "a tensor, or a box of a partition",
                found="a tensor" if is_tensor else repr(arg),
                notes=notes,
            )
