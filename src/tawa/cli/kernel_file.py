"""Kernels in files: `kernel.py:name`, and the examples of how they are launched.

A file may say how its kernel `name` is launched: a function `example_name()` launches it, as any
program would, on arrays that it makes. `tawa run` calls that function. `tawa compile` calls it too,
but stops at the launch: what it was to be launched with says which types, constants and options to
compile for.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from tawa.base.decorated import layers
from tawa.base.errors import TawaError
from tawa.driver.decorator import jit
from tawa.driver.jit import Kernel

EXAMPLE_PREFIX = "example_"

WRITE_ONE = "write it: it makes arrays and launches; it may return {name: (result, expected)}"
OR_GIVE_TYPES = "or give the types of its arguments: --arg NAME=TYPE, --const NAME=VALUE"
"""What to do where it is missing: for any command, and for one that needs no launch."""


class KernelFileNotFound(TawaError):
    """The file of a kernel named on the command line does not exist."""

    explanation = "`tawa compile` and `tawa run` take a kernel as FILE.py:NAME."
    example = """
from tawa.cli.kernel_file import find_kernel

find_kernel("no/such/file.py:gemm")
"""


class KernelNotFound(TawaError):
    """The file has no kernel of the name given on the command line, or several and none was named.

    Also raised when the file has no kernel at all.
    """

    explanation = (
        "Kernels are functions decorated with `@tawa.jit` (or `@triton.jit`) at the top level of "
        "the file. Name one as FILE.py:NAME. A file needs no name if it has a single kernel, or an "
        "example of a single one."
    )
    example = """
from pathlib import Path

from tawa.cli.kernel_file import find_kernel

Path("kernels.py").write_text("import tawa\\n@tawa.jit\\ndef scale(x): pass\\n")
find_kernel("kernels.py:gemm")
"""


class NoExample(TawaError):
    """A kernel's file does not say how the kernel is launched, and the command line doesn't either.

    Types can't be guessed from a kernel's source.
    """

    explanation = (
        "Give the type of each argument with `--arg` and the value of each constexpr parameter "
        "with `--const`. Or write a function `example_NAME()` in the kernel's file: it makes "
        "arrays and launches the kernel `NAME` on them. `tawa run` needs that function."
    )
    example = """
from pathlib import Path

from tawa.cli.kernel_file import find_kernel

Path("kernels.py").write_text("import tawa\\n@tawa.jit\\ndef scale(x): pass\\n")
find_kernel("kernels.py:scale").example()
"""


class NothingLaunched(TawaError):
    """The example of a kernel ended without launching it."""

    explanation = "A function `example_NAME()` launches the kernel `NAME` of the same file."
    example = """
from pathlib import Path

from tawa.cli.kernel_file import find_kernel

