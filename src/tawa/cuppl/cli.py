"""`tawa cuppl`: run probabilistic programs from the command line."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from tawa.cuppl.inference.settings import check_settings
from tawa.cuppl.model import Model, load
from tawa.cuppl.results.posterior import Posterior
from tawa.cuppl.typing.errors import BadSetting
from tawa.cuppl.typing.format import CupplFormatter
from tawa.cuppl.typing.language import cuppl_language
from tawa.functional.language import read_source
from tawa.functional.unused import unused_names

__all__ = ["app"]

app = typer.Typer(help="Probabilistic programs.", no_args_is_help=True)


PROGRAM = typer.Argument(help="A .ppl file.", exists=True, dir_okay=False)


class Method(StrEnum):
    """Inference methods."""

    smc = "smc"
    importance = "importance"
    tempered = "tempered"
    mh = "mh"
    nuts = "nuts"
    hmc = "hmc"
    pathfinder = "pathfinder"
    advi = "advi"
    pimh = "pimh"
    gibbs = "gibbs"
    enumerate = "enumerate"


def read_data(path: Path | None) -> dict[str, Any]:
    """Inputs from a JSON object, or from the columns of a CSV file."""
    if path is None:
        return {}
    if not path.is_file():
        raise BadSetting(f"there is no file {path}", expected="a JSON or CSV file")
    if path.suffix == ".csv":
        import csv

        with path.open() as file:
            rows = list(csv.DictReader(file))
        names: list[str] = list(rows[0]) if rows else []
        return {name: [_number(path, row[name]) for row in rows] for name in names}
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise BadSetting(f"{path} is not JSON: {error}", expected="a JSON object") from None
    if not isinstance(found, dict):
        raise BadSetting(f"{path} has no inputs", expected="a JSON object", found=repr(found)[:40])
    return cast("dict[str, Any]", found)


TRUTH = {"true": True, "True": True, "false": False, "False": False}


def _number(where: Path | str, text: str | None) -> Any:
    if text in TRUTH:
        return TRUTH[text]
    try:
        value = float(text or "")
    except ValueError:
        raise BadSetting(f"{where}: not a number", found=repr(text)) from None
    return int(value) if value.is_integer() and "." not in str(text) else value


@app.command()
def run(
    program: Annotated[Path, PROGRAM],
    data: Annotated[Path | None, typer.Option(help="Inputs: a JSON or CSV file.")] = None,
    method: Annotated[Method, typer.Option(help="Inference method.")] = Method.smc,
    particles: Annotated[str, typer.Option(help="Particles, such as 1e6.")] = "1e4",
    draws: Annotated[str, typer.Option(help="Draws of a chain.")] = "1e4",
    runs: Annotated[int, typer.Option(help="Independent runs.")] = 1,
    device: Annotated[str, typer.Option(help="cpu or gpu.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    threads: Annotated[int | None, typer.Option(help="Threads; all cores by default.")] = None,
    tolerance: Annotated[
        float, typer.Option(help="Enumeration drops paths that are less probable.")
    ] = 0.0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A folder: what is broken off goes on from there.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write results as JSON.")] = None,
) -> None:
    """Run inference on a program and print the posterior."""
    if output is not None and not output.parent.is_dir():
        raise BadSetting(f"there is no folder {output.parent}", hint="make it, or write elsewhere")
    model = load(program)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = infer(
            model, method, read_data(data), _number("--particles", particles),
            _number("--draws", draws), runs, device, seed, threads, tolerance, checkpoint,
        )  # fmt: skip
    typer.echo(posterior.summary())
    for warning in caught:
        typer.echo(f"warning: {warning.message}", err=True)
    if output is not None:
        output.write_text(json.dumps(report(posterior), indent=1))


ON_DEVICES = (Method.smc, Method.importance, Method.nuts, Method.hmc)
"""Methods that run on a GPU, too."""
KEPT = (Method.smc, Method.nuts, Method.hmc)
"""Methods whose runs are kept by a checkpoint."""


def check_options(method: Method, device: str, runs: int, seed: int, kept: bool) -> None:
    """Raise BadSetting for an option that means nothing, or that the method lacks."""
    check_settings(seed, device)
    for option, given, methods in (
        ("--device", device != "cpu", ON_DEVICES), ("--runs", runs != 1, ON_DEVICES[:2]),
        ("--checkpoint", kept, KEPT),
    ):  # fmt: skip
        if given and method not in methods:
            hint = ", ".join(methods[:-1]) + f" and {methods[-1]} have it"
            raise BadSetting(f"{option} is not an option of {method}", hint=hint)


def infer(
    model: Model, method: Method, data: dict[str, Any], particles: int, draws: int, runs: int,
    device: str, seed: int, threads: int | None, tolerance: float = 0.0,
    checkpoint: Path | None = None,
) -> Posterior:  # fmt: skip
    """Run a method with the options that it has. Raises BadSetting for those that it lacks."""
    check_options(method, device, runs, seed, checkpoint is not None)
    if tolerance and method is not Method.enumerate:
        raise BadSetting(f"--tolerance is not an option of {method}", hint="enumerate has it")
    match method:
        case Method.smc:
            return model.smc(
                particles, data=data, seed=seed, runs=runs, threads=threads, device=device,
                progress=device == "cpu", checkpoint=checkpoint,
            )  # fmt: skip
        case Method.importance:
            return model.importance(
                particles, data=data, seed=seed, runs=runs, threads=threads, device=device
            )
        case Method.mh | Method.tempered:
            count, moved = (draws, model.mh) if method is Method.mh else (particles, model.tempered)
            return moved(count, data=data, seed=seed, threads=threads, progress=True)
        case Method.nuts | Method.hmc:
            chains = model.nuts if method is Method.nuts else model.hmc
            return chains(draws, data=data, seed=seed, device=device, checkpoint=checkpoint)
        case Method.pathfinder | Method.advi:
            run: Callable[..., Posterior] = getattr(model, method.value)
            return run(draws, data=data, seed=seed)
        case Method.pimh:
            return model.pimh(draws, particles=particles, data=data, seed=seed, threads=threads)
        case Method.gibbs:
            return model.particle_gibbs(
                draws, particles=particles, data=data, seed=seed, threads=threads
            )
        case Method.enumerate:
            return model.enumerate(data=data, tolerance=tolerance)


def report(posterior: Posterior) -> dict[str, Any]:
    """Means, errors and evidence, for JSON."""
    columns: dict[str, Any] = {}
    for name in posterior.columns:
        mean, error = posterior.expectation(name)
        columns[name] = {"mean": mean, "error": error, "sd": posterior.std(name)}
    return {
        "method": posterior.method,
        "log_evidence": posterior.log_evidence,
        "log_evidence_error": posterior.log_evidence_error,
        "effective_sample_size": posterior.ess,
        "columns": columns,
    }


@app.command()
def check(program: Annotated[Path, PROGRAM]) -> None:
    """Infer the types of a program's definitions and print them."""
    checked = cuppl_language().check_program(read_source(program), str(program))
    printer = checked.inference.printer
    for definition in checked.syntax.definitions():
        if definition.span.file == str(program):
            scheme = checked.schemes[definition.name]
            typer.echo(f"{definition.name} : {printer().scheme(scheme)}")
            for unused in unused_names(definition):
                typer.echo(f"  `{unused.name}` at line {unused.span.line} is never used")


