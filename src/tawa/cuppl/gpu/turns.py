"""The resumable function for a GPU: the lanes of a warp run one segment of it at a time.

A *segment* starts at a resume point, or where a call enters a function, and ends where control
goes through the stack or enters a function again. Lanes differ in the segment that they have to
run next; the warp runs the one that most of them wait for, and the others wait until it is their
turn. A lane whose particle suspends takes the next particle; one whose recursion outgrows its stack
moves to one of the large stacks, while there are any, and goes on from there. So lanes that diverge
meet again, at the latest at the next call, and a deep recursion of one lane does not keep the
others from their work (compare the program-counter batching of Radul et al., arXiv 1910.11141).
"""

from __future__ import annotations

from tawa.cuppl.core.ir import (
    Block,
    Const,
    Fail,
    Instruction,
    Jump,
    Op,
    Program,
    Reg,
    Return,
    Store,
    Switch,
    Terminator,
    Type,
)
from tawa.cuppl.gpu.cuda import TYPE_NAMES, FunctionText, called_in_programs
from tawa.cuppl.lowering.dataflow import defined
from tawa.cuppl.lowering.frames import DISPATCH, Machine

__all__ = ["machine_text"]

HEAD = """\
DEVICE void cuppl_turns(i64* control, i64 deep, Tally& tally) {
  const i64 v_stride = WARP;
  const i64 thread = (i64)blockIdx.x * BLOCK + threadIdx.x, lane = threadIdx.x % WARP;
  const i64 region = deep ? thread + control[SHALLOW_LANES] : thread;
  const i64 n = control[PARTICLES], words = control[STACK_WORDS + deep];
  const i64 own_stack = control[STACKS + deep] + 8 * ((thread - lane) * words + lane);
  const i64 own_limit = (words - control[SLACK]) * WARP, grab = control[GRAB];
  i64 v_state = own_stack, v_limit = own_limit, slot = -1;
  Context ctx;
  load_context(ctx, control, region);
  // Each warp begins with particles of its own; the next ones go to the warp that comes first.
  const i64 shares = (i64)gridDim.x * (BLOCK / WARP) * grab;
  i64 p = 0, outcome = 0, v_top = 0, next = thread / WARP * grab;
  i64 end = next + grab < n ? next + grab : n;
  int point = IDLE, below = 0;  // the segment to run; the one on top of the stack
  unsigned turns = 0;
  bool fresh = false, more = true;
"""
REFILL = """\
  for (;;) {
    unsigned idle = warp_ballot(point == IDLE);
    // What was begun is then as it was before.
    if (++turns % 128 == 0 && !warp_ballot(!gave_up(control, point == IDLE ? next : p))) break;
    if (more && idle && 4 * bits_in(idle) >= WARP) {
      if (next >= end) {
        next = warp_grab((u64*)control + NEXT + deep, grab) + shares;
        end = next + grab < n ? next + grab : n;
        more = next < n && !warp_ballot(gave_up(control, next));
      }
      if (more) {
        i64 mine = next + bits_in(idle & ((1u << lane) - 1));
        next += bits_in(idle);
        if (point == IDLE && mine < end
            && load_particle(ctx, control, mine, v_state, deep, tally)) {
          p = mine;
          fresh = false;
          point = ENTER;
        }
      }
    }
    int chosen = warp_choose(point);
    if (chosen < 0) {
      if (more) continue;
      break;
    }
    if (point != chosen) continue;
    switch (point) {
"""
TAIL = """\
    L_enter:
      v_top = int_at(v_state) & TOP_MASK;
      below = (int)int_at(v_state + 8 * (v_top - v_stride));
      goto L_dispatch;
    L_stop:
      if (outcome == HEAP_FULL && !fresh && cuppl_next_chunk(ctx, (i64)control)) {
        fresh = true;
        ctx.depth = 0;
        cuppl_restore_draw(ctx, int_at(v_state + 8 * WARP) & 0xFFFFFFFFll);
        point = ENTER;
        continue;
      }
      if (outcome == STACK_FULL && !deep && slot < 0) slot = take_stack(control, thread);
      if (outcome == STACK_FULL && v_state == own_stack && slot >= 0) {
        i64 large = stack_of_slot(control, slot);
        i64 used = (int_at(v_state) & TOP_MASK) / WARP;
        for (i64 word = 0; word < used; ++word)
          int_at(large + 8 * WARP * word) = int_at(v_state + 8 * WARP * word);
        v_state = large;
        v_limit = (control[STACK_WORDS + 1] - control[SLACK]) * WARP;
        cuppl_restore_draw(ctx, int_at(v_state + 8 * WARP) & 0xFFFFFFFFll);
        point = ENTER;
        continue;
      }
      settle_particle(ctx, control, p, v_state, deep, outcome, tally);
      if (slot >= 0) give_stack(control, slot);
      v_state = own_stack;
      v_limit = own_limit;
      slot = -1;
      point = IDLE;
      continue;
  }
  if (slot >= 0) give_stack(control, slot);
  save_heap(ctx, control, region);
}
"""

