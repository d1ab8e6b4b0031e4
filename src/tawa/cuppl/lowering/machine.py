"""Suspending functions become one resumable function over explicit frames.

The stack of a particle lies in its state, one word after the other, `stride` words apart (so that
the same word of neighbouring particles is contiguous). A frame is the words that are live after a
call or a suspension, and on top of them a word that says where to go on: the number of the resume
point, and the frame's size in the upper half. Returning, and resuming, is to pop that word and
jump. Frames are plain words: copying them copies the continuation.

Whatever can run out of room (heap, native stack, this stack) happens at a point where the particle
can be suspended too, so the driver can make room and go on from there.

State words: 0 the top of the stack (in words times stride, 34 bits) and above it the particle's
first ancestor; 1 the draws made in this step (32 bits) and above them the next step to run, or -1.
A program that uses `mem` or prompts has two more: the memo table and its counter. The stack is
next.

A *segment* is the same function for eight particles at once, from one suspension to the next. The
words of their stacks lie side by side, so each is loaded and stored as one vector. All stacks are
equally high, and all particles go the same way but for detours (`divergence.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tawa.cuppl.core.builder import targets
from tawa.cuppl.core.ir import (
    Alloc,
    Block,
    Branch,
    Call,
    Const,
    Copy,
    Factor,
    Fail,
    Function,
    Get,
    Instruction,
    Jump,
    Load,
    Op,
    Program,
    Reg,
    Reset,
    Resume,
    Return,
    Set,
    Shift,
    Store,
    Switch,
    Type,
)
from tawa.cuppl.lowering.dataflow import (
    live_at_entry,
    live_before,
    rename,
    touches,
    used_by_terminator,
)
from tawa.cuppl.lowering.fixed import fixed_parameters
from tawa.cuppl.lowering.frames import (
    DISPATCH,
    DONE,
    DONE_POINT,
    DRAW_MASK,
    ENTRY_POINT,
    FINAL_POINT,
    MACHINE,
    MARK_POINT,
    SEGMENT,
    SUSPENDED,
    TOP_MASK,
    Frame,
    Machine,
    point_word,
)  # fmt: skip
from tawa.cuppl.lowering.suspension import waiting_functions, weighing_functions
from tawa.cuppl.lowering.tail import LOOP_HEAD, is_tail_call
from tawa.cuppl.numeric.philox import GROUP
from tawa.cuppl.typing.failures import NO_RESET, STACK_FULL

__all__ = ["build_machine", "build_segment"]

I64, BOOL = Type.I64, Type.BOOL
LONGEST_SEGMENT = 1500
"""Instructions of functions; longer programs are not worth the time that it takes to look."""
MOST_AT_ONCE = 32
"""Words of heap that are taken at once: a lane of a GPU gets no more at first."""


def build_machine(program: Program, suspending: set[str], main: str) -> Machine:
    """Merge the suspending functions; natives that they call stay in `program`."""
    return _Builder(program, suspending, main).run()


def build_segment(program: Program, suspending: set[str], main: str) -> Function | None:
    """The machine for eight particles, with the parameters (stacks, top, limit).

    It returns the outcome and the new top. None where stacks are more than words: with a table of
    results of `mem`, or continuations that are captured.
    """
    functions = [program.functions[name] for name in sorted(suspending)]
    items = [i for f in functions for b in f.blocks.values() for i in b.instructions]
    if len(items) > LONGEST_SEGMENT or touches(program, ("memo", "memo_count")):
        return None
    if any(isinstance(item, Reset | Resume | Shift) for item in items):
        return None
    return _Segment(program, suspending, main).run().function


@dataclass(slots=True)
class _Builder:
    program: Program
    suspending: set[str]
    main: str
    blocks: dict[str, Block] = field(default_factory=dict[str, Block])
    frames: list[Frame] = field(default_factory=list[Frame])
    resumes: dict[int, str] = field(default_factory=dict[int, str])
    prefixes: dict[str, str] = field(default_factory=dict[str, str])
    count: int = 0
    here: Block = field(default_factory=lambda: Block(""))
    calls: dict[str, int] = field(default_factory=dict[str, int])
    travelling: set[Reg] = field(default_factory=set[Reg])
    given: set[Reg] = field(default_factory=set[Reg])
    prefix: str = ""
    fixed: set[Reg] = field(default_factory=set[Reg])
    waiting: set[str] = field(default_factory=set[str])
    weighing: set[str] = field(default_factory=set[str])
    stopping: set[str] = field(default_factory=set[str])
    """Functions in which a particle may wait, or be suspended."""
    header: int = 2
    state: Reg = Reg("state", I64)
    stride: Reg = Reg("stride", I64)
    limit: Reg = Reg("limit", I64)
    top: Reg = Reg("top", I64)

    def run(self) -> Machine:
        names = [n for n in self.program.functions if n in self.suspending]
        self.waiting = waiting_functions(self.program)
        self.weighing = weighing_functions(self.program)
        self.stopping = self.waiting | self.suspending
        self.header = 4 if touches(self.program, ("memo", "memo_count")) else 2
        self.prefixes = {name: f"f{k}_" for k, name in enumerate(names)}
        results = self.program.functions[self.main].results
        self.frames = [Frame(()), Frame(()), Frame(results), Frame((I64,))]
        self.start(results)
        for name in names:
            self.function(self.program.functions[name])
        self.dispatch()
        self.define_results()
        return Machine(
            self.finished(), self.frames, self.slack(), results, self.header, self.joins(names)
        )

    def finished(self) -> Function:
        params = (self.state, self.stride, self.limit)
        return Function(MACHINE, params, (I64,), self.blocks, may_fail=True)

    def define_results(self) -> None:
        """Give results a value that nothing returns: of functions that never end."""
        missing = self.travelling - self.given
        first = next(iter(self.blocks.values()))
        first.instructions[:0] = [
            Const(r, 0.0 if r.type is Type.F64 else 0) for r in sorted(missing, key=str)
        ]

    def joins(self, names: Sequence[str]) -> tuple[str, ...]:
        entries = [self.entry_of(name) for name in names if self.calls.get(name, 0) > 1]
        heads = [self.prefixes[name] + LOOP_HEAD for name in names]
        return (*entries, *(head for head in heads if head in self.blocks))

    def slack(self) -> int:
        return max(len(f.words) for f in self.frames) + 2

    # Emission.

    def open(self, name: str) -> None:
        self.here = self.blocks[name] = Block(name)

    def put(self, *items: Instruction) -> None:
        self.here.instructions.extend(items)

    def fresh(self, type_: Type = I64) -> Reg:
        self.count += 1
        return Reg(f"m{self.count}", type_)

    def label(self, hint: str) -> str:
        self.count += 1
        return f"{hint}_m{self.count}"

    def const(self, value: int) -> Reg:
        reg = self.fresh()
        self.put(Const(reg, value))
        return reg

    def op(self, name: str, *args: Reg, type_: Type = I64) -> Reg:
        reg = self.fresh(type_)
        self.put(Op(reg, name, args))
        return reg

    def step(self, words: int) -> Reg:
        """`words` words of stack, in units of the stride."""
        return self.stride if words == 1 else self.op("muli", self.stride, self.const(words))

    def push(self, regs: Sequence[Reg], point: int) -> None:
        """Push a frame."""
        for reg in regs:
            self.push_word(reg)
        self.push_word(self.const(point_word(point, len(regs))))

    def push_word(self, reg: Reg) -> None:
        self.put(Store(self.state, reg, self.top))
        self.put(Op(self.top, "addi", (self.top, self.stride)))

    def pop(self, regs: Sequence[Reg]) -> None:
        """Pop the words of a frame whose top word is gone already."""
        if not regs:
            return
        self.put(Op(self.top, "subi", (self.top, self.step(len(regs)))))
        index = self.top
        for position, reg in enumerate(regs):
            self.put(Load(reg, self.state, index))
            if position < len(regs) - 1:
                index = self.op("addi", index, self.stride)

    def new_point(self, regs: Sequence[Reg]) -> tuple[int, str]:
        """A resume point for a frame with these registers: its number and its block."""
        self.frames.append(Frame(tuple(r.type for r in regs)))
        point = len(self.frames) - 1
        name = f"resume{point}"
        self.resumes[point] = name
        return point, name

    def leave(self, outcome: int) -> None:
        """Save the stack and return an outcome to the driver."""
        draw, old = self.fresh(), self.fresh()
        self.put(Get(draw, "draw"))
        self.put(Load(old, self.state, self.stride))
        kept = self.op("andi", old, self.const(~DRAW_MASK))
        self.put(Store(self.state, self.op("ori", kept, draw), self.stride))
        if self.header == 4:
            for word, name, type_ in ((2, "memo", Type.REF), (3, "memo_count", I64)):
                reg = self.fresh(type_)
                self.put(Get(reg, name))
                self.put(Store(self.state, reg, self.step(word)))
        first = self.fresh()
        self.put(Load(first, self.state))
        ancestor = self.op("andi", first, self.const(~TOP_MASK))
        self.put(Store(self.state, self.op("ori", ancestor, self.top)))
        reg = self.const(outcome)
        self.here.terminator = Return((reg,))

    # The fixed parts.

    def enter_machine(self) -> None:
        first = self.fresh()
        self.put(Load(first, self.state))
        self.put(Op(self.top, "andi", (first, self.const(TOP_MASK))))

    def start(self, results: tuple[Type, ...]) -> None:
        self.open("entry")
        self.enter_machine()
        self.here.terminator = Jump(DISPATCH)
        self.resumes[ENTRY_POINT] = self.entry_of(self.main)
        self.resumes[FINAL_POINT] = "final"
        self.resumes[DONE_POINT] = "finished"
        self.resumes[MARK_POINT] = "mark"
        self.open("final")
        self.push(self.return_regs(results), DONE_POINT)
        self.leave(DONE)
        self.open("finished")
        self.put(Op(self.top, "addi", (self.top, self.stride)))
        self.leave(DONE)
        self.open("mark")
        self.pop((self.fresh(),))
        self.here.terminator = Jump(DISPATCH)

    def entry_of(self, name: str) -> str:
        return self.prefixes[name] + next(iter(self.program.functions[name].blocks))

    def dispatch(self) -> None:
        self.open(DISPATCH)
        self.put(Op(self.top, "subi", (self.top, self.stride)))
        word = self.fresh()
        self.put(Load(word, self.state, self.top))
        point = self.op("andi", word, self.const(0xFFFFFFFF))
        self.here.terminator = Switch(point, dict(self.resumes), "broken")
        self.blocks["broken"] = Block("broken", [], Fail(NO_RESET, 0))

    def return_regs(self, types: Sequence[Type]) -> tuple[Reg, ...]:
        """The registers in which results travel from a return to the resume point."""
        regs = tuple(Reg(f"ret{k}_{t.value}", t) for k, t in enumerate(types))
        self.travelling.update(regs)
        return regs

    def move(self, targets: Sequence[Reg], sources: Sequence[Reg]) -> None:
        """Copy at once, in case that a source is another target."""
        self.given.update(targets)
        pairs = [(t, s) for t, s in zip(targets, sources, strict=True) if t != s]
        if any(s in targets for _, s in pairs):
            held = [self.fresh(s.type) for _, s in pairs]
            self.put(*(Copy(h, s) for h, (_, s) in zip(held, pairs, strict=True)))
            pairs = [(t, h) for (t, _), h in zip(pairs, held, strict=True)]
        self.put(*(Copy(t, s) for t, s in pairs))

    # One function.

    def function(self, function: Function) -> None:
        prefix = self.prefix = self.prefixes[function.name]
        live, self.fixed = live_at_entry(function), fixed_parameters(function, self.suspending)
        for block in function.blocks.values():
            self.open(prefix + block.name)
            after = {*used_by_terminator(block.terminator), *self.fixed}
            for target in targets(block.terminator):
                after |= live[target]
            if not self.instructions(block, after):
                self.finish(block)

    def instructions(self, block: Block, after: set[Reg]) -> bool:
        """Emit a block's instructions; true if it ended in a tail call."""
        taken: dict[int, tuple[Reg, int]] = {}
        for index, item in enumerate(block.instructions):
            rest = block.instructions[index + 1 :]
            if index in taken:
                assert isinstance(item, Alloc)
                self.take(Reg(self.prefix + item.dst.name, item.dst.type), *taken[index])
                continue
            if isinstance(item, Alloc):
                before = self.named(live_before(block.instructions[index:], after))
                taken |= self.allocations(block.instructions, index, before)
                if index in taken:
                    self.take(Reg(self.prefix + item.dst.name, item.dst.type), *taken[index])
                    continue
            if isinstance(item, Call | Alloc | Factor | Reset | Shift | Resume):
                live = self.named(live_before(rest, after))
                before = self.named(live_before(block.instructions[index:], after))
                if self.special(
                    rename(item, self.prefix), live, before, is_tail_call(block, index)
                ):
                    return True
            else:
                self.put(rename(item, self.prefix))
        return False

    def allocations(
        self, items: Sequence[Instruction], first: int, before: list[Reg]
    ) -> dict[int, tuple[Reg, int]]:
        """Room for an allocation and those right behind it, taken at once if they are several.

        For each its place: the start of that room, and how many words lie before.
        """
        places: dict[int, int] = {}
        words = 0
        for index in range(first, len(items)):
            item = items[index]
            if isinstance(item, Alloc):
                if isinstance(item.words, Reg) or words + item.words > MOST_AT_ONCE:
                    break
                places[index] = words
                words += item.words
            elif isinstance(item, Factor | Reset | Shift | Resume) or (
                isinstance(item, Call) and item.function in self.stopping
            ):
                break
        if len(places) < 2:
            return {}
        start, size = self.fresh(Type.REF), self.fresh()
        self.native_call(Call((start,), "allocate", (size,)), before, (Const(size, words),))
        return {index: (start, before) for index, before in places.items()}

    def take(self, target: Reg, start: Reg, words: int) -> None:
        """Some of the room that was taken at once."""
        address = self.fresh()
        self.put(Copy(address, start))
        if words:
            address = self.op("addi", address, self.const(8 * words))
        self.put(Copy(target, address))

    def named(self, regs: set[Reg]) -> list[Reg]:
        """Registers with the function's prefix, references and the rest in a fixed order."""
        return [Reg(self.prefix + r.name, r.type) for r in sorted(regs, key=lambda r: r.name)]

    def special(self, item: Instruction, live: list[Reg], before: list[Reg], tail: bool) -> bool:
        match item:
            case Call(function=name) if name in self.suspending:
                return self.suspending_call(item, live, before, tail)
            case Call():
                self.native_call(item, before)
            case Alloc(dst, words):
                size = words if isinstance(words, Reg) else self.fresh()
                again = () if isinstance(words, Reg) else (Const(size, words),)
                self.native_call(Call((dst,), "allocate", (size,)), before, again)
            case Factor():
                self.suspend(live)
            case Reset():
                self.reset(item, live, before)
            case Shift():
                self.shift(item, live)
            case Resume():
                self.resume(item, live, before)
            case _:
                raise TypeError(type(item).__name__)
        return False

    def finish(self, block: Block) -> None:
        """The block's terminator; a return goes through the top frame."""
        terminator = block.terminator
        assert terminator is not None
        if isinstance(terminator, Return):
            values = [Reg(self.prefix + v.name, v.type) for v in terminator.values]
            self.move(self.return_regs([v.type for v in values]), values)
            self.here.terminator = Jump(DISPATCH)
        else:
            self.here.terminator = rename(terminator, self.prefix)

    def suspend(self, live: list[Reg]) -> None:
        """Return to the driver; go on here when resumed."""
        point, name = self.new_point(live)
        self.push(live, point)
        self.leave(SUSPENDED)
        self.open(name)
        self.pop(live)

    def retry(self, live: list[Reg]) -> str:
        """Start a block to which a particle can come back; returns the block's name."""
        name = self.label("try")
        self.here.terminator = Jump(name)
        point, resume = self.new_point(live)
        self.open(resume)
        self.pop(live)
        self.here.terminator = Jump(name)
        self.open(name)
        return f"{name} {point}"

    def ensure(self, words: Reg | int, live: list[Reg]) -> None:
        """Suspend here, to try again, unless the stack has room for some words."""
        _, _, point = self.retry(live).partition(" ")
        # After the label, so that it is computed again when the particle comes back.
        need = self.step(words) if isinstance(words, int) else self.op("muli", words, self.stride)
        full = self.op("gti", self.op("addi", self.top, need), self.limit, type_=BOOL)
        grow, good = self.label("grow"), self.label("room")
        self.here.terminator = Branch(full, grow, good)
        self.open(grow)
        self.push(live, int(point))
        self.leave(STACK_FULL)
        self.open(good)

    def suspending_call(self, call: Call, live: list[Reg], before: list[Reg], tail: bool) -> bool:
        callee = self.program.functions[call.function]
        params = [Reg(self.prefixes[callee.name] + p.name, p.type) for p in callee.params]
        fixed = self.named(self.fixed) if self.prefixes[callee.name] == self.prefix else []
        kept = [r for r in live if r not in (*call.dsts, *fixed)]
        self.calls[callee.name] = self.calls.get(callee.name, 0) + 1
        if tail:
            self.move(params, call.args)
            self.here.terminator = Jump(self.entry_of(callee.name))
            return True
        self.ensure(len(kept) + 1, before)
        point, name = self.new_point(kept)
        self.push(kept, point)
        self.move(params, call.args)
        self.here.terminator = Jump(self.entry_of(callee.name))
        self.returned(name, kept, call.dsts)
        return False

    def returned(self, name: str, kept: list[Reg], dsts: tuple[Reg, ...]) -> None:
        """The block in which a caller goes on with results."""
        self.open(name)
        self.pop(kept)
        self.move(dsts, self.return_regs([d.type for d in dsts]))

    def native_call(self, call: Call, before: list[Reg], again: tuple[Const, ...] = ()) -> None:
        """Call; without room, suspend to try `again`, where those constants are made anew."""
        if call.function not in self.waiting:
            self.put(*again, call)
            return
        _, _, point = self.retry(before).partition(" ")
        self.put(*again)
        draw = self.fresh()
        self.put(Get(draw, "draw"))
        kept = [(self.fresh(type_), name) for name, type_ in self.fields(call.function)]
        self.put(*(Get(reg, name) for reg, name in kept))
        failed = self.label("failed")
        self.put(Call(call.dsts, call.function, call.args, failed))
        good = self.label("called")
        self.here.terminator = Jump(good)
        self.open(failed)
        status = self.fresh()
        self.put(Get(status, "status"))
        self.put(Call((), "restore_draw", (draw,)))
        self.put(*(Set(name, reg) for reg, name in kept))
        self.push(before, int(point))
        self.leave(0)
        self.here.terminator = Return((status,))
        self.open(good)

    def fields(self, callee: str) -> list[tuple[str, Type]]:
        """What a call that is made again has to find as it was, but for the draws."""
        memo = [("memo", Type.REF), ("memo_count", I64)] if self.header == 4 else []
        return [*memo, *([("weight", Type.F64)] if callee in self.weighing else [])]

    # Delimited control.

    def reset(self, item: Reset, live: list[Reg], before: list[Reg]) -> None:
        kept = [r for r in live if r not in item.dsts]
        self.ensure(len(kept) + 3, before)
        point, name = self.new_point(kept)
        self.push(kept, point)
        self.push((item.prompt,), MARK_POINT)
        self.enter(item.function, item.args)
        self.returned(name, kept, item.dsts)

    def enter(self, name: str, args: Sequence[Reg]) -> None:
        """Jump to a function's entry; what it returns goes to the frame on top."""
        callee = self.program.functions[name]
        params = [Reg(self.prefixes[name] + p.name, p.type) for p in callee.params]
        self.calls[name] = self.calls.get(name, 0) + 1
        self.move(params, args)
        self.here.terminator = Jump(self.entry_of(name))

    def shift(self, item: Shift, live: list[Reg]) -> None:
        kept = [r for r in live if r not in item.dsts]
        before = list(dict.fromkeys([*kept, *item.args, item.prompt]))
        self.ensure(len(kept) + 1, before)
        point, name = self.new_point(kept)
        outside, inside = self.label("outside"), self.label("inside")
        mark = self.fresh()
        bottom = self.op("muli", self.stride, self.const(self.header))
        found = (self.state, self.stride, bottom, self.top, item.prompt)
        self.put(Call((mark,), "find_mark", found))
        missing = self.op("lti", mark, self.const(0), type_=BOOL)
        self.here.terminator = Branch(missing, outside, inside)
        self.blocks[outside] = Block(outside, [], Fail(NO_RESET, item.site))
        self.open(inside)
        size = self.op("divi", self.op("subi", self.top, mark), self.stride)
        whole = self.op("addi", size, self.const(len(kept) + 1))
        address = self.fresh()
        held = list(dict.fromkeys([*before, mark, whole]))
        call = Call((address,), "new_continuation", (item.prompt, whole))
        self.native_call(call, held)
        self.push(kept, point)
        self.put(Call((), "capture", (self.state, self.stride, mark, self.top, address)))
        self.put(Copy(self.top, mark))
        continuation = self.fresh(Type.REF)
        self.put(Copy(continuation, address))
        self.enter(item.function, (continuation, *item.args))
        self.returned(name, kept, item.dsts)

    def resume(self, item: Resume, live: list[Reg], before: list[Reg]) -> None:
        kept = [r for r in live if r not in item.dsts]
        address = self.fresh()
        self.put(Copy(address, item.continuation))
        size = self.fresh()
        self.put(Load(size, address, None, 1))
        need = self.op("addi", size, self.const(len(kept) + 4))
        self.ensure(need, [*before, need])
        self.put(Copy(address, item.continuation))  # it may have moved since
        point, name = self.new_point(kept)
        self.push(kept, point)
        prompt = self.fresh()
        self.put(Load(prompt, address, None, 2))
        self.push((prompt,), MARK_POINT)
        self.move(self.return_regs([a.type for a in item.args]), item.args)
        self.put(Call((self.top,), "reinstate", (self.state, self.stride, self.top, address)))
        self.here.terminator = Jump(DISPATCH)
        self.returned(name, kept, item.dsts)


class _Segment(_Builder):
    """The machine with another way in and out; its caller keeps a particle's first two words."""

    def enter_machine(self) -> None:
        self.put(Const(self.stride, GROUP))

    def finished(self) -> Function:
        params, results = (self.state, self.top, self.limit), (Type.I64, Type.I64)
        return Function(SEGMENT, params, results, self.blocks, may_fail=True)

    def leave(self, outcome: int) -> None:
        self.here.terminator = Return((self.const(outcome), self.top))
