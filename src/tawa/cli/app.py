"""The commands of `tawa` and their options."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path

import typer

from tawa.cli import completion

HELP = """
Compile sequential tile kernels to warp-specialised GPU code, and see what the compiler did.
"""

LANGUAGES = {
    "axon": ("tawa.axon.tools.cli", "Shape-inferred functional tensor programs."),
    "tasks": ("tawa.cli.tasks.commands", "Task programs and their mappings."),
    "cuppl": ("tawa.cuppl.cli", "Functional probabilistic programs."),
}
"""The other languages: the module of each one's own commands, and what it is."""


def command_line(arguments: Sequence[str]) -> typer.Typer:
    """The application; a language's commands are loaded only when `arguments` name it."""
    completion.join_at_colons(os.environ)
    arguments = list(arguments) or os.environ.get("COMP_WORDS", "").split()[1:]  # a shell completes
    app = typer.Typer(
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options_of_all)
    app.command("compile")(compile_)
    app.command("run")(run)
    app.command("check")(check)
    app.command("report")(report)
    app.command("timeline")(timeline)
    app.command("tune")(tune)
    app.command("explain")(explain)
    app.command("doctor")(doctor)
    app.command("bug")(bug)
    for name, (_, text) in LANGUAGES.items():
        wanted = name in arguments[:1]
        app.add_typer(_language(name) if wanted else _named(), name=name, help=text)
    _let_help_flow(app)
    return app


def _let_help_flow(app: typer.Typer) -> None:
    """Give commands their docstrings as help, a paragraph a line: a terminal breaks the lines."""
    for command in app.registered_commands:
        paragraphs = inspect.cleandoc(command.callback.__doc__ or "").split("\n\n")
        command.help = "\n\n".join(" ".join(text.split()) for text in paragraphs)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _let_help_flow(group.typer_instance)


def _language(name: str) -> typer.Typer:
    return import_module(LANGUAGES[name][0]).app


def _named() -> typer.Typer:
    """What stands for a language in the list of commands."""
    stand_in = typer.Typer()
    stand_in.callback()(lambda: None)
    return stand_in


def _print_version(wanted: bool) -> None:
    if wanted:
        from tawa.cli.versions import version_lines

        typer.echo("\n".join(version_lines()))
        raise typer.Exit


def options_of_all(
    version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print the version, and what a report of a problem needs.",
    ),
) -> None:
    """Compile sequential tile kernels to warp-specialised GPU code."""


KERNEL = typer.Argument(
    help="The kernel: FILE.py:NAME.", show_default=False, autocompletion=completion.kernels
)
OPTION = typer.Option(
    [], "--option", help="A launch option: NAME=VALUE.", autocompletion=completion.launch_options
)


class Emit(StrEnum):
    """What `tawa compile --emit` can show."""

    tile = "tile"
    aref = "aref"
    hopper = "hopper"
    cuda = "cuda"
    ptx = "ptx"
    cubin = "cubin"
    sass = "sass"


def compile_(
    kernel: str = KERNEL,
    emit: Emit | None = typer.Option(None, help="Print this stage instead of a summary."),
    output: Path | None = typer.Option(None, "-o", "--output", help="Write the stage there."),
    explain: bool = typer.Option(False, "--explain", help="Print what each pass decided."),
    arg: list[str] = typer.Option(
        [], help="Type of an argument: NAME=desc:f16[128,64], NAME=ptr:f32, NAME=i32."
    ),
    const: list[str] = typer.Option([], help="Value of a constexpr parameter: NAME=VALUE."),
    option: list[str] = OPTION,
    dump: Path | None = typer.Option(None, help="Write every stage into this folder."),
    override: list[str] = typer.Option([], help="Replace a stage by a file: NAME.hopper."),
    start: str | None = typer.Option(None, help="Start from a stage's file, not the source."),
) -> None:
    """Compile a kernel; needs no GPU.

    Types, constants and options are those of the launch in the file's function `example_NAME()`,
    changed by what is given here; a file without one needs `--arg` and `--const` for all.
    """
    from tawa.cli.compile import CompileCommand, stage_of, stage_table, write_output

    command = CompileCommand(kernel, arg, const, option)
    compiled = command.compile(start, override, dump)
    if emit is not None:
        write_output(stage_of(compiled, emit), output, terminal=sys.stdout.isatty())
    elif not explain:
        typer.echo("\n".join([compiled.name, *stage_table(compiled.stages, compiled.timings)]))
    if explain:
        typer.echo(compiled.explain, err=emit is not None)
    if dump is not None:
        typer.echo(f"stages written to {dump}", err=True)


