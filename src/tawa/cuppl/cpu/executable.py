"""A program compiled for the CPU, and the memory and threads that it runs in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from tawa.base.object_text import classes_of
from tawa.cuppl.core.builder import FunctionBuilder
from tawa.cuppl.core.ir import CONTEXT_FIELDS, Call, Function, Program, Reg, Return, Store, Type
from tawa.cuppl.cpu.engine import (
    Compiled,
    Module,
    compile_llvm,
    compile_modules,
    known_object,
    link_objects,
    object_code,
    object_key,
)
from tawa.cuppl.cpu.group_text import GROUP_NATIVES, group_stubs, group_text
from tawa.cuppl.cpu.lanes import LaneUnit, lanes_units
from tawa.cuppl.cpu.llvm import emit_llvm, emit_unit
from tawa.cuppl.cpu.memory import masks_of, object_table
from tawa.cuppl.cpu.together import run_together
from tawa.cuppl.cpu.units import Unit, cut
from tawa.cuppl.lowering.divergence import APART, TOGETHER
from tawa.cuppl.lowering.frames import SEGMENT
from tawa.cuppl.lowering.guards import mark_fallible
from tawa.cuppl.lowering.pipeline import Lowered
from tawa.cuppl.natives import climb as climb_natives
from tawa.cuppl.natives import collect
from tawa.cuppl.natives import importance as importance_natives
from tawa.cuppl.natives import notes as note_natives
from tawa.cuppl.natives import nuts as nuts_natives
from tawa.cuppl.natives import relocate as relocate_natives
from tawa.cuppl.natives import smc as smc_natives
from tawa.cuppl.natives import starts as start_natives
from tawa.cuppl.natives import tape as tape_natives
from tawa.cuppl.natives import trace as trace_natives
from tawa.cuppl.natives.control import STOPPED
from tawa.cuppl.numeric.philox import ROOM_WORDS
from tawa.cuppl.translation.kept_natives import keep_natives, own_source
from tawa.cuppl.translation.native import EXTERNAL, NATIVES, VECTORISED, link, translate
from tawa.cuppl.typing.failures import STACK_FULL
from tawa.functional.kept import Shelf, kept_object
from tawa.runtime.cache import content_key, default_cache

__all__ = ["NATIVE_MODULES", "Executable", "Workers", "new_context", "run_key"]

NATIVE_MODULES = (
    climb_natives, collect, importance_natives, note_natives, nuts_natives, relocate_natives,
    smc_natives, start_natives, tape_natives, trace_natives,
)  # fmt: skip
"""Where the driving natives are defined; importing them registers them."""

KEPT = (
    "tawa.base.source", "tawa.functional.syntax", "tawa.functional.terms", "tawa.cuppl.core.ir",
    "tawa.cuppl.core.layout", "tawa.cuppl.elaboration.shared", "tawa.cuppl.lowering.frames",
    "tawa.cuppl.lowering.pipeline",
)  # fmt: skip
"""Modules that define the classes of lowered programs."""

Words = npt.NDArray[np.int64]
FIELD = {name: index for index, name in enumerate(CONTEXT_FIELDS)}
AHEAD = {
    "next_bits": "next_bits_ahead", "restore_draw": "restore_draw_ahead",
    "spread_product": "spread_product_wide", "dot_range": "dot_range_wide",
}  # fmt: skip
"""Natives that are something else on a CPU, with the same results: what is many at a time."""
BYTES_A_LEVEL = 2048
"""Native stack set aside for each level of recursion."""


def new_context() -> Words:
    """The context of a thread, with room for its next draws."""
    context = np.zeros(len(CONTEXT_FIELDS) + ROOM_WORDS, dtype=np.int64)
    context[FIELD["room"]] = context.ctypes.data + 8 * len(CONTEXT_FIELDS)
    return context


def machine_wrapper(lowered: Lowered) -> Function:
    """`run_machine`: the machine, with a failure turned into its status."""
    b = FunctionBuilder("run_machine", (Type.I64, Type.I64, Type.I64), (Type.I64,))
    if lowered.machine is None:
        b.end(Return((b.const(0),)))
        return b.finish()
    return _status_of(b, "machine", b.params)


def _status_of(b: FunctionBuilder, name: str, args: tuple[Reg, ...]) -> Function:
    """End a function with the status that another returns, or fails with."""
    failed, dst = b.name("failed"), b.reg(Type.I64)
    b.put(Call((dst,), name, args, failed))
    b.end(Return((dst,)))
    b.open(failed)
    b.end(Return((b.get("status", Type.I64),)))
    function = b.finish()
    function.blocks[failed] = b.here
    return function


def main_wrapper(lowered: Lowered, stacked: bool = False) -> Function:
    """`run_main`: the program, with its results stored a stride apart.

    If it can suspend, it is run to its end on a stack of its own if `stacked`, else not at all.
    """
    b = FunctionBuilder("run_main", (Type.I64, Type.I64), (Type.I64,))
    if lowered.machine is not None and stacked:
        machine = lowered.machine
        sizes = (machine.header, len(machine.results), machine.slack)
        return _status_of(b, "run_stacked", (*b.params, *map(b.const, sizes)))
    if lowered.machine is not None or lowered.elaborated.main not in lowered.program.functions:
        b.end(Return((b.const(0),)))
        return b.finish()
    main = lowered.program.functions[lowered.elaborated.main]
    failed = b.name("failed")
    dsts = b.regs(main.results)
    b.put(Call(dsts, main.name, (), failed))
    for row, dst in enumerate(dsts):
        index = b.op("muli", b.params[1], b.const(row))
        b.put(Store(b.params[0], dst, index))
    b.end(Return((b.const(0),)))
    b.open(failed)
    b.end(Return((b.get("status", Type.I64),)))
    function = b.finish()
    function.blocks[failed] = b.here
    return function


def taped_wrapper(lowered: Lowered) -> Function:
    """`run_taped`: the differentiated program, with its results stored."""
    b = FunctionBuilder("run_taped", (Type.I64, Type.I64), (Type.I64,))
    main = lowered.program.functions.get(lowered.elaborated.main + "_taped")
    if main is None:
        b.end(Return((b.const(0),)))
        return b.finish()
    plain = len(main.results) - sum(t is Type.F64 for t in main.results)
    failed = b.name("failed")
    dsts = b.regs(main.results)
    b.put(Call(dsts, main.name, (), failed))
    for row, dst in enumerate(dsts[:plain]):
        b.put(Store(b.params[0], dst, None, row))
    b.end(Return((b.const(0),)))
    b.open(failed)
    b.end(Return((b.get("status", Type.I64),)))
    function = b.finish()
    function.blocks[failed] = b.here
    return function


def lanes_wrapper() -> Function:
    """`run_lanes` of a program whose particles run one after the other."""
    b = FunctionBuilder("run_lanes", (Type.I64, Type.I64, Type.I64), (Type.I64,))
    b.end(Return((b.const(-1),)))
    return b.finish()


def segment_wrapper() -> Function:
    """`run_segment` of a program whose particles run one after the other."""
    b = FunctionBuilder("run_segment", (Type.I64, Type.I64, Type.I64), (Type.I64,))
    b.end(Return((b.const(STACK_FULL),)))
    return b.finish()


def driver_program(lowered: Lowered, entry: str) -> tuple[Program, dict[str, str]]:
    """The lowered program with the natives that drive it, and the symbols to export."""
    program = Program(dict(lowered.program.functions))
    program.add(machine_wrapper(lowered))
    program.add(main_wrapper(lowered, stacked="smc_thread" not in entry))
    program.add(taped_wrapper(lowered))
    program.add(lanes_wrapper())
    for function in (segment_wrapper(), *group_stubs()):
        program.add(function)
    entries = entry.split()
    for name in entries:
        if name not in program.functions:
            program.add(translate(name).copy())
    link(program)
    for name, ahead in AHEAD.items():
        if name in program.functions:
            program.functions[name] = replace(translate(ahead).copy(), name=name)
    program.functions.update((ahead, translate(ahead).copy()) for ahead in AHEAD.values())
    link(program)
    mark_fallible(program)
    return program.reachable(entries), {name: name for name in entries}


def modules(
    program: Program, exported: dict[str, str], elsewhere: frozenset[str] = frozenset()
) -> list[Module]:
    """The units of a program, each a module; natives are named by where they come from.

    Functions that are defined `elsewhere` are left out.
    """

    def module(unit: Unit) -> Module:
        drives = unit.native in exported
        name = f"native {unit.native} {drives} {own_source()}" if unit.native else ""
        here = replace(unit, functions=[f for f in unit.functions if f.name not in elsewhere])
        text = cache(lambda: emit_unit(program, here, exported))
        return Module(text, name, unit.native in VECTORISED)

    return [module(unit) for unit in cut(program, list(exported))]


def native_modules(lowered: Lowered, entry: str = "", lanes: bool = True) -> list[Module]:
    """The modules of a lowered program that is run by `entry`: by default SMC or importance.

    Without `lanes`, particles run one after the other.
    """
    entry = entry or ("smc_thread" if lowered.machine else "importance_thread")
    program, exported = driver_program(lowered, entry)
    found = together(lowered, program) if lanes else []
    elsewhere = frozenset(("run_lanes", "run_segment")) if found else frozenset[str]()
    if "run_segment" in program.functions:
        elsewhere |= frozenset(GROUP_NATIVES)
        found = [*found, Module(group_text, f"groups {own_source()}")]
    return [*modules(program, exported, elsewhere), *found]


def together(lowered: Lowered, program: Program) -> list[Module]:
    """The modules that run eight particles at once, if the program asks for that and it can be."""
    main = lowered.elaborated.main
    if lowered.segment is not None and "run_segment" in program.functions:
        main = SEGMENT
        program = Program({**program.functions, main: lowered.segment})
    elif lowered.machine is not None or not {main, "run_lanes"} <= program.functions.keys():
        return []
    units: list[LaneUnit] = []
    for native, fields in (("next_bits_together", TOGETHER), ("next_bits_apart", APART)):
        lanes = Program(dict(program.functions))
        lanes.functions["next_bits"] = replace(translate(native).copy(), name="next_bits")
        link(lanes)
        units = lanes_units(lanes, main, fields)
        if units:
            break
    return [
        Module(cache(unit.text), f"lanes {unit.name} {own_source()}" if unit.name else "")
        for unit in units
    ]


def run_key(*parts: str | bytes) -> str:
    """A name for a run of a program, by all that its bits depend on, and the code of natives."""
    return content_key(own_source(), *parts)


@cache
def _classes() -> dict[str, type[object]]:
    return classes_of(*KEPT)


@cache
def collector() -> Compiled:
    """The collector: the same for all programs, and compiled when one first needs it."""
    entries = ["collect", "collect_results", "relocate"]
    program = Program({name: translate(name).copy() for name in entries})
    link(program)
    mark_fallible(program)
    whole = program.reachable(entries)
    return compile_llvm(emit_llvm(whole, {name: name for name in entries}))


def without_natives(lowered: Lowered) -> Lowered:
    """A lowered program to keep: natives are added again when it is compiled again."""
    functions = lowered.program.functions.items()
    own = {name: f for name, f in functions if name not in NATIVES or name in EXTERNAL}
    return replace(lowered, program=Program(own))


@dataclass(slots=True, repr=False)
class Executable:
    """Machine code of a program for one inference method."""

    lowered: Lowered
    compiled: Compiled
    objects: Words
    frames: Words

    @staticmethod
    def build(lowered: Lowered, entry: str = "", lanes: bool = True) -> Executable:
        """Compile; `entry` is the native that runs the program (by default SMC or importance)."""
        compiled = compile_modules(native_modules(lowered, entry, lanes))
        keep_natives()
        return Executable.of(lowered, compiled)

    @staticmethod
    def kept(parts: list[str], make: Callable[[], Lowered]) -> Executable:
        """Compile what `make` makes from `parts`, unless that was done before (on this machine)."""

        def compiled() -> tuple[Lowered, list[str]]:
            lowered = make()
            found = native_modules(lowered)
            for module in found:
                object_code(module)
            keep_natives()
            return without_natives(lowered), [object_key(module) for module in found]

        shelf = Shelf(default_cache(), own_source(), _classes())
        lowered, keys = kept_object(shelf, parts, compiled)
        objects = [found for key in keys if (found := known_object(key)) is not None]
        if len(objects) < len(keys):  # another machine's, or dropped from the cache since
            return Executable.build(lowered)
        return Executable.of(lowered, link_objects(objects, lambda: native_modules(lowered)))

    @staticmethod
    def of(lowered: Lowered, compiled: Compiled) -> Executable:
        """Machine code with the tables that the collector reads."""
        kinds = [f.references for f in lowered.machine.frames] if lowered.machine else [()]
        return Executable(
            lowered,
            compiled,
            object_table(lowered.elaborated.layouts),
            np.array(masks_of(kinds, len(kinds)), dtype=np.int64),
        )

    @staticmethod
    def collect(symbol: str, context: Words, arguments: list[int]) -> None:
        """Call one of the collector's natives."""
        given = np.array(arguments, dtype=np.int64)
        out = np.zeros(8, dtype=np.int64)
        code = collector()  # two threads may make it at once: each keeps its own alive
        function = code.function(symbol)
        function(context.ctypes.data, given.ctypes.data, out.ctypes.data)

    def call(self, symbol: str, context: Words, arguments: list[int]) -> int:
        """Call an exported native; returns its first result."""
        return int(self.call_all(symbol, context, arguments)[0])

    def call_all(self, symbol: str, context: Words, arguments: list[int]) -> Words:
        """Call an exported native; returns its results."""
        given = np.array(arguments, dtype=np.int64)
        out = np.zeros(8, dtype=np.int64)
        function = self.compiled.function(symbol)
        function(context.ctypes.data, given.ctypes.data, out.ctypes.data)
        return out


