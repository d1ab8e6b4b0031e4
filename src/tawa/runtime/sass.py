"""Machine code as data: nvdisasm's text parsed into instructions, blocks and loops.

Tests use it to show what a kernel is made of: matrix instructions and bulk copies present, no
local memory, no device-wide fence inside a loop.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tawa.base.errors import TawaError

TIMEOUT = 60
"""Seconds that nvdisasm may take."""


class DisassemblerMissing(TawaError):
    """`nvdisasm` was not found."""

    explanation = (
        "Reading machine code needs `nvdisasm`, from the package `nvidia-cuda-nvdisasm` or from a "
        "CUDA toolkit on the PATH."
    )


class NotACubin(TawaError):
    """`nvdisasm` can't read a file as machine code."""

    explanation = (
        "The bytes are not a cubin, or one for an architecture that nvdisasm is too old for."
    )
    example = """
from tawa.runtime.sass import disassemble

disassemble(b"text")
"""


@dataclass(frozen=True)
class Instruction:
    """One SASS instruction: its address, full opcode, text, guard and branch target."""

    address: int
    opcode: str
    text: str
    guarded: bool = False
    target: str | None = None

    def is_a(self, prefix: str) -> bool:
        """Whether the opcode is `prefix` or one of its variants (`MEMBAR` of `MEMBAR.ALL.GPU`)."""
        return self.opcode == prefix or self.opcode.startswith(prefix + ".")


@dataclass(frozen=True)
class Loop:
    """A natural loop: the addresses of its header and of its body's instructions."""

    header: int
    body: tuple[Instruction, ...]


@dataclass(frozen=True)
class SassFunction:
    """The instructions of one kernel, and the labels that name addresses in it."""

    name: str
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]

    def count(self, prefix: str) -> int:
        """How many instructions are `prefix` or a variant of it."""
        return sum(instruction.is_a(prefix) for instruction in self.instructions)

    def opcodes(self) -> Counter[str]:
        """How often each full opcode occurs."""
        return Counter(instruction.opcode for instruction in self.instructions)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """All natural loops, found by dominators; loops of one header are one loop."""
        return tuple(_natural_loops(self))

    def in_loops(self, prefix: str) -> tuple[Instruction, ...]:
        """The instructions `prefix` (or a variant) that lie inside some loop."""
        found = {i.address: i for loop in self.loops for i in loop.body if i.is_a(prefix)}
        return tuple(found[address] for address in sorted(found))


def disassemble(cubin: bytes) -> dict[str, SassFunction]:
    """The functions of a cubin by name."""
    return parse(sass_text(cubin))


def sass_text(cubin: bytes, *flags: str) -> str:
    """nvdisasm's listing of a cubin; `flags` are further ones of nvdisasm's."""
    with tempfile.TemporaryDirectory(prefix="tawa-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [nvdisasm(), "-c", *flags, str(path)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if run.returncode != 0:
        raise NotACubin(
            "nvdisasm can't read the machine code",
            found=run.stderr.strip().replace(str(path), path.name),
        )
    return run.stdout


@cache
def nvdisasm() -> str:
    """The path of nvdisasm: the wheel's, or else one on the PATH."""
    site = Path(sysconfig.get_paths()["purelib"])
    wheels = sorted(site.glob("nvidia/*/bin/nvdisasm"))
    found = str(wheels[-1]) if wheels else shutil.which("nvdisasm")
    if found is None:
        raise DisassemblerMissing("nvdisasm was not found", hint="pip install nvidia-cuda-nvdisasm")
    return found


_SECTION = re.compile(r"^\s*\.section\s+\.text\.([\w$.]+),")
_LABEL = re.compile(r"^(\.L_x?_?\w+):")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)(.*?)\s*;")
_TARGET = re.compile(r"`\((\.L_\w+)\)")