def run(kernel: str = KERNEL, option: list[str] = OPTION) -> None:
    """Run a kernel's example: the file's function `example_NAME()`.

    On NumPy arrays the kernel runs in the simulator, on arrays of a GPU it runs there. A mapping
    that the example returns, of names to pairs (result, expected), is compared and shown. Options
    that are given here go before those of the example's launches.
    """
    from tawa.cli.run import run_example

    raise typer.Exit(run_example(kernel, option))


def check(
    kernel: str = KERNEL,
    option: list[str] = OPTION,
    start: str | None = typer.Option(None, help="Check a stage's file, not the source."),
    bound: int = typer.Option(1_000_000, help="States that the search visits at most."),
    steps: int = typer.Option(1_000_000, help="Operations that one cluster may execute."),
    clusters: int = typer.Option(1024, help="Clusters of the launch that are run."),
    seconds: float | None = typer.Option(None, help="Time after which to give up."),
    schedules: int = typer.Option(4, help="Random schedules whose results are compared."),
    pairs: bool = typer.Option(False, "--pairs", help="With every two launch options' values."),
    all_: bool = typer.Option(False, "--all", help="With every combination of launch options."),
) -> None:
    """Check that a kernel's programs and warp groups communicate safely; needs no GPU.

    It runs the launch of `example_NAME()` at the tile level. There it finds accesses of global
    memory that nothing orders between two programs, accesses outside of arrays, and loads of what
    nobody wrote. Then it simulates the launch at the last level of the compiler, with warp groups,
    copies and matrix instructions as concurrent actors, and searches every order in which they can
    communicate. It runs the PTX, and compares the results of the three. These claims are about that
    launch and its sizes. Where it can, it also proves the communication for every launch.

    The exit status is 0 for a launch that is proved, 1 for one that is unsafe, and 3 for one of
    which too little could be seen, because a limit was reached.
    """
    from tawa.cli.check import check_combinations, check_example
    from tawa.simulate.interpret.limits import Limits

    limits = Limits(bound, steps, clusters, seconds)
    if all_ or pairs:
        raise typer.Exit(check_combinations(kernel, option, every=all_, limits=limits))
    raise typer.Exit(check_example(kernel, option, start, schedules=schedules, limits=limits))


LAUNCH = typer.Option(
    None, help="A Python expression that launches the kernel; instead of the file's example."
)
CLOCK = typer.Option(None, help="The clock to predict times at, in GHz.")
MEASURE = typer.Option(
    False, "--measure", help="Run the example on a GPU, and show what its warp groups did."
)


def report(
    kernel: str = KERNEL,
    output: Path | None = typer.Option(
        None, "-o", "--output", help="The page; NAME.html if not given."
    ),
    arg: list[str] = typer.Option([], help="Type of an argument, as for `tawa compile`."),
    const: list[str] = typer.Option([], help="Value of a constexpr parameter: NAME=VALUE."),
    option: list[str] = OPTION,
    launch: str | None = LAUNCH,
    clock: float | None = CLOCK,
    measure: bool = MEASURE,
    against: list[str] = typer.Option(
        [],
        help="Show what differs from another kernel, FILE.py:NAME, or with NAME=VALUE.",
    ),
) -> None:
    """Write a page about a kernel: linked code, timeline, limits; needs no GPU.

    One HTML file that needs no network: the source, every level of IR, CUDA C++ and machine code
    with linked lines, the predicted timeline, shared memory, registers, and what bounds the time.
    With `--arg`, which changes what the example launches, times are left out. With `--against`, the
    page shows what differs: numbers, times and every listing.
    """
    from tawa.cli.reporting import LaunchCommand, against_of, write_difference, write_report

    command = LaunchCommand(kernel, arg, const, option, launch)
    if against:
        path = write_difference(command, against_of(command, against), output, clock)
    else:
        path = write_report(command, output, clock, measure)
    typer.echo(f"{path} ({path.stat().st_size / 1e3:.0f} kB): open it in a browser")


