"""What a kernel writes down about its own run: the clock at points of each role's program.

A *recorder* is the first thread of a warp group (or a role's only thread). Each recorder of each
recorded CTA has a region of global memory, a power of two bytes long and aligned to its length: 64
bytes of header (when the role began and ended, in nanoseconds of the device's timer and in clocks
of the multiprocessor, which multiprocessor, and where its records end), then records. A record is
32-bit words, the clock at each point of a segment of the program; the first word has the segment's
number in its low bits, and the clock's low bits above them. Clocks are kept in registers until four
are there, which are one store: while exponentials fill the queue to the memory units, stores are
what recording costs. The last words of a record may have no meaning. What does not fit any more is
not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i1, i32, i64
from xdsl.ir import ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.utils.exceptions import VerifyException

from tawa.hopper.dialect.core import HopperOp, Number, number
from tawa.hopper.dialect.machine import Actor
from tawa.hopper.dialect.text import Writer
from tawa.ir.effects import OUTPUT, Effects, writes

MOST_POINTS = 120
"""Points of a segment: its record has to fit into what a region keeps free for the last one."""


STORED = 4
"""Points that are stored together; records are a multiple of it long."""

ROLE = -1
"""What the simulator notes as the segment of a role's begin (point 0) and end (point 1)."""


@irdl_attr_definition
class TraceType(ParametrizedAttribute, TypeAttribute):
    """`!hopper.trace`: where a recorder's next record goes; records change it in place."""

    name: ClassVar[str] = "hopper.trace"


class _Recorder(HopperOp):
    """An op of a role's recorders: which they are, and where all regions lie."""

    buffer: SSAValue = operand_def(i64)
    ctas: SSAValue = operand_def(i32)
    mask: SSAValue = operand_def(i32)
    first: IntegerAttr = prop_def(Number)
    groups: IntegerAttr = prop_def(Number)
    recorders: IntegerAttr = prop_def(Number)
    single: UnitAttr | None = opt_prop_def(UnitAttr)

    def region(self, w: Writer) -> str:
        """The recorder's region as an argument list; `elected` comes first."""
        first, groups, count = (p.value.data for p in (self.first, self.groups, self.recorders))
        own = f"{first}" if self.single else f"{first} + team * {groups} + warp / 4"
        elected = "true" if self.single else "thread % 128 == 0"
        launch = ", ".join(w.name(v) for v in (self.buffer, self.ctas, self.mask))
        return f"{elected}, {launch}, {count}, {own}"


@irdl_op_definition
class TraceBegin(_Recorder):
    """The role begins: `trace` says where this thread's records go, `open` if there is room.

    Recorders are numbered through the kernel; `first` is the role's first, `groups` the warp groups
    of each of its teams, `recorders` all of them.
    """

    name: ClassVar[str] = "hopper.trace_begin"
    trace: SSAValue = result_def(TraceType)
    open: SSAValue = result_def(i1)
    traits = traits_def(Effects(writes(OUTPUT)))
    assembly_format = (
        "$buffer `ctas` $ctas `mask` $mask `recorder` $first `groups` $groups `of` $recorders "
        "(`single` $single^)? attr-dict"
    )

    def __init__(
        self, launch: Sequence[SSAValue], first: int, groups: int, recorders: int, single: bool
    ):
        super().__init__(
            operands=list(launch),
            properties={
                "first": number(first),
                "groups": number(groups),
                "recorders": number(recorders),
                "single": UnitAttr() if single else None,
            },
            result_types=[TraceType(), i1],
        )

    def cuda(self, w: Writer) -> None:
        """Variables of every thread; only a recorder's region has room."""
        _use(w, "trace_region", "trace_times", "trace_begin")
        w.line(f"u64 {w.define(self.trace)} = trace_begin({self.region(w)});")
        w.line(f"u32 {w.name(self.trace)}_words[{STORED}];")
        w.line(f"bool {w.define(self.open)} = false;")

    def run(self, m: Actor) -> None:
        """Note that the role begins; the simulator has no regions."""
        m.bind(self.trace, 0)
        m.bind(self.open, False)
        m.timestamp(ROLE, 0)


@irdl_op_definition
class TraceEnd(_Recorder):
    """The role ends: its header gets the time and how much was written."""

    name: ClassVar[str] = "hopper.trace_end"
    trace: SSAValue = operand_def(TraceType)
    traits = traits_def(Effects(writes(OUTPUT)))
    assembly_format = (
        "$trace `to` $buffer `ctas` $ctas `mask` $mask `recorder` $first `groups` $groups "
        "`of` $recorders (`single` $single^)? attr-dict"
    )

    def __init__(self, begin: TraceBegin):
        super().__init__(
            operands=[begin.trace, begin.buffer, begin.ctas, begin.mask],
            properties=dict(begin.properties),
        )

    def cuda(self, w: Writer) -> None:
        """A few stores."""
        _use(w, "trace_end")
        w.line(f"trace_end({w.name(self.trace)}, {self.region(w)});")

    def run(self, m: Actor) -> None:
        """Note that the role ends."""
        m.timestamp(ROLE, 1)


