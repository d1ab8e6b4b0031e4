"""One actor: up to four warps that walk through the program together, their values and clocks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.base.errors import TawaError
from tawa.base.layout import Layout
from tawa.base.numerics import Array, poison
from tawa.base.spans import span_of
from tawa.hopper.dialect.core import HopperOp
from tawa.hopper.dialect.machine import Steps
from tawa.hopper.dialect.structure import Role
from tawa.hopper.dialect.text import computed
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.clocks import SEEN, TIMED
from tawa.simulate.interpret.cta import Cta
from tawa.simulate.interpret.engines import Engines
from tawa.simulate.interpret.machine import Machine, Warps
from tawa.simulate.interpret.registers import Ref, Registers
from tawa.simulate.interpret.tile import DeviceAssertion

Meaning = Callable[..., Steps | None]
"""What a builtin op does: called with the actor and the op."""


class HopperActor(Engines):
    """An actor as the ops see it (`tawa.hopper.dialect.machine.Actor`)."""

    def __init__(
        self, machine: Machine, cta: Cta, warps: Warps, builtin: dict[type[Operation], Meaning]
    ) -> None:
        super().__init__(machine, cta, warps)
        self.builtin = builtin
        self.team = 0
        self.first_thread = 0
        self.threads = 32 * warps.count
        self.values: dict[SSAValue, Any] = {}
        self.loops: list[tuple[str, int]] = []
        for row, component in enumerate(warps.components):
            self.clock[row, [SEEN, TIMED], component] = 1

    # --- values -------------------------------------------------------------------------------

    def value(self, name: SSAValue) -> Any:
        """A value that is no fragment."""
        return self.values[name]

    def integer(self, name: SSAValue) -> int:
        """A scalar integer or an address."""
        return int(self.values[name])

    def bind(self, name: SSAValue, value: Any) -> None:
        """Give a value that is no fragment."""
        self.values[name] = value

    def registers(self, name: SSAValue) -> Registers:
        """The registers of a fragment; raises when they have been overwritten since."""
        ref = self.values[name]
        assert isinstance(ref, Ref)
        whole = ref.registers.part_of
        age = ref.registers.version - ref.version
        age += whole.registers.version - whole.version if whole else 0
        if age:
            self.fail(
                errors.StaleFragment,
                f"`{name.name_hint or 'a fragment'}` is read after its registers were overwritten",
                expected="the newest value of an accumulator that is changed in place",
                found=f"a value {age} changes old",
                hint="make a `hopper.copy` of what is needed later",
            )
        return ref.registers

    def fragment(self, name: SSAValue) -> Array:
        """A fragment's registers for reading; raises when they are in flight."""
        registers = self.registers(name)
        if registers.accumulating > self.matrix_done:
            pending = self.matrix_committed - self.matrix_done
            self.fail(
                errors.AccumulatorInFlight,
                f"`{name.name_hint or 'an accumulator'}` is read while a matrix instruction that "
                "writes it is in flight",
                expected="a `wgmma_wait` that leaves its group not pending",
                found=f"group {registers.accumulating} uses it, {self.matrix_done} are done, "
                f"{pending} are in flight",
                hint="wait with fewer groups pending before the read",
            )
        return registers.data

    def new_fragment(self, name: SSAValue, registers: Array) -> None:
        """Give a fragment registers of its own; those that are not computed show their use."""
        every = computed(name.owner)
        if every > 1:
            found = registers
            registers = np.full_like(registers, poison(registers.dtype))
            registers[:, ::every] = found[:, ::every]
        self.writes += 1
        self.values[name] = Ref(Registers(registers, written=self.writes), 0)

    def alias(self, name: SSAValue, of: SSAValue) -> None:
        """Let a value stand for another's registers."""
        self.values[name] = self.values[of]

    def assign(self, target: Registers, data: Array) -> Ref:
        """Overwrite registers in place with ordinary code."""
        if max(target.accumulating, target.operand_of) > self.matrix_done:
            self.fail(
                errors.AccumulatorInFlight,
                "registers are written while a matrix instruction in flight uses them",
                expected="a `wgmma_wait` first",
                found=f"{self.matrix_committed - self.matrix_done} groups in flight",
                hint="keep the value in registers of its own until the group is waited for",
            )
        self.writes += 1
        target.data[...] = data
        target.written, target.version = self.writes, target.version + 1
        return Ref(target, target.version)

    def window(self, name: SSAValue, of: SSAValue, first: int, count: int) -> None:
        """Let a value stand for some of another's registers."""
        data = self.fragment(of)[:, first : first + count]
        whole = self.values[of]
        part = Registers(data, written=whole.registers.written, part_of=whole)
        self.values[name] = Ref(part, 0)

    def overwrite(self, name: SSAValue, of: SSAValue, number: float) -> None:
        """Set another value's registers in place."""
        target = self.registers(of)
        self.values[name] = self.assign(target, np.full_like(target.data, number))

    def coordinates(self, layout: Layout) -> Array:
        """Tile coordinates of the actor's part of a fragment."""
        return layout.coordinates[self._part(layout)]

    def owners(self, layout: Layout) -> Array:
        """Whether each thread holds the first of several copies."""
        return layout.owners()[self._part(layout)]

    def _part(self, layout: Layout) -> slice:
        last = self.first_thread + self.threads
        if last > layout.threads:
            raise ValueError(f"{self.name} has threads to {last}, the layout {layout.threads}")
        return slice(self.first_thread, last)

    def from_lane(self, registers: Array, mask: int) -> Array:
        """The registers of the lane whose index differs in the bits of `mask`."""
        return registers[np.arange(len(registers)) ^ mask]

    # --- control ------------------------------------------------------------------------------

    def block_ops(self, block: Block) -> Steps:
        """Run the ops of a block."""
        for op in block.ops:
            self.op = op
            if self.machine.limits is not None:
                self.machine.limits.step()
            steps = op.run(self) if isinstance(op, HopperOp) else self.builtin[type(op)](self, op)
            if steps is not None:
                yield from steps

    def timestamp(self, segment: int, index: int) -> None:
        """Note that point `index` of a segment is passed."""
        self.trace("timestamp", segment, index)

    def region(self, region: Region) -> Steps:
        """Run a region with all the actor's warps."""
        return self.block_ops(region.block)

    def say(self, text: str) -> None:
        """Print a line that names the program."""
        print(f"program {list(self.block)}: {text}")

    def assertion_failed(self, message: str, place: Sequence[int]) -> None:
        """Stop: the kernel's own check does not hold for the element at a place."""
        where = f" at element {list(place)}" if place else ""
        self.fail(DeviceAssertion, message, found=f"false in program {list(self.block)}{where}")

    def role(self, op: Operation) -> Steps:
        """Run a role's region if the actor's warps belong to it."""
        assert isinstance(op, Role)
        first, per = op.first_warp.value.data, op.warps.value.data
        offset = self.warps.first - first
        if not 0 <= offset < per * op.teams.value.data:
            return
        self.team, self.first_thread = offset // per, offset % per * 32
        if op.single:
            if offset == 0:
                with self._narrowed():
                    yield from self.block_ops(op.body.block)
        else:
            yield from self.block_ops(op.body.block)

    def one_thread(self, scope: str, region: Region) -> Steps:
        """Run a region in the first thread of the scope, if the actor holds it."""
        first = {
            "cta": self.warps.first == 0,
            "team": self.first_thread == 0,
            "group": self.warps.first % 4 == 0,
        }
        if first[scope]:
            with self._narrowed():
                yield from self.block_ops(region.block)

    @contextmanager
    def _narrowed(self) -> Generator[None]:
        """Only the actor's first thread runs."""
        before = self.rows, self.active, self.threads
        self.rows, self.active, self.threads = slice(0, 1), 1, 1
        yield
        self.rows, self.active, self.threads = before

    # --- messages -----------------------------------------------------------------------------

    def iteration(self) -> str:
        """Where the actor's loops stand."""
        return ", ".join(f"{name} = {value}" for name, value in self.loops) or "outside loops"

    def where(self) -> str:
        """Who, and in which iteration."""
        return f"{self.name} ({self.iteration()})"

    def doing(self) -> str:
        """Who does what."""
        return f"{self.where()}: {self.op.name if self.op else 'start'}"

    def fail(self, error: type[TawaError], message: str, **parts: Any) -> NoReturn:
        """Raise, pointing at the current op."""
        raise error(message, span=span_of(self.op), **parts).with_note(f"by {self.doing()}")
