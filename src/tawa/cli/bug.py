"""`tawa bug`: one file that shows a problem with a kernel on any machine.

It holds the kernel's file and the modules of the user's that the file imports, what the kernel is
compiled for, the versions of the machine and what happened there. Run, it compiles the kernel.
"""

from __future__ import annotations

import sys
import traceback
from ast import literal_eval
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tawa.base.errors import TawaError
from tawa.base.options import Options
from tawa.base.user_frames import is_users_file
from tawa.cli.compile import CompileCommand
from tawa.cli.kernel_file import EXAMPLE_PREFIX
from tawa.cli.versions import version_lines

if TYPE_CHECKING:
    from tawa.driver.request import Request

PROGRAM = '''\
"""A problem with Tawa: `python {name}` shows it, `tawa bug` wrote it.

What was expected instead, please, here:

{seen}
"""

import sys
import tempfile
from pathlib import Path

FILES = {files}

folder = tempfile.mkdtemp()
sys.path.insert(0, folder)
for name, text in FILES.items():
    path = Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)

from {module} import {kernel}  # noqa: E402

{call}
'''


class NotReproducible(TawaError):
    """A kernel's launch can't be written down in a file."""

    explanation = (
        "`tawa bug` writes the values of constexpr parameters as Python. An object of another "
        "class has no such text: give a simpler value with `--const NAME=VALUE`."
    )
    example = """
from tawa.cli.bug import as_python

as_python("SHAPE", slice(4))
"""


def write_reproduction(
    where: str, types: list[str], constants: list[str], options: list[str], output: Path | None
) -> str:
    """Write the reproduction of a kernel's compilation; the result says where and what it shows.

    Raises the errors of `find_kernel`, and NotReproducible.
    """
    before = set(sys.modules)
    command = CompileCommand(where, types, constants, options)
    module = command.found.module
    loaded = {name: found for name, found in list(sys.modules.items()) if name not in before}
    files = own_sources({**loaded, module.__name__: module})
    call, happened = _attempt(command)
    path = output or Path(f"bug_{command.found.name}.py")
    seen = "\n".join([*version_lines(), "", "What happened:", "", happened])
    path.write_text(
        PROGRAM.format(
            name=path.name,
            seen=seen.replace("\\", "\\\\").replace('"""', "'''"),
            files=_as_literal(files),
            module=module.__name__,
            kernel=command.found.name if "{kernel}" in call else _example_of(command),
            call=call.replace("{kernel}", command.found.name),
        )
    )
    first = happened.partition("\n")[0]
    return f"{path}: {len(files)} file(s) of source, {path.stat().st_size / 1e3:.0f} kB\n{first}"


def _attempt(command: CompileCommand) -> tuple[str, str]:
    """The line that shows what happens, with the kernel as `{kernel}`, and what happened here."""
    try:
        request = command.request()
    except TawaError as error:
        if command.types or command.constants or not command.found.has_example:
            raise
        return f"{_example_of(command)}()", error.render()
    call = compile_call(request)
    try:
        compiled = command.compile()
    except TawaError as error:
        return call, error.render()
    except Exception:
        return call, traceback.format_exc()
    return call, f"{compiled!r}\n{compiled.explain}"


def _example_of(command: CompileCommand) -> str:
    return EXAMPLE_PREFIX + command.found.name


def compile_call(request: Request) -> str:
    """A program's line that compiles for a request and shows the result."""
    plain = asdict(Options())
    pinned = {n: v for n, v in asdict(request.options).items() if v != plain[n]}
    given: dict[str, Any] = {**request.types, **request.constants, **pinned}
    arguments = ", ".join(f"{name}={as_python(name, value)}" for name, value in given.items())
    return f"compiled = {{kernel}}.compile({arguments})\nprint(compiled)\nprint(compiled.explain)"


def as_python(name: str, value: Any) -> str:
    """The text of a constexpr parameter's value. Raises NotReproducible."""
    text = repr(value)
    try:
        same = literal_eval(text) == value
    except (ValueError, SyntaxError):
        same = False
    if not same:
        raise NotReproducible(
            f"the value of `{name}` can't be written as Python",
            expected="a number, a text, None, or a tuple of these",
            found=text[:60],
            hint=f"give another with --const {name}=VALUE",
        )
    return text


def own_sources(modules: Mapping[str, ModuleType]) -> dict[str, str]:
    """The texts of the modules that are the user's own, by the path that imports find them at."""
    found: dict[str, str] = {}
    for name, module in modules.items():
        file = getattr(module, "__file__", None)
        if file is None or not file.endswith(".py") or not is_users_file(file):
            continue
        parts = name.split(".")
        package = Path(file).name == "__init__.py"
        path = Path(*parts, "__init__.py") if package else Path(*parts).with_suffix(".py")
        found[str(path)] = Path(file).read_text()
    return found


def _as_literal(files: Mapping[str, str]) -> str:
    """Texts as a dict in Python, line by line, so that they can be read where they stand."""
    lines = ["{"]
    for name, text in files.items():
        lines.append(f"    {name!r}: (")
        lines += [f"        {line!r}" for line in text.splitlines(keepends=True) or [""]]
        lines.append("    ),")
    return "\n".join([*lines, "}"])
