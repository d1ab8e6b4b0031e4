"""The commands of `tawa tasks`."""

from __future__ import annotations

from pathlib import Path

import typer

from tawa.cli import completion

__all__ = ["app"]

app = typer.Typer(help="Task programs and their mappings.", no_args_is_help=True)

TASK = typer.Argument(
    help="The task: FILE.py:NAME.", show_default=False, autocompletion=completion.tasks
)
MAPPING = typer.Option(None, "--mapping", help="A file with `mapping = Mapping(...)`.")
SHAPE = typer.Option(
    [], "--shape", help="Shape of an argument in place of the example's: a=4096x8192."
)


@app.command()
def run(where: str = TASK, mapping: Path | None = MAPPING) -> None:
    """Run a task's example: the file's function `example_NAME()`, under a mapping.

    A mapping that the example returns, of names to pairs (result, expected), is compared and shown.
    """
    from tawa.cli.run import compared
    from tawa.cli.tasks.task_file import find_task
    from tawa.tasks import Mapping
    from tawa.tasks.watching import watching

    found = find_task(where)
    given = None if mapping is None else Mapping.read(mapping)
    with watching(lambda task, args, own: given if given and task is found.task else own):
        result = found.example()
    typer.echo(f"{found.name}: ran" + ("" if mapping is None else f" under {mapping}"))
    raise typer.Exit(compared(result))


@app.command()
def show(
    where: str = TASK,
    stage: str = typer.Option("copies", help="tasks, copies, events, mapping, or a kernel."),
    svg: Path | None = typer.Option(None, help="Write the event graph there, as a picture."),
    mapping: Path | None = MAPPING,
    shape: list[str] = SHAPE,
) -> None:
    """Show what a task program becomes: with all copies, without, its events, its kernels."""
    from tawa.cli.tasks.showing import called, node_stage, stage_of

    task, args, own = called(where, mapping, shape)
    if own is not None and own.on_node:
        typer.echo(node_stage(task, args, own, stage).rstrip())
        return
    program = task.compile(*args, mapping=own)
    if svg is not None:
        svg.write_text(program.svg())
        typer.echo(f"{svg}: {len(program.graph)} events")
        return
    typer.echo(stage_of(program, stage).rstrip())


@app.command(name="compile")
def compile_(where: str = TASK, mapping: Path | None = MAPPING, shape: list[str] = SHAPE) -> None:
    """Compile a task program's kernels and predict their times; needs no GPU."""
    from tawa.cli.tasks.showing import compiled, kernel_lines

    for line in kernel_lines(*compiled(where, mapping, shape)):
        typer.echo(line)


@app.command()
def check(
    where: str = TASK,
    mapping: Path | None = MAPPING,
    bound: int = typer.Option(1_000_000, help="States that the search visits at most."),
    steps: int = typer.Option(1_000_000, help="Operations that one cluster may execute."),
    clusters: int = typer.Option(1024, help="Clusters of the launch that are run."),
    seconds: float | None = typer.Option(None, help="Time after which to give up."),
    schedules: int = typer.Option(4, help="Random schedules whose results are compared."),
    shape: list[str] = SHAPE,
) -> None:
    """Check that the kernels of a task program communicate safely; needs no GPU.

    Each kernel of the example's call is checked as `tawa check` does, with what the kernels before
    it wrote; on several devices also that streams and events order what touches the same elements.
    The exit status is 0 if all are proved, 1 if one is unsafe, 3 if a limit was reached.
    """
    from tawa.cli.tasks.check_node import check_node
    from tawa.cli.tasks.check_program import check_program
    from tawa.cli.tasks.showing import called
    from tawa.simulate.interpret.limits import Limits

    task, args, own = called(where, mapping, shape)
    limits = Limits(bound, steps, clusters, seconds)
    if own is not None and own.on_node:
        raise typer.Exit(check_node(task, args, own, schedules, limits))
    program = task.compile(*args, mapping=own)
    raise typer.Exit(check_program(program, args, schedules, limits))


@app.command(name="map")
def map_(
    where: str = TASK,
    output: Path = typer.Option(..., "-o", "--output", help="The file for the mapping."),
    mapping: Path | None = typer.Option(None, "--mapping", help="The mapping to begin with."),
    seconds: float = typer.Option(60.0, help="How long to look for a faster one; 0: defaults."),
    shape: list[str] = SHAPE,
) -> None:
    """Fill a mapping in, and write it to a file that may be edited.

    What defaults say is written out; then choices that the timing model expects to be faster are
    kept. On arrays of a GPU the best few are measured.
    """
    from tawa.cli.tasks.showing import write_mapping

    for line in write_mapping(where, mapping, shape, seconds, output):
        typer.echo(line)
