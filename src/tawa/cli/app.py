"""The commands of `tawa` and their options."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import typer

HELP = """
Compile sequential tile kernels to warp-specialised GPU code, and see what the compiler did.
"""

LANGUAGES = {
    "axon": "Shape-inferred functional tensor programs.",
    "cuppl": "Functional probabilistic programs.",
}
"""The other languages: each brings commands of its own, from `tawa.NAME.cli`."""


def command_line(arguments: Sequence[str]) -> typer.Typer:
    """The application; a language's commands are loaded only when `arguments` name it."""
    app = typer.Typer(
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options_of_all)
    app.command("explain")(explain)
    app.command("doctor")(doctor)
    for name, text in LANGUAGES.items():
        if (Path(__file__).parents[1] / name / "cli.py").exists():
            wanted = name in arguments[:1]
            app.add_typer(_language(name) if wanted else _named(), name=name, help=text)
    return app


def _language(name: str) -> typer.Typer:
    return import_module(f"tawa.{name}.cli").app


def _named() -> typer.Typer:
    """What stands for a language in the list of commands."""
    stand_in = typer.Typer()
    stand_in.callback()(lambda: None)
    return stand_in


def _print_version(wanted: bool) -> None:
    if wanted:
        from tawa import __version__

        typer.echo(f"tawa {__version__}")
        raise typer.Exit


def options_of_all(
    version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print the version.",
    ),
) -> None:
    """Compile sequential tile kernels to warp-specialised GPU code."""


def explain(
    name: str = typer.Argument(help="The name in an error's brackets, such as `BadKnob`."),
) -> None:
    """Explain an error message: what it means and what to do."""
    from tawa.cli.explain import print_explanation

    print_explanation(name)


def doctor() -> None:
    """List what this machine has of what Tawa can use."""
    from tawa.cli.doctor import report

    raise typer.Exit(report())
