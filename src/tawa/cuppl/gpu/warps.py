"""Text of functions that all lanes of a warp run together, for one chain.

All lanes compute the same: each has the registers and the context for itself. Memory they share,
so the first lane alone stores, and all lanes meet between loads and stores (`warp_sync`): none
reads what is not written yet, and none writes what another has still to read. Where a function is
called, and where it returns, no store is pending.

The warps of a block share what a multiprocessor has fetched of the program, which is too long to be
kept. So they meet before the functions in `MEETING`, and run them side by side. Nobody waits for a
thread that has ended: however a chain ends, the others go on.

The lanes share two kinds of loops: those whose turns do not depend on each other (`apart`), and
those that add up terms of the weight (`gather.py`).
"""

from __future__ import annotations

from dataclasses import replace

from tawa.cuppl.core.builder import targets
from tawa.cuppl.core.ir import (
    Alloc,
    AtomicAdd,
    Block,
    Branch,
    Call,
    Fail,
    Function,
    Get,
    Instruction,
    Load,
    Op,
    Program,
    Reg,
    Return,
    Set,
    Store,
    Terminator,
    Type,
)
from tawa.cuppl.gpu.cuda import TYPE_NAMES, FunctionText, Texts, v_
from tawa.cuppl.gpu.gather import Gathered, gathered_loops, touches_memory, with_fills
from tawa.cuppl.lowering.dataflow import live_at_entry, predecessors
from tawa.cuppl.lowering.invariants import loop_blocks

__all__ = ["for_warps", "most_slots", "warp_texts"]

MEETING = frozenset({"leapfrog"})
"""Functions before which the warps of a block meet: a long way through the program, for all."""

State = tuple[bool, bool]
"""Whether memory was read, and whether it was written, since the lanes met."""


class _Turn(FunctionText):
    """A turn of a loop that lanes share: false if the loop has to go on by itself."""

    def __init__(
        self, function: Function, program: Program, called: frozenset[str], loop: Gathered
    ) -> None:
        super().__init__(function, program, called)
        self.loop, self.slots, self.at = loop, loop.slots, ("", 0)

    @property
    def name(self) -> str:
        """Of the function that a turn becomes."""
        return f"turn_{self.function.name}_{self.loop.head}"

    def text(self) -> str:
        loop = self.loop
        given = [f"{TYPE_NAMES[r.type]} {v_(r)}" for r in (*loop.given, loop.counter)]
        params = ", ".join(["Context& ctx", *given, f"Slots<{len(self.slots)}>& slots"])
        self.lines = [f"INLINE bool {self.name}({params}) {{"]
        for type_, names in self.own().items():
            self.lines.append(f"  {TYPE_NAMES[type_]} {', '.join('v_' + n for n in names)};")
        self.emit(f"goto L_{loop.first};")
        for name in loop.blocks:
            self.block(self.function.blocks[name])
        self.lines.append("}")
        return "\n".join(self.lines)

    def own(self) -> dict[Type, list[str]]:
        """Registers that a turn sets, by type."""
        blocks = {name: self.function.blocks[name] for name in self.loop.blocks}
        part = Function("", (*self.loop.given, self.loop.counter), (), blocks)
        return FunctionText(part, self.program).locals()

    def block(self, block: Block) -> None:
        self.lines.append(f"L_{block.name}:;")
        for place, item in enumerate(block.instructions):
            self.at = block.name, place
            self.instruction(item)
        assert block.terminator is not None
        self.terminator(block.terminator)

    def instruction(self, item: Instruction) -> None:
        match item:
            case Get(dst, "weight"):
                self.emit(f"{v_(dst)} = 0.0;")
            case Get(dst, "fuel"):
                self.emit(f"{v_(dst)} = slots.fuel;")
            case Set("weight", src):
                self.emit(f"slots.term[{self.slots[self.at]}] = {v_(src)};")
            case Set("fuel", src):
                self.emit(f"slots.fuel = {v_(src)};")
            case Call(_, "tape_weigh", (place, partial)):
                self.emit(f"slots.put({self.slots[self.at]}, {v_(place)}, {v_(partial)});")
            case _:
                super().instruction(item)

    def goto(self, target: str) -> str:
        if target in self.loop.blocks:
            return f"goto L_{target};"
        return "return true;" if target == self.loop.head else "return false;"


