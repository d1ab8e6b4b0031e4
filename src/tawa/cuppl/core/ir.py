"""The first-order core: what both back ends read.

A program is a set of functions over four register types. Functions are cut into basic blocks;
registers are mutable, so no phi is needed (LLVM promotes them, C++ has them anyway). Everything
that the language has beyond this (closures, data types, suspension, frames) has been turned into
plain loads, stores and branches before it gets here, so that a back end is a table from
instruction to text.

Every function also receives the *context* of the running particle (random-number counters,
weight, heap limits, failure status); instructions `Get` and `Set` read and write its fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

__all__ = [
    "CONTEXT_FIELDS",
    "Alloc",
    "AtomicAdd",
    "Block",
    "Branch",
    "Call",
    "Const",
    "Copy",
    "Draw",
    "Factor",
    "Reset",
    "Resume",
    "Shift",
    "Fail",
    "Function",
    "Get",
    "Instruction",
    "Jump",
    "Load",
    "Op",
    "Operand",
    "Pause",
    "Program",
    "Reg",
    "Return",
    "Set",
    "Store",
    "Switch",
    "Table",
    "Terminator",
    "Type",
    "Wake",
]


class Type(Enum):
    """Type of a register: each is one 8-byte word in memory."""

    F64 = "f64"
    I64 = "i64"
    BOOL = "bool"
    REF = "ref"
    """Address of a heap object, or a small immediate (a constructor without fields)."""

    __hash__ = object.__hash__  # members are hashed often; the one of Enum is not a built-in


CONTEXT_FIELDS: dict[str, Type] = {
    "key0": Type.I64,  # Philox key: the seed's low and high 32 bits
    "key1": Type.I64,
    "particle": Type.I64,  # Philox counter words 1 to 3; word 0 is the block of the draw
    "step": Type.I64,
    "stream": Type.I64,
    "draw": Type.I64,  # 64-bit draws made so far in this step
    "spare": Type.I64,  # second half of the last Philox block
    "ahead": Type.I64,  # where draws are made ahead: address at which block 0 of them would lie,
    "made": Type.I64,  # how many of this step are made,
    "room": Type.I64,  # and the address of room for them
    "weight": Type.F64,  # log weight
    "status": Type.I64,  # 0, or the code of a failure
    "site": Type.I64,  # where it failed: index into the program's table of spans
    "heap": Type.I64,  # next free word of this thread's region (address)
    "heap_end": Type.I64,
    "depth": Type.I64,  # nesting of recursive native calls
    "depth_limit": Type.I64,
    "memo": Type.REF,  # table of memoised calls
    "memo_count": Type.I64,  # memoised functions made so far
    "trace": Type.I64,  # address of the record of random choices (trace methods only)
    "address": Type.I64,  # hash of the call path (trace methods only)
    "fuel": Type.I64,  # calls left before a run counts as non-terminating
    "tape_delta": Type.I64,  # from a heap word to the word that holds its place on the tape
    "heap_start": Type.I64,
    "tape_used": Type.I64,  # entries on the tape (`natives/tape.py`), for how many there is room,
    "tape_size": Type.I64,
    "tape_entries": Type.I64,  # and where they are,
    "adjoints": Type.I64,  # and the derivatives by them
    "inputs": Type.I64,  # address of the words of the program's inputs and constants
}
"""Name and type of each word of a particle's context, in memory order."""


@dataclass(frozen=True, slots=True)
class Reg:
    """A register: unique by name within its function."""

    name: str
    type: Type


Operand = Reg | float | int | bool


@dataclass(slots=True)
class Const:
    """`dst = value`."""

    dst: Reg
    value: float | int | bool


@dataclass(slots=True)
class Copy:
    """`dst = src` (same type, or REF and I64 either way)."""

    dst: Reg
    src: Reg


@dataclass(slots=True)
class Op:
    """`dst = name(args)`, a scalar operation of `scalars.py`."""

    dst: Reg
    name: str
    args: tuple[Reg, ...]


