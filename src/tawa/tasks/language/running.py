"""What inner variants call: `launch`, `srange`, `prange`, `tunable`, `make_tensor`.

What these do depends on who runs the variant: the serial interpreter, or the tracer that compiles.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from tawa.base.source import Span
from tawa.base.user_frames import entry, users_place
from tawa.tasks.language.arguments import in_order_of
from tawa.tasks.language.errors import BadPartition, NotInTask
from tawa.tasks.language.sizes import Size, is_fraction
from tawa.tasks.language.task import Task
from tawa.tasks.language.tensors import Tensor, as_sizes


class Runner(Protocol):
    """Who runs an inner variant."""

    def launch(self, task: Task, args: tuple[Any, ...], span: Span | None) -> None:
        """A launch statement."""
        ...

    def loop(self, extents: tuple[Any, ...], parallel: bool, span: Span | None) -> Iterator[Any]:
        """The indices of a loop, one after the other."""
        ...

    def tunable(self, name: str, default: Any, span: Span | None) -> Any:
        """The value that the mapping binds."""
        ...

    def make(self, shape: tuple[Any, ...], dtype: Any, span: Span | None) -> Tensor:
        """A new tensor."""
        ...

    def require(self, shape: tuple[int, int, int], span: Span | None) -> None:
        """The matrix instruction that the products of what is launched are made by."""
        ...

    def element(self, tensor: Tensor, index: Any, most: Any, span: Span | None) -> Any:
        """An element of a tensor of offsets, which are at most a size."""
        ...


ACTIVE: ContextVar[Runner | None] = ContextVar("tawa.tasks", default=None)


@contextmanager
def running(runner: Runner) -> Generator[None]:
    """Let `runner` run the variants that are called in this block."""
    token = ACTIVE.set(runner)
    try:
        yield
    finally:
        ACTIVE.reset(token)


def runner_of(name: str) -> Runner:
    """Who runs the variant that calls `name`. Raises `NotInTask`."""
    runner = ACTIVE.get()
    if runner is None:
        raise NotInTask(
            f"`{name}` outside of a task",
            span=users_place(),
            expected=f"`{name}` in an inner variant that a task runs",
            found="no task that runs",
            hint="call the task itself: `gemm(c, a, b)`",
        )
    return runner


@entry
def launch(task: Task, *args: Any, **named: Any) -> None:
    """Run a task on tensors and numbers, by position or by name.

    What it writes, later launches read. Raises `WrongTaskArguments`.
    """
    runner, place = runner_of("launch"), users_place()
    runner.launch(task, in_order_of(task, args, named, place), place)


@entry
def srange(*extents: Any) -> Iterator[Any]:
    """Iterations in order: an index, or with several extents a tuple of them, the last fastest."""
    return runner_of("srange").loop(_extents(extents, "srange"), False, users_place())


@entry
def prange(*extents: Any) -> Iterator[Any]:
    """Iterations in any order, or at the same time: none may write what another touches."""
    return runner_of("prange").loop(_extents(extents, "prange"), True, users_place())


def _extents(extents: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    """Raises `BadPartition` for what is not a number of iterations."""
    if not extents:
        raise BadPartition(
            f"`{name}` is given no number of iterations",
            span=users_place(),
            expected="a number of iterations for each index",
            found=f"{name}()",
            hint=f"write {name}(*partition.shape)",
        )
    for extent in extents:
        if isinstance(extent, int) and extent < 0:
            raise BadPartition(
                f"`{name}` is given {extent}",
                span=users_place(),
                expected="a number of iterations from 0",
                found=str(extent),
            )
        fraction = isinstance(extent, float) or is_fraction(extent)
        if fraction or not isinstance(extent, int | Size):
            hint = "divide by //" if fraction else None
            raise BadPartition(
                f"`{name}` is given {extent!r}",
                span=users_place(),
                expected="a number of iterations for each index",
                found="a fraction" if fraction else f"a {type(extent).__name__}",
                hint=f"write {name}(*partition.shape)" if isinstance(extent, tuple) else hint,
            )
    return extents


@entry
def tunable(name: str, default: Any = None) -> Any:
    """A constant that the mapping binds by name. Raises `UnboundTunable` without a default."""
    return runner_of("tunable").tunable(name, default, users_place())


@entry
def make_tensor(shape: Any, dtype: Any) -> Tensor:
    """A tensor of the task's own, whose elements are undefined until a launch writes them."""
    runner, place = runner_of("make_tensor"), users_place()
    if type(dtype).__module__ != "tawa.language.dtypes":
        raise BadPartition(
            "`make_tensor` is given a type that is none of tawa.language",
            span=place,
            expected="tl.float32, tl.float16, ...; or the dtype of a tensor",
            found=repr(dtype),
        )
    return runner.make(as_sizes(shape, "make_tensor"), dtype, place)