def parse(listing: str) -> dict[str, SassFunction]:
    """Parse nvdisasm's listing (`nvdisasm -c`)."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in listing.splitlines():
        if section := _SECTION.match(line):
            current = sections.setdefault(section[1], [])
        elif line.split()[:1] == [".section"]:  # `.sectionflags` belongs to one
            current = []
        current.append(line)
    return {name: _parse_function(name, lines) for name, lines in sections.items()}


def _parse_function(name: str, lines: list[str]) -> SassFunction:
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    pending: list[str] = []
    for line in lines:
        if label := _LABEL.match(line):
            pending.append(label[1])
        elif match := _INSTRUCTION.match(line):
            address = int(match[1], 16)
            labels.update(dict.fromkeys(pending, address))
            pending = []
            target = _TARGET.search(match[4])
            text = f"{match[2] or ''}{match[3]}{match[4]}"
            guarded = match[2] is not None and match[2].strip() != "@PT"
            instructions.append(
                Instruction(address, match[3], text, guarded, target[1] if target else None)
            )
    return SassFunction(name, tuple(instructions), labels)


ENDS = ("EXIT", "RET", "BRX", "JMX", "KILL")
JUMPS = ("BRA", "JMP", *ENDS)


def _blocks(function: SassFunction) -> list[list[Instruction]]:
    """Basic blocks in address order. Synchronisation points (BSSY, WARPSYNC) do not end one."""
    leaders = {
        function.labels[i.target]
        for i in function.instructions
        if i.target in function.labels and _jumps(i)
    }
    blocks: list[list[Instruction]] = []
    previous: Instruction | None = None
    for instruction in function.instructions:
        if previous is None or instruction.address in leaders or _jumps(previous):
            blocks.append([])
        blocks[-1].append(instruction)
        previous = instruction
    return blocks


def _jumps(instruction: Instruction) -> bool:
    return any(instruction.is_a(jump) for jump in JUMPS)


def _successors(function: SassFunction, blocks: list[list[Instruction]]) -> list[list[int]]:
    index = {block[0].address: number for number, block in enumerate(blocks)}
    successors: list[list[int]] = []
    for number, block in enumerate(blocks):
        last = block[-1]
        falls = not _jumps(last) or _conditional(last)
        following = [number + 1] if falls and number + 1 < len(blocks) else []
        if _jumps(last) and last.target in function.labels:
            following.append(index[function.labels[last.target]])
        successors.append(following)
    return successors


def _conditional(jump: Instruction) -> bool:
    """Whether a jump may fall through: by its guard, or by operands (`BRA P0, target`)."""
    operands = jump.text.partition(jump.opcode)[2].partition("`")[0].strip(" ,")
    return jump.guarded or (jump.target is not None and operands not in ("", "0x0"))


def _natural_loops(function: SassFunction) -> Iterator[Loop]:
    blocks = _blocks(function)
    successors = _successors(function, blocks)
    predecessors: list[list[int]] = [[] for _ in blocks]
    for number, following in enumerate(successors):
        for successor in following:
            predecessors[successor].append(number)
    dominators = _dominators(predecessors)
    bodies: dict[int, set[int]] = {}
    for tail, following in enumerate(successors):
        for header in following:
            if header in dominators[tail]:
                bodies.setdefault(header, set()).update(_body(header, tail, predecessors))
    for header in sorted(bodies):
        body = tuple(i for number in sorted(bodies[header]) for i in blocks[number])
        yield Loop(blocks[header][0].address, body)


def _dominators(predecessors: list[list[int]]) -> list[set[int]]:
    """For each block, the blocks on every path to it from block 0 (iterative data flow)."""
    everything = set(range(len(predecessors)))
    dominators = [set(everything) for _ in predecessors]
    if dominators:
        dominators[0] = {0}
    changed = True
    while changed:
        changed = False
        for number in range(1, len(predecessors)):
            incoming = [dominators[p] for p in predecessors[number]]
            new = {number}.union(set[int].intersection(*incoming) if incoming else ())
            changed |= new != dominators[number]
            dominators[number] = new
    return dominators


def _body(header: int, tail: int, predecessors: list[list[int]]) -> set[int]:
    body, pending = {header}, [tail]
    while pending:
        number = pending.pop()
        if number not in body:
            body.add(number)
            pending.extend(predecessors[number])
    return body