@dataclass(slots=True)
class Call:
    """`dsts = function(args)`. If the callee fails, control goes to `on_fail`.

    Without `on_fail` the caller fails too and passes the status on. `suspending` names the
    function to call instead where `function` would have to be suspended inside a loop that fills
    a vector: frames may be copied, so nothing that they refer to may be changed after a resume.
    """

    dsts: tuple[Reg, ...]
    function: str
    args: tuple[Reg, ...]
    on_fail: str | None = None
    suspending: str | None = None


@dataclass(slots=True)
class Load:
    """`dst = memory[base + 8 * (index + offset)]`."""

    dst: Reg
    base: Reg
    index: Reg | None = None
    offset: int = 0


@dataclass(slots=True)
class Store:
    """`memory[base + 8 * (index + offset)] = src`."""

    base: Reg
    src: Reg
    index: Reg | None = None
    offset: int = 0


@dataclass(slots=True)
class Get:
    """`dst = context.field`."""

    dst: Reg
    field: str


@dataclass(slots=True)
class Set:
    """`context.field = src`."""

    field: str
    src: Reg


@dataclass(slots=True)
class Alloc:
    """`dst` = address of `words` fresh heap words; fails with HEAP_FULL if there are none."""

    dst: Reg
    words: Reg | int


@dataclass(slots=True)
class Draw:
    """`dsts` = a draw from a built-in distribution. Each inference method says what it does."""

    dsts: tuple[Reg, ...]
    family: str
    args: tuple[Reg, ...]
    site: int


@dataclass(slots=True)
class Factor:
    """Add `weight` to the log weight. Each inference method says what else it does."""

    weight: Reg
    site: int


@dataclass(slots=True)
class Reset:
    """`dsts = function(args)`, with a mark for `prompt` below it."""

    dsts: tuple[Reg, ...]
    prompt: Reg
    function: str
    args: tuple[Reg, ...]


@dataclass(slots=True)
class Shift:
    """Capture the frames up to the mark of `prompt`, drop them, and call `function(k, args)`.

    What the function returns is the result of the `Reset`; `dsts` get what `k` is called with.
    """

    dsts: tuple[Reg, ...]
    prompt: Reg
    function: str
    args: tuple[Reg, ...]
    site: int


@dataclass(slots=True)
class Resume:
    """`dsts` = what the captured frames of `continuation` return when they are given `args`."""

    dsts: tuple[Reg, ...]
    continuation: Reg
    args: tuple[Reg, ...]


@dataclass(slots=True)
class AtomicAdd:
    """`dst = memory[base + 8 * offset]`, to which `value` is added in the same moment."""

    dst: Reg
    base: Reg
    value: Reg
    offset: int = 0


@dataclass(slots=True)
class Table:
    """`dst = values[index]`: a constant table of floats; equal tables are stored once."""

    dst: Reg
    values: tuple[float, ...]
    index: Reg


@dataclass(slots=True)
class Pause:
    """Sleep while `memory[base + 8 * offset]` is `value`, until another thread's `Wake`.

    It may end sooner.
    """

    base: Reg
    value: Reg
    offset: int = 0


@dataclass(slots=True)
class Wake:
    """End the sleep of all threads that `Pause` with this word."""

    base: Reg
    offset: int = 0


Instruction = (
    Const
    | Copy
    | Op
    | Call
    | Load
    | Store
    | Get
    | Set
    | Alloc
    | Draw
    | Factor
    | Reset
    | Shift
    | Resume
    | AtomicAdd
    | Pause
    | Wake
    | Table
)


@dataclass(slots=True)
class Jump:
    """Go to a block."""

    target: str


@dataclass(slots=True)
class Branch:
    """Go to `then` if `condition`, else to `other`."""

    condition: Reg
    then: str
    other: str


@dataclass(slots=True)
class Switch:
    """Go to the block of the integer `value`, or to `default`."""

    value: Reg
    cases: dict[int, str]
    default: str


@dataclass(slots=True)
class Return:
    """Leave the function with results."""

    values: tuple[Reg, ...]


