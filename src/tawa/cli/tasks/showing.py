"""What `tawa tasks` prints of a program, and the mappings that it writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tawa.base.errors import TawaError
from tawa.cli.tasks.task_file import find_task
from tawa.tasks import CompiledTasks, Mapping, RunnableTask
from tawa.tasks.devices.node import record
from tawa.tasks.search import filled, search


class NoSuchStage(TawaError):
    """A task program has no stage of the name given on the command line."""

    explanation = "Stages are `tasks`, `copies`, `events`, `mapping`, and each kernel by its name."
    example = """
from pathlib import Path

import tawa.cli.tasks.showing as showing

Path("sums.py").write_text('''
import numpy as np
from tawa.tasks import READ, WRITE, copy

def example_copy():
    copy(np.zeros(16, np.float32), np.zeros(16, np.float32))
''')
showing.stage_of(showing.compiled("sums.py:copy", None, [])[0], "kernels")
"""


def called(
    where: str, mapping: Path | None, shapes: Sequence[str]
) -> tuple[RunnableTask, tuple[Any, ...], Mapping | None]:
    """The task of an example's call, its arguments, and its mapping or the one of a file."""
    found = find_task(where)
    args, own = found.arguments(shapes)
    return found.task, args, Mapping.read(mapping) if mapping else own


def compiled(
    where: str, mapping: Path | None, shapes: Sequence[str]
) -> tuple[CompiledTasks, tuple[Any, ...]]:
    """The program of an example's call, and its arguments."""
    task, args, own = called(where, mapping, shapes)
    return task.compile(*args, mapping=own), args


def node_stage(task: RunnableTask, args: Sequence[Any], mapping: Mapping, stage: str) -> str:
    """A stage of a call on several devices. Raises `NoSuchStage`."""
    if stage == "mapping":
        return mapping.text()
    if stage not in ("copies", "events"):
        raise NoSuchStage(
            "a call on several devices has other stages",
            expected="copies or events (what is given to streams), or mapping",
            found=stage,
        )
    recipe = record(task, args, mapping, lambda inner, entry: lambda given, own: None)
    return "".join(f"{work}\n" for work in recipe.works)


def stage_of(program: CompiledTasks, stage: str) -> str:
    """A stage's text. Raises `NoSuchStage`."""
    if stage == "mapping":
        return filled(program.program, program.mapping).text()
    if stage not in program.stages:
        raise NoSuchStage(
            f"the program has no stage `{stage}`",
            expected=" or ".join([*program.stages, "mapping"]),
            found=stage,
        )
    return program.stages[stage]


def kernel_lines(program: CompiledTasks, args: tuple[Any, ...]) -> Iterator[str]:
    """What was compiled, and how long it is predicted to take."""
    total = 0.0
    for launch in program.launches:
        kernel, given = program.kernel(launch), program.arguments(launch, args)
        spec = kernel.compile(*given, **program.options(launch, kernel, given)).spec
        yield f"{launch.kernel.name}: {spec.threads} threads, {spec.shared_bytes} bytes shared"
    for found in program.predict(*args):
        total += found.seconds
    yield f"predicted: {total * 1e6:.1f} us"


def write_mapping(
    where: str, start: Path | None, shapes: Sequence[str], seconds: float, output: Path
) -> Iterator[str]:
    """Search for a mapping and write it; gives lines that say what was found."""
    found = find_task(where)
    args, own = found.arguments(shapes)
    begin = Mapping.read(start) if start else own
    lines: list[str] = []
    result = search(found.task, args, start=begin, seconds=seconds, report=lines.append)
    yield from lines
    result.mapping.write(output)
    yield (
        f"{output}: {result.seconds * 1e6:.1f} us, {result.start / result.seconds:.2f} times as "
        f"fast as {'the mapping given' if start else 'defaults'}; {len(result.tried)} tried"
    )
