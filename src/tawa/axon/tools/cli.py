"""`tawa axon`: infer, run, plan, check, draw, format, repl, lsp."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from tawa.base.errors import TawaError
from tawa.base.extras import require

app = typer.Typer(no_args_is_help=True, help="Shape-inferred functional tensor programs.")

SourceFile = Annotated[Path, typer.Argument(help="An Axon program, FILE.ax.", exists=True)]


class Fill(StrEnum):
    """What arrays made for `run` contain."""

    RANDOM = "random"
    ONES = "ones"


class Device(StrEnum):
    """Where `run` computes."""

    CPU = "cpu"
    GPU = "gpu"
    SIMULATOR = "simulator"


@app.command()
def infer(
    file: SourceFile,
    requirements: Annotated[
        bool, typer.Option(help="Also say what is required of the sizes that the program names.")
    ] = True,
) -> None:
    """Print the type of every definition, what it requires of the sizes it names, and slips."""
    from tawa.axon.tools.explain import definition_requirements
    from tawa.axon.typing.language import axon
    from tawa.functional.unused import unused_names

    checked = axon().check_file(file)
    printer = checked.inference.printer
    definitions = {d.name: d for d in checked.syntax.definitions()}
    for name, scheme in checked.schemes.items():
        typer.echo(f"{name} : {printer().scheme(scheme)}")
        for requirement in definition_requirements(checked, name) if requirements else ():
            typer.echo(f"  {requirement}")
        for unused in unused_names(definitions[name]) if name in definitions else ():
            typer.echo(f"  `{unused.name}` at line {unused.span.line} is never used")


@app.command()
def run(
    file: SourceFile,
    function: Annotated[str, typer.Argument(help="The definition to run.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            help="A shape (2x3, or i64:2x3 for another element type), a number (0.5, or 2.0: plain "
            "2 is the shape [2]), or FILE.npy, for "
            "each parameter; tuples as (2x3,4)."
        ),
    ] = None,
    static: Annotated[
        list[str] | None, typer.Option("--static", "-s", help="A static argument, NAME=NUMBER.")
    ] = None,
    fill: Annotated[Fill, typer.Option(help="What made-up arrays contain.")] = Fill.RANDOM,
    seed: Annotated[int, typer.Option(help="Of random arrays.")] = 0,
    device: Annotated[
        Device,
        typer.Option(help="NumPy, GPU kernels (needs PyTorch), or these kernels in the simulator."),
    ] = Device.CPU,
) -> None:
    """Run a definition on arrays, and print the result."""
    found, values, statics = _call(file, function, arguments, static, fill, seed)
    if device is Device.CPU:
        typer.echo(_shown(found(*values, **statics)))
        return
    from tawa.axon import compile as compiled

    if device is Device.GPU:
        values = [_on_gpu(value) for value in values]
    typer.echo(_shown(_on_cpu(compiled(found)(*values, **statics))))


@app.command()
def plan(
    file: SourceFile,
    function: Annotated[str, typer.Argument(help="The definition to compile.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments as for `run`: their shapes matter.")
    ] = None,
    static: Annotated[
        list[str] | None, typer.Option("--static", "-s", help="A static argument, NAME=NUMBER.")
    ] = None,
    source: Annotated[bool, typer.Option("--source", help="Also print the kernels.")] = False,
) -> None:
    """Print the GPU kernels that a definition is made of, for arguments of given shapes."""
    from tawa.axon import compile as compiled

    found, values, statics = _call(file, function, arguments, static, Fill.ONES, 0)
    made = compiled(found)
    typer.echo(made.explain(*values, **statics))
    if source:
        texts = [launch.source for launch in made.plan(*values, **statics).launches]
        for text in dict.fromkeys(texts):
            typer.echo(f"\n{text}", nl=False)


def _call(
    file: Path, function: str, arguments: list[str] | None, static: list[str] | None, fill: Fill,
    seed: int,
) -> tuple[Any, list[Any], dict[str, int]]:  # fmt: skip
    """A definition, and the arguments that a command line stands for."""
    import numpy as np

    from tawa.axon.running.call import load

    module = load(file)
    if function not in module:
        raise typer.BadParameter(f"{file} defines {', '.join(module)}, not {function}")
    generator = np.random.default_rng(seed)
    values = [_argument(text, fill, generator) for text in arguments or []]
    return module[function], values, dict(_static(item) for item in static or [])


def _static(text: str) -> tuple[str, int]:
    """A static argument, `NAME=NUMBER`."""
    name, _, number = text.partition("=")
    try:
        return name, int(number)
    except ValueError:
        raise typer.BadParameter(f"a static argument is NAME=NUMBER, not {text}") from None


def _on_gpu(value: Any) -> Any:
    """Arrays as PyTorch's on the current device."""
    if isinstance(value, tuple):
        return tuple(_on_gpu(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    try:
        torch: Any = import_module("torch")
    except ImportError as error:
        raise GpuArraysNeedTorch(
            "`--device gpu` needs PyTorch", hint="install it, or use `--device simulator`"
        ) from error
    return torch.as_tensor(value, device="cuda")


def _on_cpu(value: Any) -> Any:
    """Arrays as NumPy's."""
    if isinstance(value, tuple):
        return tuple(_on_cpu(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return value.cpu().numpy() if hasattr(value, "cpu") else value


def _loaded(path: str) -> Any:
    """The array in a file."""
    import numpy as np

    if not Path(path).is_file():
        raise typer.BadParameter(f"there is no file {path}")
    try:
        return np.load(path)
    except ValueError as error:
        raise typer.BadParameter(f"{path} holds no array: {error}") from None


NUMBER = re.compile(r"-?(\d+\.\d*|\.\d+)(e-?\d+)?|-\d+")
"""What stands for a number, not for a shape."""


def _argument(text: str, fill: Fill, generator: Any) -> Any:
    """The value that a command-line argument stands for."""
    import numpy as np

    from tawa.axon.running.evaluate import DTYPES

    if text.count("(") != text.count(")") or text.startswith("(") != text.endswith(")"):
        raise typer.BadParameter(f"a parenthesis of {text} is not closed")
    if text.startswith("("):
        return tuple(_argument(part, fill, generator) for part in _split(text[1:-1]))
    if text.endswith(".npy"):
        return _loaded(text)
    element, _, sizes = text.rpartition(":")
    if not element and NUMBER.fullmatch(sizes):
        return np.float32(sizes)
    if element and element not in DTYPES:
        raise typer.BadParameter(f"{element} is none of {', '.join(DTYPES)}")
    dtype = np.dtype(DTYPES[element or "f32"])
    try:
        shape = tuple(int(size) for size in sizes.split("x") if size)
    except ValueError:
        raise typer.BadParameter(f"{text} is no shape, number or file") from None
    if fill is Fill.ONES:
        return np.ones(shape, dtype)
    if np.issubdtype(dtype, np.floating):
        return generator.standard_normal(shape).astype(dtype)
    return generator.integers(0, 2, shape).astype(dtype)


def _split(text: str) -> list[str]:
    parts: list[str] = []
    depth = 0
    for char in text:
        if char == "," and depth == 0:
            parts.append("")
            continue
        depth += (char == "(") - (char == ")")
        parts = parts or [""]
        parts[-1] += char
    return parts


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ",\n ".join(_shown(item) for item in value) + ")"  # pyright: ignore[reportUnknownVariableType]
    if callable(value):
        return "a function: give it more arguments"
    return f"{value}\n: {value.dtype}[{', '.join(str(n) for n in value.shape)}]"


@app.command()
def check(
    model: Annotated[Path, typer.Argument(help="An ONNX model.", exists=True)],
    input_: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", help="Sizes of an input: NAME=N,3,224,W (names are free)."),
    ] = None,
    values: Annotated[bool, typer.Option("--values", help="Print every value's shape.")] = False,
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", help="A rule for an operator: 'my:Gate=t[..s, 2*n] -> t[..s, n]'."),
    ] = None,
) -> None:
    """Infer the shapes in an ONNX model: outputs, and what is required of the inputs."""
    from tawa.axon.onnx.model import from_onnx
    from tawa.axon.sizes.show import AxonPrinter

    dims: dict[str, Sequence[int | str] | None] = {}
    for item in input_ or []:
        name, _, text = item.partition("=")
        dims[name] = _sizes(text)
    rules = {name: text for name, _, text in (item.partition("=") for item in rule or [])}
    loaded = from_onnx(model, dims or None, rules)
    shapes = loaded.shapes()
    printer = AxonPrinter()
    graph = loaded.model.graph
    weights = {initializer.name for initializer in graph.initializer}
    for entry in graph.input:
        if entry.name not in weights:
            typer.echo(f"input  {entry.name} : {shapes.text(entry.name, printer)}")
    if values:
        for node in graph.node:
            for name in filter(None, node.output):
                typer.echo(f"value  {name} : {shapes.text(name, printer)}  ({node.op_type})")
    for entry in graph.output:
        typer.echo(f"output {entry.name} : {shapes.text(entry.name, printer)}")
    for requirement in shapes.requirements():
        typer.echo(f"requires {requirement}")
    for remark in shapes.remarks():
        typer.echo(f"remark {remark}")


def _sizes(text: str) -> list[int | str]:
    return [int(size) if size.isdigit() else size for size in text.split(",") if size]


@app.command()
def draw(
    file: Annotated[Path, typer.Argument(help="FILE.ax, or an ONNX model.", exists=True)],
    function: Annotated[str | None, typer.Argument(help="The definition to draw.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The SVG file.")] = None,
) -> None:
    """Draw the inferred graph as SVG, with the shape on every edge."""
    from tawa.axon.tools.draw import svg

    if file.suffix == ".onnx":
        from tawa.axon.onnx.model import from_onnx
        from tawa.axon.tools.onnx_draw import model_graph

        loaded = from_onnx(file)
        graph = model_graph(loaded.model, loaded.shapes())
    else:
        from tawa.axon.tools.graph import function_graph
        from tawa.axon.typing.language import axon

        checked = axon().check_file(file)
        names = [definition.name for definition in checked.syntax.definitions()]
        if function is not None and function not in names:
            raise typer.BadParameter(f"{file} defines {', '.join(names)}, not {function}")
        graph = function_graph(checked, function or names[-1])
    target = output or file.with_suffix(".svg")
    target.write_text(svg(graph))
    typer.echo(f"{target}: {len(graph.nodes)} nodes, {len(graph.edges)} edges")


@app.command("format")
def format_(
    files: Annotated[list[Path], typer.Argument(help="Axon programs.", exists=True)],
    check_only: Annotated[
        bool, typer.Option("--check", help="Change nothing; fail if something would change.")
    ] = False,
) -> None:
    """Rewrite programs in one canonical layout."""
    from tawa.axon.tools.format import format_source

    changed = False
    for file in files:
        text = file.read_text()
        formatted = format_source(text, str(file))
        if formatted != text:
            changed = True
            typer.echo(f"{'would change' if check_only else 'changed'} {file}")
            if not check_only:
                file.write_text(formatted)
    if changed and check_only:
        raise typer.Exit(1)


@app.command()
def repl() -> None:
    """Type definitions and expressions; see types and values."""
    from tawa.axon.running.call import LoadedModule
    from tawa.axon.typing.language import axon
    from tawa.functional.language import CheckedModule
    from tawa.functional.repl import Repl

    def evaluate(module: CheckedModule, name: str) -> str | None:
        value = LoadedModule(module)[name]()
        return None if callable(value) else str(value)

    typer.echo("Axon. :help lists the commands.")
    Repl(axon(), evaluate).run(input, typer.echo)


@app.command()
def lsp() -> None:
    """Serve an editor over standard input and output: types on hover, shapes as inlay hints."""
    require("axon", "the language server", "pygls")
    from tawa.axon.tools.lsp import server

    sys.setrecursionlimit(100_000)
    server().start_io()


class GpuArraysNeedTorch(TawaError):
    """Arrays are to be put on a GPU, and PyTorch is missing."""

    explanation = "`tawa axon run --device gpu` makes its arrays with PyTorch: install it."
    example = (
        "import sys\nsys.modules['torch'] = None\n"
        "from tawa.axon.tools.cli import _on_gpu\n_on_gpu(1.0)"
    )
