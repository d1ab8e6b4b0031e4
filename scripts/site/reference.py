"""The reference as Markdown, made from the code: signatures, docstrings, options, commands."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from markdown_text import cell, escaped

SOURCE = Path(__file__).parents[2] / "src" / "tawa"

PUBLIC = ("tawa", "tawa.kernels.gemm", "tawa.kernels.attention", "tawa.kernels.conv",
          "tawa.kernels.torch_attention", "tawa.kernels.torch_conv", "tawa.axon", "tawa.cuppl",
          "tawa.tasks")  # fmt: skip
"""Modules that users import."""


def options() -> str:
    """A section for each launch option: type, default, and what it does."""
    from tawa.base.options import Options

    said = _attribute_docstrings(Options)
    parts: list[str] = []
    for field in fields(Options):
        default = "" if field.default is MISSING else f", by default `{field.default!r}`"
        parts.append(f"## `{field.name}`\n\n`{field.type}`{default}\n\n{said.get(field.name, '')}")
    return "\n\n".join(parts)


def language() -> str:
    """The functions of the tile language, in the sections of the files that declare them."""
    import tawa.language as tl
    from tawa.language.builtin import LanguageFunction

    public = {v for v in vars(tl).values() if isinstance(v, LanguageFunction)}
    parts: list[str] = []
    for name in ("core", "math", "standard", "sorting", "scaled"):
        module = import_module(f"tawa.language.{name}")
        functions = [v for v in vars(module).values() if isinstance(v, LanguageFunction)]
        own = [f for f in functions if f in public and f.__wrapped__.__module__ == module.__name__]
        titles = list(_titles(module))
        before = ""
        for function in sorted(dict.fromkeys(own), key=_line):
            above = [title for line, title in titles if line < _line(function)]
            title = above[-1] if above else name
            if title != before:
                parts.append(f"## {title[0].upper()}{title[1:]}")
                before = title
            also = "  \nAlso a method of tensors." if function.is_method else ""
            heading = f"### `tl.{function.name}`"
            call = f"```python\ntl.{function.name}{_plain(function.signature)}\n```"
            parts.append(f"{heading}\n\n{call}\n\n{_documented(function)}{also}")
    return "\n\n".join(parts)


def _line(function: Any) -> int:
    return function.__wrapped__.__code__.co_firstlineno


def _titles(module: ModuleType) -> Iterator[tuple[int, str]]:
    """The lines of a file that begin a section, and what they say."""
    for number, line in enumerate(Path(str(module.__file__)).read_text().splitlines(), 1):
        if found := re.match(r"# --- (.+?) -+$", line):
            yield number, found[1]


def command_line() -> str:
    """Every command with its arguments and options."""
    from tawa.cli.app import LANGUAGES, command_line

    apps = {"tawa": command_line([])}
    apps |= {f"tawa {name}": import_module(home).app for name, (home, _) in LANGUAGES.items()}
    return "\n\n".join(
        _command(
            f"{start} {command.name or command.callback.__name__.rstrip('_')}", command.callback
        )
        for start, app in apps.items()
        for command in app.registered_commands
    )


def _command(name: str, function: Callable[..., Any]) -> str:
    """A section for a command: its documentation, and a row for each parameter."""
    rows = ["| argument or option | what it is |", "|---|---|"]
    types = inspect.get_annotations(function, eval_str=True)
    for parameter in inspect.signature(function).parameters.values():
        info: Any = parameter.default  # what Typer knows of it
        if not hasattr(info, "help"):
            continue
        if type(info).__name__ == "ArgumentInfo":
            shown = f"`{parameter.name.upper()}`"
        else:
            names = info.param_decls or [f"--{parameter.name.replace('_', '-')}"]
            value = "" if types[parameter.name] is bool else f" {_kind(types[parameter.name])}"
            shown = ", ".join(f"`{each}`" for each in names) + value
        default = "" if info.default in (..., None, False, [], "") else f" (`{info.default}`)"
        rows.append(f"| {shown} | {cell(info.help or '')}{default} |")
    said = escaped(inspect.cleandoc(function.__doc__ or "").replace("\b\n", ""))
    return "\n".join([f"## `{name}`", "", said, "", *(rows if len(rows) > 2 else [])])


def _kind(annotation: Any) -> str:
    """What a value of an option is, in a word; choices are listed."""
    kinds = [kind for kind in (*get_args(annotation), annotation) if inspect.isclass(kind)]
    if issubclass(kinds[0], Enum):
        return "\\|".join(member.value for member in kinds[0])
    return {"str": "TEXT", "Path": "FILE", "int": "NUMBER", "float": "NUMBER"}[kinds[0].__name__]


def api() -> str:
    """What the public modules export: signatures and docstrings."""
    parts: list[str] = []
    for name in PUBLIC:
        if name.rpartition(".")[2].startswith("torch_") and find_spec("torch") is None:
            parts.append(f"## `{name}`\n\n{_by_source(name)}")
            continue
        module = import_module(name)
        first = (module.__doc__ or "").partition("\n\n")[0]
        parts.append(f"## `{name}`\n\n{escaped(' '.join(first.split()))}")
        for exported in _exports(module):
            parts += _described(exported, getattr(module, exported))
    return "\n\n".join(parts)


def _by_source(name: str) -> str:
    """What a module that needs PyTorch says of itself, where PyTorch is not installed."""
    path = SOURCE.parent.joinpath(*name.split(".")).with_suffix(".py")
    tree = ast.parse(path.read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    said = [escaped(inspect.cleandoc(ast.get_docstring(tree) or ""))]
    for node in functions:
        if not node.name.startswith("_") and (text := ast.get_docstring(node)):
            head = f"```python\n{node.name}({ast.unparse(node.args)})\n```"
            said.append(f"### `{node.name}`\n\n{head}\n\n{escaped(inspect.cleandoc(text))}")
    return "\n\n".join(said)


def _exports(module: ModuleType) -> list[str]:
    """`__all__`, or what a module without it defines and does not hide."""
    if found := getattr(module, "__all__", None):
        return list(found)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]


def _described(name: str, value: Any) -> Iterator[str]:
    """A heading, the signature, the docstring; of a class its public methods, too."""
    if not callable(value):
        yield f"### `{name}`\n\n`{value!r}`"
        return
    yield f"### `{name}`\n\n{_call(name, value)}{_documented(value)}"
    if not inspect.isclass(value) or issubclass(value, BaseException):
        return
    for inner, found in vars(value).items():
        if inner.startswith("_") or not found.__doc__ or not _is_method(found):
            continue
        target = getattr(found, "fget", None) or getattr(found, "__func__", found)
        head = "" if isinstance(found, property) else _call(f"{name}.{inner}", target)
        yield f"#### `{name}.{inner}`\n\n{head}{_documented(target)}"


def _is_method(found: Any) -> bool:
    return inspect.isfunction(found) or isinstance(found, property | classmethod | staticmethod)


def _call(name: str, value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    return f"```python\n{name}{_plain(signature)}\n```\n\n"


def _plain(signature: inspect.Signature) -> str:
    """A signature without the names of modules, and broken into lines where it is long."""
    text = re.sub(r"\b(?:typing|collections\.abc|tawa(?:\.\w+)+|numpy)\.(?=\w)", "", str(signature))
    text = re.sub(r" object at 0x[0-9a-f]+", "", text).replace("'", "")
    if len(text) <= 80:
        return text
    inside, _, result = text.partition("(")[2].rpartition(")")
    lines = ",\n    ".join(_split(inside))
    return f"(\n    {lines},\n){result}"


def _split(text: str) -> list[str]:
    """Parameters, told apart at the commas outside of brackets."""
    parts, depth, begin = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(text[begin:index].strip())
            begin = index + 1
    return [*parts, text[begin:].strip()]


def _documented(value: Any) -> str:
    return escaped(inspect.cleandoc(value.__doc__ or ""))


def _attribute_docstrings(owner: type) -> dict[str, str]:
    """The strings below a class's attributes, by the attribute."""
    (tree,) = ast.parse(inspect.cleandoc(inspect.getsource(owner))).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for above, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(above, ast.AnnAssign) and isinstance(below, ast.Expr):
            text = getattr(below.value, "value", None)
            if isinstance(text, str) and isinstance(above.target, ast.Name):
                found[above.target.id] = escaped(inspect.cleandoc(text))
    return found