def timeline(
    kernel: str = KERNEL,
    output: Path = typer.Option(..., "-o", "--output", help="FILE.json, FILE.svg or FILE.png."),
    const: list[str] = typer.Option([], help="Value of a constexpr parameter: NAME=VALUE."),
    option: list[str] = OPTION,
    launch: str | None = LAUNCH,
    clock: float | None = CLOCK,
    measure: bool = MEASURE,
) -> None:
    """Write the predicted timeline of a kernel's launch; needs no GPU.

    As a trace for ui.perfetto.dev (.json), as a drawing (.svg) or as an image (.png).
    """
    from tawa.cli.reporting import LaunchCommand
    from tawa.cli.timeline import format_of, write_timeline

    format_of(output)
    said = write_timeline(LaunchCommand(kernel, [], const, option, launch), output, clock, measure)
    typer.echo(f"{output}: {said}")


def tune(
    kernel: str = KERNEL,
    output: Path | None = typer.Option(
        None, "-o", "--output", help="The file that results are kept in (JSON)."
    ),
    option: list[str] = OPTION,
    launch: str | None = LAUNCH,
    measured: int = typer.Option(4, help="Candidates that are timed on a GPU."),
) -> None:
    """Find the best options for a kernel's launch, and what each candidate takes.

    The launch is that of `example_NAME()`. On arrays of a GPU the best few are measured; without
    one, the timing model ranks the candidates and nothing runs. For a kernel that is tuned
    (`tawa.autotune`), the candidates are made of its configurations.
    """
    from tawa.cli.tuning import tune_example

    typer.echo(tune_example(kernel, output, option, launch, measured))


def explain(
    name: str = typer.Argument(
        help="A kernel, FILE.py:NAME, or the name in an error's brackets, such as `BadKnob`.",
        autocompletion=completion.explainable,
    ),
    const: list[str] = typer.Option([], help="Value of a constexpr parameter: NAME=VALUE."),
    option: list[str] = OPTION,
    launch: str | None = LAUNCH,
    clock: float | None = CLOCK,
) -> None:
    """Say why a kernel takes its time, line by line, or what an error message means.

    Of a kernel: the lines that its predicted time goes to, what binds it, and the changes that are
    predicted to gain most. Needs no GPU. The launch is that of `example_NAME()`, or `--launch`.
    """
    if ".py" in name:
        from tawa.cli.reporting import LaunchCommand

        typer.echo(LaunchCommand(name, [], const, option, launch).explanation(clock))
        return
    from tawa.cli.explain import print_explanation

    print_explanation(name)


def bug(
    kernel: str = KERNEL,
    output: Path | None = typer.Option(
        None, "-o", "--output", help="The file; bug_NAME.py if not given."
    ),
    arg: list[str] = typer.Option([], help="Type of an argument, as for `tawa compile`."),
    const: list[str] = typer.Option([], help="Value of a constexpr parameter: NAME=VALUE."),
    option: list[str] = OPTION,
) -> None:
    """Write a file that shows a problem with a kernel on any machine: needs no GPU.

    The file holds the kernel's source and that of the modules it imports, types, constants and
    options, the versions of this machine, and what happens here. It compiles the kernel when it is
    run. Look at it before you send it: it is your source.
    """
    from tawa.cli.bug import write_reproduction

    typer.echo(write_reproduction(kernel, arg, const, option, output))


def doctor() -> None:
    """List what this machine has of what Tawa can use."""
    from tawa.cli.doctor import report

    raise typer.Exit(report())
