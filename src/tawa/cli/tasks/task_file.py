"""Tasks in files, `file.py:name`, and the calls that their examples make."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tawa.base.errors import TawaError
from tawa.cli.kernel_file import EXAMPLE_PREFIX, KernelFileNotFound, NoExample, run_file
from tawa.runtime.arrays import is_array
from tawa.tasks.language.mapping import Mapping
from tawa.tasks.language.task import Task
from tawa.tasks.runnable import RunnableTask
from tawa.tasks.watching import watching


class TaskNotFound(TawaError):
    """The file has no task of the name given on the command line, or its example calls none."""

    explanation = (
        "Tasks are declared with `@task(...)` at the top level of the file, and called by its "
        "function `example_NAME()`. Name one as FILE.py:NAME; a file with a single example of a "
        "task needs no name."
    )
    example = """
from pathlib import Path

from tawa.cli.tasks.task_file import find_task

Path("tasks.py").write_text("import numpy as np\\n")
find_task("tasks.py:gemm")
"""


class BadShape(TawaError):
    """A `--shape` of a task's command is not one of its arguments' shapes."""

    explanation = "`--shape a=4096x8192` makes the example's argument `a` an array of that shape."
    example = """
from tawa.cli.tasks.task_file import shape_of_text

shape_of_text("a=4096*8192")
"""


@dataclass(frozen=True)
class FoundTask:
    """A task, the name it has in its module, and that module."""

    name: str
    task: RunnableTask
    module: ModuleType

    def example(self) -> Any:
        """Call the example; gives what it returns."""
        return getattr(self.module, EXAMPLE_PREFIX + self.name)()

    def arguments(self, shapes: Sequence[str] = ()) -> tuple[tuple[Any, ...], Mapping | None]:
        """The arguments, and the mapping, of the example's first call of the task.

        `shapes` (`a=4096x8192`) replace arrays by others, of any content. Raises `TaskNotFound`.
        """

        def stop(task: Task, args: tuple[Any, ...], mapping: Mapping | None) -> Mapping | None:
            if task is self.task:
                raise _Called(args, mapping)
            return mapping

        try:
            with watching(stop):
                self.example()
        except _Called as call:
            return self._shaped(call.args_, shapes), call.mapping
        raise TaskNotFound(
            f"`{EXAMPLE_PREFIX}{self.name}` ends without calling `{self.name}`",
            expected=f"a call `{self.name}(...)`",
        )

    def _shaped(self, args: tuple[Any, ...], shapes: Sequence[str]) -> tuple[Any, ...]:
        given = dict(shape_of_text(text) for text in shapes)
        for name in given:
            if name not in self.task.privileges:
                raise BadShape(
                    f"`{self.name}` has no tensor `{name}`",
                    expected=" or ".join(self.task.privileges),
                    found=name,
                )
        return tuple(
            np.empty(given[name], arg.dtype) if name in given and is_array(arg) else arg
            for name, arg in zip(self.task.parameters, args, strict=True)
        )


class _Called(BaseException):
    """Ends an example at its call; not an `Exception`, so that the example can't catch it."""

    def __init__(self, args: tuple[Any, ...], mapping: Mapping | None) -> None:
        super().__init__()
        self.args_, self.mapping = args, mapping


def shape_of_text(text: str) -> tuple[str, tuple[int, ...]]:
    """The name and sizes of `a=4096x8192`. Raises `BadShape`."""
    found = re.fullmatch(r"(\w+)=(\d+(?:x\d+)*)", text)
    if found is None:
        raise BadShape(f"`--shape {text}` can't be read", expected="NAME=4096x8192", found=text)
    return found[1], tuple(int(size) for size in found[2].split("x"))


def find_task(where: str) -> FoundTask:
    """The task that `FILE.py:NAME` names. Raises `KernelFileNotFound`, `TaskNotFound`, `NoExample`.

    The file is run, with its folder first on the import path.
    """
    file, _, name = where.partition(":")
    if not Path(file).is_file():
        raise KernelFileNotFound(
            f"there is no file {file}", expected="FILE.py:NAME", found=f"`{where}`"
        )
    module = run_file(Path(file))
    tasks = {n: v for n, v in vars(module).items() if isinstance(v, RunnableTask)}
    shown = [n for n in tasks if hasattr(module, EXAMPLE_PREFIX + n)]
    if not name and len(shown) == 1:
        (name,) = shown
    if name not in tasks:
        raise TaskNotFound(
            f"{Path(file).name} has no task `{name}`" if name else f"which task of {file}?",
            expected=" or ".join(shown or tasks) or "a function with `@task(...)`",
            found=f"`{name}`" if name else "no name",
        )
    if name not in shown:
        raise NoExample(
            f"{Path(file).name} does not say how `{name}` is called",
            expected=f"a function `{EXAMPLE_PREFIX}{name}()` that calls it",
            found="no function of that name",
        )
    return FoundTask(name, tasks[name], module)
