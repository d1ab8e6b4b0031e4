"""PTX as NVRTC writes it, read: kernels of instructions, labels, constants in memory.

The text is the PTX ISA's (version 9.0). Registers are raw bits as wide as they are declared;
scopes of inline assembly have labels of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

DIRECTIVES = (
    ".param",
    ".version",
    ".target",
    ".address_size",
    ".file",
    ".pragma",
    ".loc",
    ".section",
)
WIDTHS = {"pred": 1, "b8": 8, "b16": 16, "b32": 32, "b64": 64, "b128": 128, "f32": 32, "f64": 64}


@dataclass(frozen=True)
class Instruction:
    """One instruction: under `guard`, a predicate register and whether it is negated."""

    opcode: tuple[str, ...]
    operands: tuple[str, ...]
    guard: tuple[str, bool] | None
    scope: tuple[int, ...]
    text: str
    line: int = 0
    """Where it stands in the program's text, from 1 on."""

    @property
    def place(self) -> str:
        """Its line and its text, for messages."""
        return f"line {self.line} of the PTX: {self.text}"


@dataclass
class Kernel:
    """An entry: its parameters with their bytes, its instructions, where its labels point."""

    name: str
    parameters: dict[str, int]
    code: list[Instruction] = field(default_factory=list[Instruction])
    labels: dict[tuple[tuple[int, ...], str], int] = field(
        default_factory=dict[tuple[tuple[int, ...], str], int]
    )
    widths: dict[str, int] = field(default_factory=dict[str, int])
    """Bits of registers by their names, or by what comes before the number."""
    arrays: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Each thread's own memory, and the program's constants."""

    def target(self, label: str, scope: tuple[int, ...]) -> int:
        """The instruction that a label in a scope stands for."""
        for depth in range(len(scope), -1, -1):
            if (scope[:depth], label) in self.labels:
                return self.labels[scope[:depth], label]
        raise KeyError(label)

    def width(self, register: str) -> int:
        """Bits of a register."""
        found = self.widths.get(register)
        return found if found is not None else self.widths[register.rstrip("0123456789")]


def kernels(text: str) -> dict[str, Kernel]:
    """The entries of a program by name."""
    comments = r"//[^\n]*|/\*.*?\*/"
    text = re.sub(comments, lambda c: "\n" * c[0].count("\n"), text, flags=re.DOTALL)
    constants: dict[str, bytes] = {}
    found: dict[str, Kernel] = {}
    head = re.compile(r"\.visible \.entry (\w+)\s*\((.*?)\)(.*?)\{", re.DOTALL)
    at = 0
    for entry in head.finditer(text):
        constants |= _arrays(text[at : entry.start()])
        at = _end(text, entry.end())
        kernel = found[entry[1]] = Kernel(entry[1], _parameters(entry[2]))
        first = 1 + text.count("\n", 0, entry.end())
        _read(kernel, text[entry.end() : at - 1], first)
    constants |= _arrays(text[at:])
    for kernel in found.values():
        kernel.arrays |= constants
    return found


def _parameters(text: str) -> dict[str, int]:
    """The bytes of each: `.param .u32 n`, `.param .align 64 .b8 map[128]`."""
    found = re.findall(r"\.[a-z]+(\d+)\s+(\w+)(?:\[(\d+)\])?\s*(?:,|$)", text)
    return {name: int(bits) // 8 * int(count or 1) for bits, name, count in found}


def _end(text: str, at: int) -> int:
    """The index after the brace that closes the block begun before `at`."""
    depth = 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at


def _arrays(text: str) -> dict[str, bytes]:
    """Constants in memory: `.global .align 4 .b8 name[8] = {1, 2, ...};`."""
    found: dict[str, bytes] = {}
    pattern = r"\.(?:global|const)[^;=]*?\.([bus])(\d+)\s+([\w$]+)\[(\d*)\]\s*=\s*\{([^}]*)\}"
    for _, bits, name, _, values in re.findall(pattern, text):
        size = int(bits) // 8
        numbers = [int(value) for value in values.split(",") if value.strip()]
        found[name] = b"".join((n % (1 << 8 * size)).to_bytes(size, "little") for n in numbers)
    return found


def _read(kernel: Kernel, body: str, line: int) -> None:
    scopes = 0
    scope: tuple[int, ...] = ()
    own: list[dict[str, str]] = [{}]
    """Registers of scopes within each other, by what they are called there."""
    for statement, skipped in _statements(body):
        if statement == "{":
            scopes += 1
            scope = (*scope, scopes)
            own.append({**own[-1]})
        elif statement == "}":
            scope = scope[:-1]
            own.pop()
        elif statement.endswith(":"):
            kernel.labels[scope, statement[:-1]] = len(kernel.code)
        elif statement.startswith("."):
            if scope and statement.startswith(".reg"):
                names = re.findall(r"[\w$]+(?=\s*(?:,|$))", statement)
                own[-1] |= {name: f"{name}${scope[-1]}" for name in names}
            _declare(kernel, _renamed(statement, own[-1]))
        else:
            statement = _renamed(statement, own[-1])
            kernel.code.append(_instruction(statement, scope, line + skipped))


def _renamed(statement: str, names: dict[str, str]) -> str:
    """A statement with other names for registers."""
    if not names:
        return statement
    return re.sub(r"(?<![\w%$.])[\w$]+", lambda found: names.get(found[0], found[0]), statement)


def _statements(body: str) -> Iterator[tuple[str, int]]:
    """Instructions and directives without their semicolons, labels, braces of scopes.

    With each come the lines before it.
    """
    pattern = re.compile(r"\s*([{}]|[\w$]+:(?!:)|[^;{}]*(?:\{[^}]*\}[^;{}]*)*;)")
    at = lines = 0
    while (found := pattern.match(body, at)) is not None:
        lines += body.count("\n", at, found.start(1))
        yield found[1].removesuffix(";").strip(), lines
        lines += found[1].count("\n")
        at = found.end()
    if body[at:].strip():
        raise SyntaxError(body[at : at + 80])


def _declare(kernel: Kernel, statement: str) -> None:
    """`.reg .b32 %r<9>, t;`, `.local .align 4 .b8 depot[16];`."""
    words = statement.split(None, 2)
    if words[0] == ".reg":
        for name in words[2].split(","):
            kernel.widths[name.strip().partition("<")[0]] = WIDTHS[words[1][1:]]
    elif words[0] in (".local", ".shared"):
        name, size = re.findall(r"(\w+)\[(\d+)\]", statement)[0]
        kernel.arrays[name] = bytes(int(size))
    elif not statement.startswith(DIRECTIVES):
        raise SyntaxError(statement)


def _instruction(statement: str, scope: tuple[int, ...], line: int) -> Instruction:
    guard = None
    text = statement
    if statement.startswith("@"):
        word, statement = statement[1:].split(None, 1)
        guard = word.lstrip("!"), word.startswith("!")
    opcode, _, rest = statement.partition(" ") if " " in statement else (statement, "", "")
    opcode, _, more = opcode.partition("\t")
    operands = split(f"{more} {rest}")
    return Instruction(tuple(opcode.split(".")), operands, guard, scope, text, line)


def split(text: str) -> tuple[str, ...]:
    """Operands at commas outside of braces and brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "{[") - (letter in "}]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return tuple(part.strip() for part in parts if part.strip())
