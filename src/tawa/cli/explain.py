"""`tawa explain`: what an error message means."""

from __future__ import annotations

import pkgutil
import re
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

import tawa
from tawa.base.errors import TawaError
from tawa.base.errors import explain as explanation_of


class UnknownErrorName(TawaError):
    """`tawa explain` was asked about a name that no error has."""

    explanation = (
        "`tawa explain` takes the name that stands in brackets at the start of an error message: "
        "for `error[BadKnob]: ...` that is `BadKnob`. `docs/errors.md` lists all names."
    )
    example = """
from tawa.cli.explain import print_explanation

print_explanation("BadKnop")
"""


def error_classes() -> dict[str, type[TawaError]]:
    """Every error class of the installed package, by name.

    Imports all modules; one that needs an optional package that isn't installed is left out.
    """
    for module in pkgutil.walk_packages(tawa.__path__, "tawa.", onerror=_ignore_missing):
        if module.name != "tawa.__main__":
            try:
                import_module(module.name)
            except ImportError as error:
                _reraise_if_ours(error)
    return {
        name: cls
        for name, cls in TawaError.registry.items()
        if cls.__module__.partition(".")[0] == "tawa"
    }


def _reraise_if_ours(error: ImportError) -> None:
    if (error.name or "").partition(".")[0] == "tawa":
        raise error


def _ignore_missing(name: str) -> None:
    """Skip a package whose optional requirement is missing; `error_classes` tells real errors."""


_EXPLAINED = re.compile(r"^class (\w+)\((?:(?!^\S).)*?^    explanation\b", re.MULTILINE | re.DOTALL)
"""A class with an explanation, in the text of a module."""


def explained() -> dict[str, str]:
    """The modules of the error classes, by the classes' names; nothing is imported."""
    root = Path(tawa.__path__[0])
    return {
        name: ".".join(("tawa", *path.relative_to(root).with_suffix("").parts))
        for path in sorted(root.rglob("*.py"))
        for name in _EXPLAINED.findall(path.read_text())
        if name != TawaError.__name__
    }


def _load(name: str, module: str) -> None:
    """Import the module of an error class. Raises `UnknownErrorName` where its extra is missing."""
    try:
        import_module(module)
    except ImportError as error:
        _reraise_if_ours(error)
        raise UnknownErrorName(
            f"{name} belongs to a part of Tawa that is not installed",
            found=f"no package {error.name}",
            hint="pip install 'tawa[all]'",
        ) from None


def print_explanation(name: str) -> None:
    """Print what the error `name` means. Raises `UnknownErrorName`."""
    from rich.console import Console
    from rich.markdown import Markdown

    known = explained()
    if name in known:
        _load(name, known[name])
    else:
        close = get_close_matches(name, known, n=3)
        raise UnknownErrorName(
            f"no error is called {name}",
            hint=f"did you mean {' or '.join(close)}?"
            if close
            else "an error's name stands in its brackets",
        )
    Console().print(Markdown(explanation_of(name) or ""))