@irdl_op_definition
class RecordBegin(HopperOp):
    """Begin a record, if there is room; its timestamps follow."""

    name: ClassVar[str] = "hopper.record_begin"
    trace: SSAValue = operand_def(TraceType)
    open: SSAValue = operand_def(i1)
    mask: SSAValue = operand_def(i32)
    traits = traits_def(Effects(writes(OUTPUT)))
    assembly_format = "$trace `,` $open `mask` $mask attr-dict"

    def __init__(self, trace: SSAValue, open_: SSAValue, mask: SSAValue):
        super().__init__(operands=[trace, open_, mask])

    def cuda(self, w: Writer) -> None:
        """One instruction: a predicate."""
        _use(w, "record_begin")
        trace, opened, mask = (w.name(v) for v in (self.trace, self.open, self.mask))
        w.line(f"{opened} = record_begin({trace}, {mask});")

    def run(self, m: Actor) -> None:
        """Nothing: timestamps name their segment."""


@irdl_op_definition
class Timestamp(HopperOp):
    """The clock at point `index` of the `points` of a segment.

    `tag` is how many low bits of the first point's word hold the segment's number.
    """

    name: ClassVar[str] = "hopper.timestamp"
    trace: SSAValue = operand_def(TraceType)
    open: SSAValue = operand_def(i1)
    segment: IntegerAttr = prop_def(Number)
    index: IntegerAttr = prop_def(Number)
    points: IntegerAttr = prop_def(Number)
    tag: IntegerAttr = prop_def(Number)
    traits = traits_def(Effects(writes(OUTPUT)))
    assembly_format = (
        "$trace `,` $open `segment` $segment `point` $index `of` $points `tag` $tag attr-dict"
    )

    def __init__(
        self, trace: SSAValue, open_: SSAValue, segment: int, index: int, points: int, tag: int
    ):
        super().__init__(
            operands=[trace, open_],
            properties={
                "segment": number(segment),
                "index": number(index),
                "points": number(points),
                "tag": number(tag),
            },
        )

    def verify_(self) -> None:
        """A point of the segment."""
        if not 0 <= self.index.value.data < self.points.value.data <= MOST_POINTS:
            raise VerifyException(f"a segment has 1 to {MOST_POINTS} points, counted from 0")
        if not 0 <= self.segment.value.data < 1 << self.tag.value.data <= 1 << 16:
            raise VerifyException("a segment's number fits into the bits of its tag, at most 16")

    def cuda(self, w: Writer) -> None:
        """The clock; after every fourth point that is not the last, a store."""
        _use(w, "timestamp", "timestamp_tagged")
        trace, opened = w.name(self.trace), w.name(self.open)
        index, points = self.index.value.data, self.points.value.data
        word = index % STORED
        if index == 0:
            tag, segment = self.tag.value.data, self.segment.value.data
            w.line(f"timestamp_tagged<{tag}, {segment}>({trace}_words[0]);")
        else:
            w.line(f"timestamp({trace}_words[{word}]);")
        if word == STORED - 1 and index + 1 < points:
            _use(w, "record_store")
            place = f"{4 * (index - word)}, {STORED}"
            w.line(f"record_store<{place}>({trace}, {opened}, {trace}_words);")

    def run(self, m: Actor) -> None:
        """Note the segment and the point."""
        m.timestamp(self.segment.value.data, self.index.value.data)


@irdl_op_definition
class RecordEnd(HopperOp):
    """Write the rest of a record of so many points, and go on to the next.

    Once its last point has been passed: a matrix instruction that is issued before it need not wait
    until the store has read its registers.
    """

    name: ClassVar[str] = "hopper.record_end"
    trace: SSAValue = operand_def(TraceType)
    open: SSAValue = operand_def(i1)
    points: IntegerAttr = prop_def(Number)
    traits = traits_def(Effects(writes(OUTPUT)))
    assembly_format = "$trace `,` $open `of` $points attr-dict"

    def __init__(self, trace: SSAValue, open_: SSAValue, points: int):
        super().__init__(operands=[trace, open_], properties={"points": number(points)})

    def cuda(self, w: Writer) -> None:
        """A store, and two instructions."""
        _use(w, "record_store", "record_end")
        trace, opened = w.name(self.trace), w.name(self.open)
        points = self.points.value.data
        first = (points - 1) // STORED * STORED
        w.line(f"record_store<{4 * first}, {points - first}>({trace}, {opened}, {trace}_words);")
        w.line(f"record_end<{4 * length_of(points)}>({trace}, {opened});")

    def run(self, m: Actor) -> None:
        """Nothing: timestamps name their segment."""