READ_BELOW = "below = (int)int_at(v_state + 8 * (v_top - v_stride));"


class _Machine(FunctionText):
    """Text of the resumable function as turns of a warp."""

    def __init__(self, machine: Machine, program: Program) -> None:
        super().__init__(machine.function, program, called_in_programs(program))
        self.constants: dict[Reg, int] = {}
        self.first = len(machine.frames)
        dispatch = machine.function.blocks[DISPATCH].terminator
        assert isinstance(dispatch, Switch)
        self.cases = dict(dispatch.cases)
        self.resumes = frozenset(self.cases.values())
        for name in dict.fromkeys(self.past_jumps(j) for j in machine.joins):
            self.cases[self.first + len(self.cases) - len(dispatch.cases)] = name
        self.joins = {name: point for point, name in self.cases.items() if point >= self.first}

    def past_jumps(self, name: str) -> str:
        """The block at the end of a chain of blocks that only jump."""
        block = self.function.blocks[name]
        while not block.instructions and isinstance(block.terminator, Jump):
            name = block.terminator.target
            block = self.function.blocks[name]
        return name

    def whole(self) -> tuple[str, str]:
        points = max(self.cases) + 1
        lines = [f"enum {{ ENTER = {points}, IDLE = {points + 1} }};"]
        self.lines = []
        reserved = {p.name for p in self.function.params} | {"top"}
        for type_, found in self.locals().items():
            kept = [n for n in found if n not in reserved]
            zero = ", ".join(f"v_{n} = 0" for n in kept)
            self.lines.append(f"  {TYPE_NAMES[type_]} {zero};")
        declared = self.lines
        self.lines = []
        for point, name in self.cases.items():
            self.emit(f"  case {point}: goto L_{name};")
        self.emit("  case ENTER: goto L_enter;")
        self.emit("  default: goto L_broken;")
        self.emit("}")
        for block in self.function.blocks.values():
            if block.name != "entry":
                self.block(block)
        return "\n".join(lines), "\n".join([HEAD, *declared, REFILL, *self.lines, TAIL])

    def block(self, block: Block) -> None:
        if block.name == DISPATCH:
            self.lines.append("L_dispatch:;")
            self.emit("v_top = v_top - v_stride;")
            self.emit("point = below;")
            self.emit("continue;")
            return
        self.constants = {}
        super().block(block)

    def begin_block(self, block: Block) -> None:
        """After a frame without words, `below` is read here."""
        tops = [i.name for i in block.instructions if isinstance(i, Op) and i.dst.name == "top"]
        if block.name in self.resumes and "subi" not in tops:
            self.emit(READ_BELOW)

    def instruction(self, item: Instruction) -> None:
        """The text of one instruction; `below` follows the stack.

        It is read while the words of a frame are, so that a return need not wait for it.
        """
        super().instruction(item)
        match item:
            case Const(dst, value) if dst.type is Type.I64:
                self.constants[dst] = int(value)
            case Store(Reg("state"), src, Reg("top")) if src in self.constants:
                self.emit(f"below = {self.constants[src] & 0xFFFFFFFF};")
            case Op(Reg("top"), "addi"):
                pass
            case _ if any(reg.name == "top" for reg in defined(item)):
                self.emit(READ_BELOW)
            case _:
                pass

    def goto(self, target: str) -> str:
        end = self.past_jumps(target)
        if end in self.joins:
            return f"{{ point = {self.joins[end]}; continue; }}"
        return f"goto L_{end};"

    def terminator(self, item: Terminator) -> None:
        match item:
            case Return(values):
                self.emit(f"outcome = v_{values[0].name}; goto L_stop;")
            case Fail(code, site):
                self.emit(f"ctx.status = {code}; ctx.site = {site};")
                self.emit(f"outcome = {code}; goto L_stop;")
            case _:
                super().terminator(item)

    def failed(self) -> str:
        return "{ outcome = ctx.status; goto L_stop; }"


def machine_text(machine: Machine, program: Program) -> tuple[str, str]:
    """CUDA C++ of the numbers of points, and of `cuppl_turns`.

    That function runs particles until none is left for the step.
    """
    return _Machine(machine, program).whole()
