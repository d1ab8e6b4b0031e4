"""Machine code whose instructions know their line of CUDA C++.

The line table is the assembler's (`--generate-line-info`), read by nvdisasm. It has no rows for
matrix instructions, bulk copies and some barriers: those would seem to belong to whatever stands
before them. The compiler keeps such instructions in their order, and PTX has a row for each, so
they are paired with PTX by that order wherever the counts agree and no row contradicts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tawa.runtime.nvrtc import compile_cuda
from tawa.runtime.sass import sass_text

PAIRS: tuple[tuple[str, str], ...] = (
    (r"[HIQBD]G?MMA\b", r"\bwgmma\.mma_async\b"),
    (r"WARPGROUP\.ARRIVE", r"\bwgmma\.fence\b"),
    (r"WARPGROUP\.DEPBAR", r"\bwgmma\.wait_group\b"),
    (r"UTMALDG", r"\bcp\.async\.bulk\.tensor\S*\.shared::\w+\.global\b"),
    (r"UTMASTG", r"\bcp\.async\.bulk\.tensor\S*\.global\.shared"),
    (r"UTMACMDFLUSH", r"\bcp\.async\.bulk\.commit_group\b"),
    (r"UTMACCTL\.PF", r"\bprefetch\.tensormap\b"),
    (r"USETMAXREG", r"\bsetmaxnreg\b"),
    (r"SYNCS\.PHASECHK", r"\bmbarrier\.try_wait\b"),
    (r"SYNCS\.ARRIVE", r"\bmbarrier\.arrive\b"),
    (r"SYNCS\.EXCH", r"\bmbarrier\.init\b"),
    (r"BAR\.(SYNC|ARV)", r"\b(bar|barrier)(\.cta)?\.(sync|arrive)\b"),
    (r"STSM", r"\bstmatrix\b"),
)
"""Instructions that are one in SASS and one in PTX: the opcodes on both sides."""

_FILE = re.compile(r'^\s*//## File "[^"]*", line (\d+)')
_CODE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_LABEL = re.compile(r"^(\.L_\w+):")
_SECTION = re.compile(r"^\s*\.section\s+(\S+?),")
_LOC = re.compile(r"^\s*\.loc\s+\d+ (\d+) \d+(?:.*inlined_at \d+ (\d+))?")


@dataclass(frozen=True)
class MachineLine:
    """An instruction at its address, or a label; `line` counts the lines of CUDA C++ from 1.

    `own` says that a row of the line table begins at the instruction.
    """

    text: str
    address: int | None = None
    line: int | None = None
    own: bool = False


def machine_code(source: str, kernel: str, target: str, body: range) -> list[MachineLine]:
    """The machine code of a program's kernel, with lines of `body` (the kernel's own).

    What comes from functions before the body counts for the line that calls them. Raises
    `DisassemblerMissing`.
    """
    built = compile_cuda(source, target, name="kernel.cu", options=("--generate-line-info",))
    listing = sass_text(built.cubin, "--print-line-info-inline")
    return paired(list(_instructions(listing, kernel, body)), built.ptx, body)


def _instructions(listing: str, kernel: str, body: range) -> Iterator[MachineLine]:
    section, line, fresh, in_run = "", None, False, False
    for text in listing.splitlines():
        if found := _SECTION.match(text):
            section, line = found[1], None
        elif section != f".text.{kernel}":
            continue
        elif found := _FILE.match(text):
            line = None if not in_run else line
            in_run = fresh = True
            line = int(found[1]) if int(found[1]) in body else line
            continue
        elif found := _LABEL.match(text):
            yield MachineLine(f"{found[1]}:")
        elif found := _CODE.match(text):
            yield MachineLine(
                _spaced(found[2]), int(found[1], 16), line, fresh and line is not None
            )
            fresh = False
        in_run = False


def _spaced(text: str) -> str:
    """An instruction with its guard and its opcode in columns."""
    guard, opcode, rest = re.fullmatch(r"(@\S+ +)?(\S+)\s*(.*)", text, re.S).groups()  # type: ignore[union-attr]
    return f"{(guard or '').strip():<5}{opcode} {rest}".rstrip()


def _ptx_lines(ptx: str, body: range) -> list[tuple[str, int]]:
    """PTX instructions with their lines."""
    found: list[tuple[str, int]] = []
    line = 0
    for text in ptx.splitlines():
        if loc := _LOC.match(text):
            numbers = [int(n) for n in loc.groups() if n and int(n) in body]
            line = numbers[0] if numbers else line
        elif line:
            found.append((text, line))
    return found


def paired(lines: Sequence[MachineLine], ptx: str, body: range) -> list[MachineLine]:
    """The instructions of `PAIRS` with the lines that PTX has for them."""
    result = list(lines)
    table = _ptx_lines(ptx, body)
    for opcode, instruction in PAIRS:
        matches = re.compile(r"\s*(@\S+ +)?" + opcode).match
        places = [i for i, found in enumerate(lines) if matches(found.text)]
        wanted = [line for text, line in table if re.search(instruction, text)]
        for i, line in zip(places, _lines_for(lines, places, wanted), strict=True):
            result[i] = replace(lines[i], line=line)
    return result


def _lines_for(
    lines: Sequence[MachineLine], places: Sequence[int], wanted: Sequence[int]
) -> list[int | None]:
    """A line for each of the instructions at `places`, of those that PTX has (`wanted`)."""
    known = set(wanted)

    def agrees(place: int, line: int) -> bool:
        found = lines[place]
        return not found.own or found.line not in known or found.line == line

    if len(places) == len(wanted) and all(map(agrees, places, wanted)):
        return list(wanted)
    return [_nearest(lines, place, lambda line: line in known) for place in places]


def _nearest(
    lines: Sequence[MachineLine], place: int, accepts: Callable[[int], bool]
) -> int | None:
    """The line of the nearest instruction before with a fitting line; else what the table says."""
    for at in range(place, max(-1, place - 40), -1):
        line = lines[at].line
        if line is not None and accepts(line):
            return line
    return lines[place].line
