"""Parts of Tawa that need more packages than the tile compiler: what to install for them."""

from __future__ import annotations

import re
from importlib.util import find_spec

from tawa.base.errors import TawaError
from tawa.base.import_closure import installed_versions

__all__ = ["MissingExtra", "require"]


class MissingExtra(TawaError, ImportError):
    """A part of Tawa was used whose packages are not installed."""

    explanation = (
        "`pip install tawa` brings the tile compiler alone. The tensor language Axon (with ONNX "
        "and the language server) needs `tawa[axon]`, the probabilistic language CuPPL "
        "`tawa[cuppl]`; `tawa[all]` has both. It is an `ImportError`, too."
    )
    example = """
from tawa.base.extras import require

require("cuppl", "CuPPL", "no_such_package")
"""


def require(extra: str, what: str, *packages: str) -> None:
    """Make sure that packages of an extra (`lark`, `llvmlite>=0.45`) are there.

    Raises MissingExtra. Imports none of them.
    """
    for package in packages:
        name, _, least = package.partition(">=")
        if find_spec(name) is None:
            found = f"no package {name}"
        elif least and _numbers(*installed_versions(name)) < _numbers(least):
            found = f"{name} {installed_versions(name)[0]}"
        else:
            continue
        error = MissingExtra(
            f"{what} needs packages that `pip install tawa` does not bring",
            expected=f"{name} {least} or later" if least else f"the package {name}",
            found=found,
            hint=f"pip install 'tawa[{extra}]'",
        )
        error.name = name
        raise error


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version starts with; of an unknown one, larger than any."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else (10**9,)
