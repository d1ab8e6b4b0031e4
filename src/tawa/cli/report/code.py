"""The user's source, the IR levels, CUDA C++ and machine code as listings with linked lines.

A line is linked by the lines of the user's source that it comes from, and, from the hopper level
on, by the op: an op writes its lines of CUDA C++, and the assembler says which instructions come
from those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from tawa.base.errors import TawaError
from tawa.base.spans import LOC, span_of
from tawa.cli.report.listing import Line, Place, module_listing, places_of, source_listing
from tawa.cli.report.machine_code import MachineLine, machine_code
from tawa.driver.compiled import Compiled
from tawa.driver.inspection.cuda_lines import cuda_text
from tawa.runtime.sass import disassemble

if TYPE_CHECKING:
    from tawa.machine.chips import Chip

LEVELS = ("tile", "aref", "hopper")


class LinesDiffer(TawaError):
    """The machine code with a line table differs from the kernel's own.

    The report would show instructions that don't run.
    """

    explanation = (
        "A second compilation, with `--generate-line-info`, tells a report which line an "
        "instruction comes from. It should give the same instructions. This is a bug in the "
        "compiler: please report it with the kernel."
    )


@dataclass(frozen=True)
class Pane:
    """One listing: its short name, its title and its lines."""

    name: str
    title: str
    lines: tuple[Line, ...]


def panes(compiled: Compiled, kernel: Place, file: str, target: Chip) -> list[Pane]:
    """The listings of a compiled kernel that is defined at `kernel`, in the order of the pipeline.

    Raises `DisassemblerMissing` without nvdisasm, and `LinesDiffer`.
    """
    modules = {level: compiled.module(level) for level in LEVELS}
    levels = [Pane(name, name, tuple(module_listing(m))) for name, m in modules.items()]
    used = [place for pane in levels for line in pane.lines for place in line.places]
    source = Pane("source", file, tuple(source_listing(kernel, used)))
    return [source, *levels, *_code(compiled, modules["hopper"], target)]


def _code(compiled: Compiled, module: ModuleOp, target: Chip) -> Iterable[Pane]:
    program = cuda_text(module)
    numbers = {op: number for number, op in enumerate(module.walk())}
    text, first = program.text.splitlines(), program.kernel
    body = range(first, len(text) + 1)
    ops = {line: numbers[op] for line, op in program.writers.items()}
    places = {
        line: places_of(span_of(op)) if LOC in op.attributes else ()
        for line, op in program.writers.items()
    }
    lines = tuple(
        Line(line, str(n), places.get(n, ()), ops.get(n), folded=n < first)
        for n, line in enumerate(text, 1)
    )
    yield Pane("cuda", "CUDA C++", lines)
    spec = compiled.spec
    instructions = machine_code(program.text, spec.entry, target.target, body, spec.ctas_per_sm)
    _same(instructions, compiled)
    yield Pane(
        "sass",
        "SASS",
        tuple(
            Line(
                found.text,
                "" if found.address is None else f"{found.address:04x}",
                places.get(found.line or 0, ()),
                ops.get(found.line or 0),
            )
            for found in instructions
        ),
    )


def _same(instructions: Iterable[MachineLine], compiled: Compiled) -> None:
    """Raise unless these are as many instructions as the kernel itself has."""
    own = disassemble(compiled.cubin)[compiled.spec.entry].instructions
    shown = [line for line in instructions if line.address is not None]
    if [_bare(i.text) for i in own] != [_bare(line.text) for line in shown]:
        raise LinesDiffer(
            f"the machine code of {compiled.name} with a line table is another",
            expected=f"{len(own)} instructions",
            found=f"{len(shown)} instructions",
        )


def _bare(text: str) -> str:
    """An instruction without its spaces and the names of labels."""
    return re.sub(r"\s|\.L_\w+", "", text)