@dataclass(slots=True)
class Workers:
    """Threads with contexts and native stacks of a given depth."""

    count: int
    inputs: int
    """Address of the table of inputs."""
    depth: int = 1 << 14
    inputs_size: int = 0
    """Bytes from that address on that inputs take, where a run may be kept and go on."""
    contexts: list[Words] = field(default_factory=list[Words])

    def __post_init__(self) -> None:
        for _ in range(self.count):
            context = new_context()
            context[FIELD["inputs"]] = self.inputs
            self.contexts.append(context)

    def use_inputs(self, address: int) -> None:
        """Read the inputs from another table."""
        self.inputs = address
        for context in self.contexts:
            context[FIELD["inputs"]] = address

    def run(self, work: Callable[[int, Words], int], control: Words | None = None) -> list[int]:
        """`work(thread, context)` on every thread at once; their results.

        When the caller is interrupted, the word `STOPPED` of a control block tells the threads.
        """
        for context in self.contexts:
            context[FIELD["depth_limit"]] = self.depth
        results = [0] * self.count
        errors: list[BaseException] = []

        def body(index: int) -> None:
            try:
                results[index] = work(index, self.contexts[index])
            except BaseException as error:
                errors.append(error)

        def stop() -> None:
            if control is not None:
                control[STOPPED] = 1

        bodies = [partial(body, k) for k in range(self.count)]
        run_together(bodies, stop, self.depth * BYTES_A_LEVEL + (1 << 20))
        if errors:
            raise errors[0]
        return results

    def forget_heap(self) -> None:
        """Make every thread ask for a new region of the heap."""
        for context in self.contexts:
            context[FIELD["heap"]] = context[FIELD["heap_end"]] = 0
