"""Tasks: a name with privileges, and the variants that do what it says.

@task(c=WRITE, a=READ, b=READ)
def gemm(c, a, b):
    \"\"\"C = A B.\"\"\"

@gemm.inner
def gemm_grid(c, a, b): ...     # cuts tensors, launches tasks

@gemm.leaf
def gemm_tile(c, a, b): ...     # the tile language; returns what it writes
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from tawa.base.source import Span
from tawa.base.user_frames import entries
from tawa.driver.jit import Kernel
from tawa.tasks.language.errors import PrivilegeViolation, SignatureMismatch
from tawa.tasks.language.privileges import Privilege
from tawa.tasks.language.variant_checks import check_inner, check_leaf, has_parallel_loop

T = TypeVar("T")

VARIANTS: set[str] = set()
"""The names of all variants: what a mapping's record may be called."""


@entries
@dataclass(eq=False)
class Task:
    """What is computed, for callers: parameters in order, with a privilege for each tensor."""

    name: str
    parameters: tuple[str, ...]
    privileges: dict[str, Privilege]
    span: Span
    variants: list[Variant] = field(default_factory=list["Variant"])

    @property
    def writes(self) -> tuple[str, ...]:
        """The parameters that a leaf returns values for, in order."""
        given = self.privileges
        return tuple(name for name in self.parameters if name in given and given[name].writes)

    def inner(self, fn: Callable[..., Any]) -> Variant:
        """Add a variant that cuts tensors and launches tasks."""
        return self._add(fn, leaf=False)

    def leaf(self, fn: Callable[..., Any]) -> Variant:
        """Add a variant in the tile language, which returns the new values of what it writes."""
        return self._add(fn, leaf=True)

    def _add(self, fn: Callable[..., Any], *, leaf: bool) -> Variant:
        variant = Variant(self, fn, leaf)
        if variant.parameters != self.parameters:
            raise SignatureMismatch(
                f"variant `{fn.__name__}` of task `{self.name}` has other parameters",
                span=variant.span,
                expected=f"({', '.join(self.parameters)})",
                found=f"({', '.join(variant.parameters)})",
                hint="all variants of a task have the task's parameters, in its order",
            )
        (check_leaf if leaf else check_inner)(variant.function, self.privileges)
        self.variants.append(variant)
        VARIANTS.add(variant.name)
        return variant


@dataclass(eq=False)
class Variant:
    """One way to do a task: an inner variant, or a leaf."""

    task: Task
    fn: Callable[..., Any]
    is_leaf: bool

    @property
    def name(self) -> str:
        """Its function's name."""
        return self.fn.__name__

    @property
    def parameters(self) -> tuple[str, ...]:
        """Its parameters, in order."""
        return tuple(inspect.signature(self.fn).parameters)

    @cached_property
    def function(self) -> Kernel:
        """The function with its source, which kernels may call if it is a leaf."""
        return Kernel(self.fn)

    def is_constant(self, place: int) -> bool:
        """Whether a leaf's parameter is annotated `tl.constexpr`: its number is compiled in."""
        return self.parameters[place] in self.function.constexpr_names

    @cached_property
    def is_grid(self) -> bool:
        """Whether it has a `prange` of its own."""
        return not self.is_leaf and has_parallel_loop(self.function)

    @cached_property
    def span(self) -> Span:
        """The line of its `def`."""
        return _span_of(self.function)


def declared(make: Callable[..., T], fn: Callable[..., Any], privileges: dict[str, Privilege]) -> T:
    """The task that a function declares. Raises `SignatureMismatch`, `PrivilegeViolation`."""
    span = _span_of(Kernel(fn))
    parameters = tuple(inspect.signature(fn).parameters)
    for name, privilege in privileges.items():
        if name not in parameters:
            raise SignatureMismatch(
                f"task `{fn.__name__}` has no parameter `{name}`",
                span=span,
                expected=f"a privilege for one of ({', '.join(parameters)})",
                found=f"{name}={privilege}",
            )
    for name, privilege in privileges.items():
        if not isinstance(privilege, Privilege):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SignatureMismatch(
                f"the privilege of `{name}` of task `{fn.__name__}` is {privilege!r}",
                span=span,
                expected="READ, WRITE, READ_WRITE or REDUCE(...) of tawa.tasks",
                found=f"a {type(privilege).__name__}",
            )
    if not any(privilege.writes for privilege in privileges.values()):
        raise PrivilegeViolation(
            f"task `{fn.__name__}` writes nothing",
            span=span,
            expected="a tensor with the privilege WRITE or READ_WRITE",
            found=", ".join(f"{n}: {p}" for n, p in privileges.items()) or "no tensors",
        )
    return make(fn.__name__, parameters, privileges, span)


def _span_of(function: Kernel) -> Span:
    source = function.source
    line = source.first_line + source.tree.lineno - 1
    start = source.indent + source.tree.col_offset
    return Span(source.file, line, start, line, start + len(f"def {source.tree.name}"))
