"""Gluon's names where Tawa stands for Triton: files with kernels in Gluon can be imported.

Libraries import them beside Triton's, and launch what is in Gluon on other GPUs, or on request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tawa import language
from tawa.triton.kernel import JITFunction
from tawa.triton.objects import NotProvided, missing

PATH = "triton.experimental.gluon"
PARTS = "", ".nvidia", ".nvidia.ampere", ".nvidia.hopper", ".nvidia.blackwell", ".amd"
"""Modules of its language, by what follows its name."""


class GluonFunction(JITFunction):
    """A function in Gluon: it can be named and tuned, and not compiled."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """With its grid: a call of it says that there is no Gluon."""
        return self._refuse

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises `NotProvided`."""
        self._refuse()

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> NoReturn:
        """Raises `NotProvided`."""
        self._refuse()

    def warmup(self, *args: Any, grid: Any = None, **kwargs: Any) -> NoReturn:
        """Raises `NotProvided`."""
        self._refuse()

    def compile(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises `NotProvided`."""
        self._refuse()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise NotProvided(
            f"{self.__name__} is written in Gluon, which says how Triton's compiler computes",
            expected="a kernel of `triton.jit`",
            hint="install Triton, and use `tawa.enable()`",
        )


def jit(fn: Any = None, **options: Any) -> Any:
    """`gluon.jit`, whose options say nothing where nothing is compiled."""
    return GluonFunction if fn is None else GluonFunction(fn)


def language_name(name: str) -> Any:
    """A name of `gluon.language`: ours where `triton.language` has it, else missing."""
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(language, name, None) or missing(f"{PATH}.language.{name}")


def contents() -> Mapping[str, Mapping[str, Any]]:
    """The names in each module of Gluon's, by its path."""
    return {
        "triton.experimental": {},
        PATH: {"jit": jit, "constexpr_function": language.constexpr_function},
        **{f"{PATH}.language{part}": {"__getattr__": language_name} for part in PARTS},
    }
