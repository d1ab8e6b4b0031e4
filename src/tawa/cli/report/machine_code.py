"""Machine code whose instructions know their line of CUDA C++.

The line table is the assembler's (`--generate-line-info`), read by nvdisasm. It has no rows for
matrix instructions, bulk copies and some barriers: those would seem to belong to whatever stands
before them. The assembler keeps such instructions in their order (it may leave some out), and PTX
has a row for each, so both sequences are aligned: what the table does know decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tawa.runtime.bounded_ptx import bounded
from tawa.runtime.nvrtc import CompiledCuda, compile_cuda
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

_Search = Callable[[str], re.Match[str] | None]

_PATTERNS: dict[tuple[str, str], tuple[_Search, _Search]] = {
    pair: (re.compile(r"\s*(?:@\S+ +)?" + pair[0]).match, re.compile(pair[1]).search)
    for pair in PAIRS
}
_SHAPES = (re.compile(r"MMA\.(\d+)x(\d+)x(\d+)"), re.compile(r"\.m(\d+)n(\d+)k(\d+)"))

_FILE = re.compile(r'^\s*//## File "[^"]*", line (\d+)')
_CODE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_LABEL = re.compile(r"^(\.L_\w+):")
_SECTION = re.compile(r"^\s*\.section\s+(\S+?),")
_BOUND = re.compile(r"(__launch_bounds__\(\d+, )(\d+)\)")
_NAME, _WITH_LINES = "kernel.cu", ("--generate-line-info",)
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


def machine_code(
    source: str, kernel: str, target: str, body: range, launched: int | None = None
) -> list[MachineLine]:
    """The machine code of a program's kernel, with lines of `body` (the kernel's own).

    What comes from functions before the body counts for the line that calls them. A kernel that is
    `launched` as so many CTAs of a multiprocessor, and bounded otherwise, was assembled again.
    Raises `DisassemblerMissing`.
    """
    bound, again = _BOUND.search(source), None
    if bound and launched and launched != (ctas := int(bound[2])):
        again = _again(source, target, body, launched, ctas)
    built = again or _compiled(source, target)
    listing = sass_text(built.cubin, "--print-line-info-inline")
    return paired(list(_instructions(listing, kernel, body)), built.ptx, body)


def _compiled(source: str, target: str) -> CompiledCuda:
    return compile_cuda(source, target, name=_NAME, options=_WITH_LINES)


def _again(source: str, target: str, body: range, launched: int, ctas: int) -> CompiledCuda | None:
    """The program as it was assembled, in two steps; None if that was done in one."""
    first = _compiled(_BOUND.sub(rf"\g<1>{launched})", source, count=1), target)
    lines = replace(first, ptx=_own_lines(first.ptx, body))
    return bounded(lines, target, ctas, _NAME, _WITH_LINES)


def _own_lines(ptx: str, body: range) -> str:
    """PTX whose line table has lines of the kernel's body only, and needs no other names."""
    kernel = ptx.partition("\n\t.file\t")[0].splitlines()
    lines = [_numbers(loc, body) if (loc := _LOC.match(text)) else text for text in kernel]
    return "\n".join(f".loc 1 {x[0]} 1" if isinstance(x, list) else x for x in lines if x)


def _numbers(loc: re.Match[str], body: range) -> list[int]:
    """The lines of a body that a row of PTX's line table names, the innermost first."""
    return [int(number) for number in loc.groups() if number and int(number) in body]


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
            numbers = _numbers(loc, body)
            line = numbers[0] if numbers else line
        elif line:
            found.append((text, line))
    return found


@dataclass(frozen=True)
class _Anchor:
    """An instruction of `PAIRS` on one side: where it is, and what has to be equal on both."""

    at: int
    kind: str


def paired(lines: Sequence[MachineLine], ptx: str, body: range) -> list[MachineLine]:
    """The instructions of `PAIRS` with the lines that PTX has for them."""
    result = list(lines)
    table = _ptx_lines(ptx, body)
    wanted = [_Anchor(line, kind) for text, line in table if (kind := _kind(text, 1))]
    found = [_Anchor(i, kind) for i, line in enumerate(lines) if (kind := _kind(line.text, 0))]
    known = {(anchor.kind, anchor.at) for anchor in wanted}
    partners = _aligned(lines, found, wanted, known)
    for anchor in found:
        line = partners.get(anchor.at)
        if line is None:
            line = _nearest(lines, anchor, known)
        result[anchor.at] = replace(lines[anchor.at], line=line)
    return result


def _kind(text: str, side: int) -> str:
    """Which of `PAIRS` a line is (of matrix products: of which shape); empty if none."""
    for pair in PAIRS:
        if _PATTERNS[pair][side](text):
            shape = _SHAPES[side].search(text)
            return f"{pair[0]} {'x'.join(shape.groups()) if shape else ''}"
    return ""


def _aligned(
    lines: Sequence[MachineLine],
    found: Sequence[_Anchor],
    wanted: Sequence[_Anchor],
    known: set[tuple[str, int]],
) -> dict[int, int]:
    """The best pairs that keep both orders: line by the number of the instruction.

    Rows of the line table count most: a pair that one contradicts is none.
    """
    width = len(wanted) + 1
    best = [[0] * width for _ in range(len(found) + 1)]
    for i in range(len(found) - 1, -1, -1):
        for j in range(len(wanted) - 1, -1, -1):
            value = _agreement(lines[found[i].at], found[i], wanted[j], known)
            take = value + best[i + 1][j + 1] if value else 0
            best[i][j] = max(take, best[i + 1][j], best[i][j + 1])
    partners: dict[int, int] = {}
    i = j = 0
    while i < len(found) and j < len(wanted):
        value = _agreement(lines[found[i].at], found[i], wanted[j], known)
        if value and best[i][j] == value + best[i + 1][j + 1]:
            partners[found[i].at] = wanted[j].at
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return partners


def _agreement(
    line: MachineLine, found: _Anchor, wanted: _Anchor, known: set[tuple[str, int]]
) -> int:
    """How well two anchors fit each other; 0 if they can't be the same."""
    if found.kind != wanted.kind:
        return 0
    if line.own and line.line is not None and (found.kind, line.line) in known:
        return 6 if line.line == wanted.at else 0
    return 3 if line.line == wanted.at else 2


def _nearest(
    lines: Sequence[MachineLine], anchor: _Anchor, known: set[tuple[str, int]]
) -> int | None:
    """The line of the nearest instruction before with a fitting line; else what the table says."""
    for at in range(anchor.at, max(-1, anchor.at - 40), -1):
        line = lines[at].line
        if line is not None and (anchor.kind, line) in known:
            return line
    return lines[anchor.at].line