class _Warp(FunctionText):
    """Text of a function that the lanes of a warp run together."""

    def __init__(
        self, function: Function, program: Program, called: frozenset[str], touching: frozenset[str]
    ) -> None:
        super().__init__(function, program, called)
        self.touching = touching
        self.apart = {head: self.blocks_of(head) for head in function.apart}
        self.shared = frozenset(name for blocks in self.apart.values() for name in blocks)
        """Blocks of loops whose turns the lanes share."""
        self.gathered = gathered_loops(function, program)
        self.entry = self.states()
        self.state: State = (False, False)
        self.inside = self.here = ""

    def blocks_of(self, head: str) -> set[str]:
        """The blocks of a loop whose counter nobody reads after it."""
        before = predecessors(self.function)
        order = {name: index for index, name in enumerate(self.function.blocks)}
        latches = [other for other in before[head] if order[other] >= order[head]]
        blocks = loop_blocks(head, latches, before)
        live = live_at_entry(self.function)
        after = {t for n in blocks for t in targets(self.function.blocks[n].terminator)} - blocks
        if len(after) != 1 or any(self.bounds(head)[0] in live[name] for name in after):
            raise ValueError(f"lanes can't share a loop of {self.function.name}")
        return blocks

    def bounds(self, head: str) -> tuple[Reg, Reg]:
        """The register that counts the turns of a loop, and its limit."""
        (test,) = self.function.blocks[head].instructions
        assert isinstance(test, Op) and test.name == "lti"
        counter, limit = test.args
        return counter, limit

    # Where lanes have to meet.

    def states(self) -> dict[str, State]:
        """What may be pending where each block begins."""
        first = next(iter(self.function.blocks))
        found: dict[str, State] = {first: (True, False)}
        pending = [first]
        while pending:
            name = pending.pop()
            after = self.after(self.function.blocks[name], found[name])
            for target in targets(self.function.blocks[name].terminator):
                old = found.get(target, (False, False))
                new = (False, False) if name in self.shared else after
                both = old[0] or new[0], old[1] or new[1]
                if target not in found or both != old:
                    found[target] = both
                    pending.append(target)
        return found

    def after(self, block: Block, state: State) -> State:
        """What is pending at the end of a block."""
        for item in block.instructions:
            _, state = self.step(item, state)
        return state

    def step(self, item: Instruction, state: State) -> tuple[bool, State]:
        """Whether lanes meet before an instruction, and what is pending after it."""
        loaded, stored = state
        match item:
            case Load():
                return stored, (True, False)
            case Store():
                return loaded, (False, True)
            case Call(_, name) if name in self.touching:
                return stored, (True, False)
            case Call(_, name) if self.program.functions[name].may_fail:
                return stored, (loaded, False)
            case Alloc():
                return stored, (loaded, False)
            case AtomicAdd():
                raise TypeError("chains share nothing")
            case _:
                return False, state

    # Text.

    def text(self) -> str:
        whole = super().text()
        turns = [
            _Turn(self.function, self.program, self.called, loop).text()
            for loop in self.gathered.values()
        ]
        return "\n".join((*turns, whole))

    def begin(self) -> None:
        if self.function.name in MEETING:
            self.emit("block_sync();")

    def block(self, block: Block) -> None:
        if block.name in self.apart:
            self.turns(block)
        elif block.name not in self.shared:
            self.plain(block)

    def plain(self, block: Block) -> None:
        """A block outside of other text."""
        self.state = self.entry.get(block.name, (True, True))
        self.here = block.name
        super().block(block)

    def turns(self, head: Block) -> None:
        """A loop whose turns lanes share: seldom does a lane have more than one."""
        blocks = self.apart[head.name]
        counter, limit = self.bounds(head.name)
        assert isinstance(head.terminator, Branch)
        self.lines.append(f"L_{head.name}:;")
        self.emit("warp_sync();")
        start = f"{v_(counter)} += LANE; {v_(counter)} < {v_(limit)}; {v_(counter)} += WARP - 1"
        self.emit(f'_Pragma("unroll 1") for ({start}) {{')
        self.here = head.name
        self.emit(f"goto L_{head.terminator.then};")
        for name, block in self.function.blocks.items():
            if name in blocks and name != head.name:
                self.plain(block)
        self.emit("}")
        self.emit("warp_sync();")
        self.emit(f"goto L_{head.terminator.other};")

    def meet(self) -> None:
        """All lanes wait for each other."""
        self.emit("warp_sync();")

    def instruction(self, item: Instruction) -> None:
        if self.here in self.shared:
            super().instruction(item)
            return
        meet, self.state = self.step(item, self.state)
        if meet:
            self.meet()
        if isinstance(item, Store):
            self.emit("if (LANE == 0)")
        super().instruction(item)

    def terminator(self, item: Terminator) -> None:
        if self.here not in self.shared and isinstance(item, Return | Fail) and self.state[1]:
            self.meet()
        super().terminator(item)

    def goto(self, target: str) -> str:
        plain = super().goto(target)
        if target in self.apart and self.here in self.apart[target]:
            return "continue;"
        if target in self.gathered and self.here not in self.gathered[target].blocks:
            return f"{{ {self.gather(self.gathered[target])} {plain} }}"
        return plain

    def gather(self, loop: Gathered) -> str:
        """The turns of a loop that lanes share, before those that are left."""
        turn = _Turn(self.function, self.program, self.called, loop)
        slots, counter = len(loop.slots), v_(loop.counter)
        given = ", ".join(["ctx", *(v_(r) for r in loop.given), "turn", "slots"])
        body = f"[&](i64 turn, Slots<{slots}>& slots) {{ return {turn.name}({given}); }}"
        sizes = f"{slots}, {len(loop.weights)}"
        call = f"gather<{sizes}>(ctx, {counter}, {v_(loop.limit)}, {body});"
        return f"warp_sync(); {counter} = {call}"


def warp_texts(program: Program) -> Texts:
    """What makes the texts of a program's functions."""
    touching = frozenset(n for n, f in program.functions.items() if touches_memory(f, program))

    def text(function: Function, whole: Program, called: frozenset[str]) -> FunctionText:
        return _Warp(function, whole, called, touching)

    return text


def for_warps(program: Program) -> Program:
    """The program as warps run it.

    Functions that have loops are called: copies of them take long to fetch. Loops that fill a
    vector are shared.
    """
    found = Program()
    for name, function in program.functions.items():
        called = function.inline and _loops(function)
        one = replace(function, inline=False, outlined=True) if called else function
        found.functions[name] = with_fills(one, program)
    return found


def _loops(function: Function) -> bool:
    order = {name: index for index, name in enumerate(function.blocks)}
    return any(
        order[target] <= order[name]
        for name, block in function.blocks.items()
        for target in targets(block.terminator)
    )


def most_slots(program: Program) -> int:
    """Terms and partial derivatives of the loop that has the most; 0 if lanes share none."""
    loops = [gathered_loops(f, program) for f in program.functions.values()]
    return max((len(loop.slots) for found in loops for loop in found.values()), default=0)