@app.command(name="format")
def format_(
    program: Annotated[Path, PROGRAM],
    write: Annotated[bool, typer.Option(help="Change the file.")] = False,
) -> None:
    """Print a program in its canonical layout."""
    text = CupplFormatter(cuppl_language().as_written(read_source(program), str(program))).module()
    if write:
        program.write_text(text)
    else:
        typer.echo(text, nl=False)


@app.command()
def emit(
    program: Annotated[Path, PROGRAM],
    stage: Annotated[str, typer.Option(help="core, llvm, asm or cuda.")] = "core",
    method: Annotated[Method, typer.Option(help="smc or importance.")] = Method.smc,
) -> None:
    """Print a stage of compilation."""
    from tawa.cuppl.core.ir import print_function
    from tawa.cuppl.cpu.executable import driver_program
    from tawa.cuppl.cpu.llvm import emit_llvm
    from tawa.cuppl.gpu.source import cuda_source

    if method not in (Method.smc, Method.importance):
        raise typer.BadParameter("the stages are those of smc and importance")
    model = load(program)
    suspend = method is Method.smc
    executable = model.executable(suspend)
    match stage:
        case "core":
            for function in executable.lowered.program.functions.values():
                typer.echo(print_function(function) + "\n")
        case "llvm":
            entry = "smc_thread" if executable.lowered.machine else "importance_thread"
            typer.echo(emit_llvm(*driver_program(executable.lowered, entry)))
        case "asm":
            typer.echo(executable.compiled.assembly())
        case "cuda":
            typer.echo(cuda_source(model.gpu_code(suspend)))
        case _:
            raise typer.BadParameter("the stages are core, llvm, asm and cuda")