@dataclass(slots=True)
class Fail:
    """Leave the function and its callers with a status code and a site (index of a span)."""

    code: int
    site: int


Terminator = Jump | Branch | Switch | Return | Fail


@dataclass(slots=True)
class Block:
    """Straight-line instructions and one terminator."""

    name: str
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    terminator: Terminator | None = None


@dataclass(slots=True)
class Function:
    """A function; the first block is its entry.

    `inline` asks the back ends to inline it, `outlined` asks LLVM not to; `may_fail` is set by
    `finish`; `recursive` functions count their depth against the context's limit. `apart` names
    the heads of loops whose turns do not depend on each other.
    """

    name: str
    params: tuple[Reg, ...]
    results: tuple[Type, ...]
    blocks: dict[str, Block] = field(default_factory=dict[str, Block])
    inline: bool = False
    may_fail: bool = False
    recursive: bool = False
    site: int = 0
    outlined: bool = False
    apart: tuple[str, ...] = ()

    def copy(self) -> Function:
        """A function that passes may change; instructions are shared, as none changes one."""
        blocks = {
            name: Block(name, list(block.instructions), block.terminator)
            for name, block in self.blocks.items()
        }
        return replace(self, blocks=blocks)

    def size(self) -> int:
        """The number of its instructions."""
        return sum(len(block.instructions) for block in self.blocks.values())

    def callees(self) -> set[str]:
        """Names of the functions called directly."""
        found: set[str] = set()
        for block in self.blocks.values():
            for item in block.instructions:
                if type(item) is Call:
                    found.add(item.function)
                    if item.suspending is not None:
                        found.add(item.suspending)
                elif type(item) is Reset or type(item) is Shift:
                    found.add(item.function)
        return found


@dataclass(slots=True)
class Program:
    """Functions by name, in no particular order."""

    functions: dict[str, Function] = field(default_factory=dict[str, Function])

    def copy(self) -> Program:
        """A program that passes may change."""
        return Program({name: function.copy() for name, function in self.functions.items()})

    def add(self, function: Function) -> Function:
        """Add a function; its name must be new."""
        if function.name in self.functions:
            raise ValueError(f"function {function.name} is defined twice")
        self.functions[function.name] = function
        return function

    def reachable(self, roots: list[str]) -> Program:
        """The part of the program that the roots call, callees first where there is no cycle.

        Functions that are called but not (yet) in the program are passed over.
        """
        order: list[str] = []
        seen: set[str] = set()
        stack = [(name, False) for name in reversed(roots)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                order.append(name)
            elif name not in seen:
                seen.add(name)
                stack.append((name, True))
                known = self.functions[name].callees() & self.functions.keys()
                stack.extend((c, False) for c in sorted(known))
        return Program({name: self.functions[name] for name in order})


def print_function(function: Function) -> str:
    """Text form of a function, for dumps and tests."""
    params = ", ".join(f"{p.name}: {p.type.value}" for p in function.params)
    results = ", ".join(t.value for t in function.results)
    lines = [f"{function.name}({params}) -> ({results})"]
    for block in function.blocks.values():
        lines.append(f"{block.name}:")
        lines.extend(f"  {_show(i)}" for i in block.instructions)
        lines.append(f"  {_show(block.terminator)}")
    return "\n".join(lines)


def _show(item: Instruction | Terminator | None) -> str:
    if item is None:
        return "<open>"
    parts: list[str] = []
    for name in item.__dataclass_fields__:
        value: object = getattr(item, name)
        if isinstance(value, Reg):
            parts.append(f"%{value.name}")
        elif isinstance(value, tuple):
            regs: tuple[object, ...] = value  # pyright: ignore[reportUnknownVariableType]
            shown = [f"%{r.name}" if isinstance(r, Reg) else str(r) for r in regs]
            parts.append("(" + ", ".join(shown) + ")")
        elif value is not None:
            parts.append(str(value))
    return f"{type(item).__name__.lower()} {' '.join(parts)}"