source = "import tawa\\n@tawa.jit\\ndef scale(x): pass\\ndef example_scale(): pass\\n"
Path("kernels.py").write_text(source)
find_kernel("kernels.py:scale").recorded_launch()
"""


@dataclass(frozen=True)
class RecordedLaunch:
    """What a kernel was to be launched with."""

    grid: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def named(self, kernel: Kernel) -> dict[str, Any]:
        """The arguments by name, defaults included, and the launch options."""
        defaults = {p.name: p.default for p in kernel.parameters if p.has_default}
        names = (p.name for p in kernel.parameters)
        return {**defaults, **dict(zip(names, self.args, strict=False)), **self.kwargs}


@dataclass(frozen=True)
class FoundKernel:
    """A kernel, the name it has in its module, and that module.

    `outer` is what the name stands for: the kernel itself, or a decorator's object around it
    (`autotune`, `heuristics`, Triton's `jit`).
    """

    name: str
    kernel: Kernel
    outer: Any
    module: ModuleType

    @property
    def has_example(self) -> bool:
        """Whether the file says how the kernel is launched."""
        return hasattr(self.module, EXAMPLE_PREFIX + self.name)

    def example(self) -> Any:
        """Call the kernel's example; the result is the example's. Raises `NoExample`."""
        return self._example(WRITE_ONE)()

    def recorded_launch(self, instead: str = WRITE_ONE) -> RecordedLaunch:
        """What the example launches the kernel with, without launching it.

        Raises `NoExample`, with what to do `instead`, or `NothingLaunched`.
        """
        example = self._example(instead)
        try:
            with self._intercepted():
                example()
        except _Launched as launched:
            return launched.record
        raise NothingLaunched(
            f"`{EXAMPLE_PREFIX}{self.name}` ends without launching `{self.name}`",
            expected=f"a launch `{self.name}[grid](...)`",
        )

    @contextmanager
    def launches(self, options: Mapping[str, Any]) -> Generator[list[int]]:
        """Give launches of the kernel these options; the list gets the device of each."""
        prepared = Kernel.prepared
        places: list[int] = []

        def prepare(
            kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], grid: Any = None
        ) -> Any:
            if kernel is not self.kernel:
                return prepared(kernel, args, kwargs, grid)
            kwargs.update(options)
            found = prepared(kernel, args, kwargs, grid)
            places.append(found[0].place)
            return found

        setattr(Kernel, "prepared", prepare)  # noqa: B010
        try:
            yield places
        finally:
            setattr(Kernel, "prepared", prepared)  # noqa: B010

    def _example(self, hint: str) -> Callable[[], Any]:
        found = getattr(self.module, EXAMPLE_PREFIX + self.name, None)
        if found is None:
            file = Path(cast(str, self.module.__file__)).name
            raise NoExample(
                f"{file} does not say how `{self.name}` is launched",
                expected=f"a function `{EXAMPLE_PREFIX}{self.name}()` that launches it",
                found="no function of that name",
                hint=hint,
            )
        return found

    @contextmanager
    def _intercepted(self) -> Generator[None]:
        """Launches of the kernel raise `_Launched`, by whatever name it is launched."""
        launch = Kernel._launch  # pyright: ignore[reportPrivateUsage]

        def intercept(kernel: Kernel, grid: Any, /, *args: Any, **kwargs: Any) -> Any:
            if kernel is self.kernel:
                raise _Launched(RecordedLaunch(grid, args, kwargs))
            return launch(kernel, grid, *args, **kwargs)

        setattr(Kernel, "_launch", intercept)  # noqa: B010
        try:
            yield
        finally:
            setattr(Kernel, "_launch", launch)  # noqa: B010


class _Launched(BaseException):
    """Ends an example at its launch; not an `Exception`, so that the example can't catch it."""

    def __init__(self, record: RecordedLaunch) -> None:
        super().__init__()
        self.record = record


def _instead(path: Path) -> str | None:
    """What was meant by a path that is no file's."""
    if path.is_dir():
        return f"{path} is a folder"
    if path.with_suffix(".py").is_file():
        return f"did you mean {path.with_suffix('.py')}?"
    return None


def find_kernel(where: str) -> FoundKernel:
    """The kernel that `FILE.py:NAME` names. Raises `KernelFileNotFound`, `KernelNotFound`.

    The file is run, with its folder first on the import path.
    """
    file, _, name = where.partition(":")
    path = Path(file)
    if not path.is_file():
        raise KernelFileNotFound(
            f"there is no file {file}",
            expected="FILE.py:NAME",
            found=f"`{where}`",
            hint=_instead(path) or "paths are from the folder that the command runs in",
        )
    module = run_file(path)
    everything = {key: value for key, value in vars(module).items() if layers(value)}
    kernels = {key: value for key, value in everything.items() if _is_own(value, module)}
    shown = [key for key in kernels if hasattr(module, EXAMPLE_PREFIX + key)]
    if not name and 1 in (len(kernels), len(shown)):
        name = next(iter(shown or kernels))
    # One that is imported has to be named.
    kernels = everything if name in everything else kernels
    if name not in kernels:
        named = f"`{name}`" if name else "no name"
        raise KernelNotFound(
            f"{path.name} has no kernel `{name}`" if name else f"which kernel of {path.name}?",
            expected=f"one of {', '.join(kernels)}" if kernels else "a function with `@tawa.jit`",
            found=named if kernels else "no kernel at the file's top level",
            hint=_what_to_name(module, name, path, [*shown, *kernels]),
        )
    outer = kernels[name]
    kernel = layers(outer)[-1]
    if not isinstance(kernel, Kernel):
        kernel = outer = jit(outer)  # one of Triton's
        setattr(module, name, kernel)
    return FoundKernel(name, kernel, outer, module)


def _what_to_name(module: ModuleType, name: str, path: Path, kernels: list[str]) -> str:
    """What to do where a file has no kernel of a name, or several and none is named."""
    if callable(getattr(getattr(module, name, None), "interpret", None)):
        return f"`{name}` is a task: tawa tasks run {path}:{name}"
    close = [*get_close_matches(name, kernels, n=1), *kernels]
    return f"write {path.name}:{close[0]}" if kernels else "decorate a function"


def run_file(path: Path) -> ModuleType:
    """Run a Python file as the module of its name."""
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _is_own(value: Any, module: ModuleType) -> bool:
    """Whether `value` is a kernel that the module itself defines."""
    around = layers(value)
    return bool(around) and getattr(around[-1].fn, "__module__", None) == module.__name__