def axon() -> str:
    """The operators of Axon with their types, from its prelude."""
    text = (SOURCE / "axon" / "typing" / "prelude.ax").read_text()
    rows = ["| name | type | |", "|---|---|---|"]
    said = ""
    for line in text.splitlines():
        if line.startswith("## "):
            said = f"{said} {line[3:]}".strip()
        elif found := re.match(r"val (\(.+?\)|[\w']+) : (.*)", line):
            name, type_ = (part.replace("|", "\\|") for part in found.groups())
            rows.append(f"| `{name}` | `{type_}` | {cell(said)} |")
            said = ""
        elif not line.startswith((" ", "#")):
            said = ""
    return "\n".join(rows)


def cuppl() -> str:
    """The distributions of CuPPL: parameters, values, what is required."""
    from tawa.cuppl.distributions import DISTRIBUTIONS

    rows = ["| distribution | of | gives | needs |", "|---|---|---|---|"]
    for family in sorted(DISTRIBUTIONS.values(), key=lambda d: d.stem):
        parameters = ", ".join(f"{name} : {type_}" for name, type_ in family.parameters)
        rows.append(f"| `{family.stem}` | {parameters} | {family.value} | {family.requirement} |")
    return "\n".join(rows)


PARTS: dict[str, Callable[[], str]] = {
    "options": options,
    "language": language,
    "command-line": command_line,
    "api": api,
    "axon": axon,
    "cuppl": cuppl,
}