def length_of(points: int) -> int:
    """Words of a record with so many points."""
    return -(-points // STORED) * STORED


TRACE: Sequence[type[HopperOp]] = (TraceBegin, TraceEnd, RecordBegin, Timestamp, RecordEnd)

TRACE_PRELUDE: dict[str, str] = {
    "trace_region": """\
__device__ __forceinline__ unsigned long long* trace_region(
    u64 buffer, u32 ctas, u32 mask, u32 recorders, u32 recorder) {
  u32 cta = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  if (cta >= ctas) return nullptr;
  u64 region = u64(cta) * recorders + recorder;
  return reinterpret_cast<unsigned long long*>(buffer + region * (u64(mask) + 512));
}
""",
    "trace_times": """\
__device__ __forceinline__ void trace_times(unsigned long long* header) {
  unsigned long long timer, clock;
  asm volatile("mov.u64 %0, %%globaltimer;\\nmov.u64 %1, %%clock64;" : "=l"(timer), "=l"(clock));
  header[0] = timer;
  header[1] = clock;
}
""",
    "trace_begin": """\
__device__ __forceinline__ u64 trace_begin(
    bool elected, u64 buffer, u32 ctas, u32 mask, u32 recorders, u32 recorder) {
  unsigned long long* header = nullptr;
  if (elected) header = trace_region(buffer, ctas, mask, recorders, recorder);
  if (header == nullptr) return ~u64(0);  // no room
  u32 multiprocessor;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  header[4] = multiprocessor;
  trace_times(header);
  return reinterpret_cast<u64>(header) + 64;
}
""",
    "trace_end": """\
__device__ __forceinline__ void trace_end(
    u64 trace, bool elected, u64 buffer, u32 ctas, u32 mask, u32 recorders, u32 recorder) {
  unsigned long long* header = nullptr;
  if (elected) header = trace_region(buffer, ctas, mask, recorders, recorder);
  if (header == nullptr) return;
  header[5] = trace & (mask | 511);
  trace_times(header + 2);
}
""",
    "record_begin": """\
__device__ __forceinline__ bool record_begin(u64 trace, u32 mask) {
  return (~u32(trace) & mask) != 0;  // regions are aligned, their last 512 bytes are kept free
}
""",
    "timestamp": """\
__device__ __forceinline__ void timestamp(u32& word) {
  asm volatile("mov.u32 %0, %%clock;" : "=r"(word));
}
""",
    "timestamp_tagged": """\
template <int bits, int segment> __device__ __forceinline__ void timestamp_tagged(u32& word) {
  u32 now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
  word = (now << bits) + segment;
}
""",
    "record_store": """\
template <int offset, int count>
__device__ __forceinline__ void record_store(u64 trace, bool open, const u32 (&words)[4]) {
  if constexpr (count == 1) {
    asm volatile("{.reg .pred open; setp.ne.b32 open, %1, 0;\\n@open st.global.b32 [%0 + %2], %3;}"
                 :: "l"(trace), "r"(int(open)), "n"(offset), "r"(words[0]));
  } else if constexpr (count == 2) {
    asm volatile("{.reg .pred open; setp.ne.b32 open, %1, 0;\\n"
                 "@open st.global.v2.b32 [%0 + %2], {%3, %4};}"
                 :: "l"(trace), "r"(int(open)), "n"(offset), "r"(words[0]), "r"(words[1]));
  } else {
    u32 last;
    if constexpr (count == 3) asm volatile("" : "=r"(last));  // of no meaning, in any register
    else last = words[3];
    asm volatile("{.reg .pred open; setp.ne.b32 open, %1, 0;\\n"
                 "@open st.global.v4.b32 [%0 + %2], {%3, %4, %5, %6};}"
                 :: "l"(trace), "r"(int(open)), "n"(offset), "r"(words[0]), "r"(words[1]),
                    "r"(words[2]), "r"(last));
  }
}
""",
    "record_end": """\
template <int bytes> __device__ __forceinline__ void record_end(u64& trace, bool open) {
  asm volatile("{.reg .pred open; .reg .b32 low, high; setp.ne.b32 open, %1, 0;\\n"
               "mov.b64 {low, high}, %0;\\n@open add.u32 low, low, %2;\\n"
               "mov.b64 %0, {low, high};}" : "+l"(trace) : "r"(int(open)), "n"(bytes));
}
""",
}
"""CUDA C++ of these ops, each after what it uses."""


def _use(w: Writer, *names: str) -> None:
    """Add functions to the program."""
    for name in names:
        w.functions.setdefault(name, TRACE_PRELUDE[name])
