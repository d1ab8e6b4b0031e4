"""Derivatives of straight-line code, added up in registers before they reach the tape.

Inside a block, and those that only it leads to, what a float is to first order is a linear form:
places on the tape, each with a
partial derivative. Only a float that leaves them, goes to memory or to another function, or
depends on many places, gets a place of its own. So a density of three parameters costs two entries
of the tape, however many operations it takes.
"""

from __future__ import annotations

from tawa.cuppl.core.ir import Call, Const, Copy, Op, Reg, Type
from tawa.cuppl.lowering.effects import Splitter

__all__ = ["LinearForms", "place"]

F64, I64 = Type.F64, Type.I64
MOST_PLACES = 8
"""A form of more places would cost more, at each operation, than an entry of the tape."""

Form = dict[Reg, Reg | None]
"""Place -> partial derivative; None is 1."""


def place(reg: Reg) -> Reg:
    """The companion of a float register: its place on the tape."""
    return Reg(f"{reg.name}_at", I64)


class LinearForms:
    """What the floats of the block that is being rewritten are, in terms of places."""

    def __init__(self, code: Splitter) -> None:
        self.code = code
        self.pending: dict[Reg, Form] = {}
        """Floats whose own place is not computed."""
        self.leaves: dict[Reg, Form] = {}
        self.carried: dict[str, tuple[dict[Reg, Form], dict[Reg, Form]]] = {}

    def of(self, reg: Reg) -> Form:
        """The form of a float; its place is copied, because the register may change."""
        if reg in self.pending:
            return self.pending[reg]
        if reg not in self.leaves:
            held = self.code.reg(I64)
            self.code.emit(Copy(held, place(reg)))
            self.leaves[reg] = {held: None}
        return self.leaves[reg]

    def placed(self, reg: Reg) -> None:
        """A float has got a new value, and its place is computed."""
        self.pending.pop(reg, None)
        self.leaves.pop(reg, None)

    def put(self, reg: Reg, form: Form) -> None:
        """A float has got a new value."""
        self.placed(reg)
        self.pending[reg] = dict(form)

    def combine(self, dst: Reg, *parts: tuple[Reg, Reg | None]) -> None:
        """A float has got a value whose derivatives by some floats are known (None is 1)."""
        if len({p for arg, _ in parts for p in self.of(arg)}) > MOST_PLACES:
            for arg, _ in parts:
                self.materialise(arg)
        total: Form = {}
        for arg, slope in parts:
            held = slope
            if slope is not None:
                held = self.code.reg(F64)
                self.code.emit(Copy(held, slope))
            for at, partial in self.of(arg).items():
                more = self.times(partial, held)
                total[at] = self.plus(total[at], more) if at in total else more
        self.put(dst, total)

    def choose(self, dst: Reg, condition: Reg, a: Reg, b: Reg) -> None:
        """A float has got one of two values."""
        first, second = self.of(a), self.of(b)
        places = {**first, **second}
        if len(places) > MOST_PLACES:
            self.materialise(a, b)
            self.code.emit(Op(place(dst), "selecti", (condition, place(a), place(b))))
            self.placed(dst)
            return
        none = self.code.const(0.0, F64)
        sides = [
            {at: self.number(partial) for at, partial in form.items()} for form in (first, second)
        ]
        chosen = {
            at: self.code.op("selectf", F64, condition, *(side.get(at, none) for side in sides))
            for at in places
        }
        self.put(dst, {**chosen})

    def weigh(self, reg: Reg) -> None:
        """A float is the new weight, and begins with the old one: add up its derivatives."""
        for at, partial in self.of(reg).items():
            self.code.emit(Call((), "tape_weigh", (at, self.number(partial))))

    def times(self, a: Reg | None, b: Reg | None) -> Reg | None:
        """The product of two partial derivatives."""
        if a is None or b is None:
            return b if a is None else a
        return self.code.op("mulf", F64, a, b)

    def plus(self, a: Reg | None, b: Reg | None) -> Reg:
        """The sum of two partial derivatives."""
        return self.code.op("addf", F64, self.number(a), self.number(b))

    def number(self, partial: Reg | None) -> Reg:
        """A partial derivative in a register."""
        return self.code.const(1.0, F64) if partial is None else partial

    def materialise(self, *regs: Reg) -> None:
        """Compute the places of floats, with entries on the tape where they are needed."""
        for reg in regs:
            if reg not in self.pending:
                continue
            items = list(self.pending[reg].items())
            self.placed(reg)
            at = place(reg)
            if not items:
                self.code.emit(Const(at, 0))
            elif len(items) == 1:
                (only, partial), *_ = items
                one = Call((at,), "tape_one", (only, self.number(partial)))
                self.code.emit(Copy(at, only) if partial is None else one)
            else:
                self.entries(at, items)

    def entries(self, dst: Reg, items: list[tuple[Reg, Reg | None]]) -> None:
        """Entries of two operands each, the first of which is the entry before."""
        (a, da), (b, db), *more = items
        found = self.code.reg(I64)
        self.code.emit(Call((found,), "tape_two", (a, self.number(da), b, self.number(db))))
        for at, partial in more:
            before, found = found, self.code.reg(I64)
            self.code.emit(Call((found,), "tape_and", (before, at, self.number(partial))))
        self.code.emit(Copy(dst, found))

    def enter(self, block: str) -> None:
        """Start a block, with the forms of the one before if nothing else leads here."""
        self.pending, self.leaves = self.carried.pop(block, ({}, {}))

    def leave(self, used: set[Reg], only: list[str]) -> None:
        """End the block: those that are used after it get their places.

        If all that may follow are `only` reached from here, they go on with the forms.
        """
        if not only:
            self.materialise(*(reg for reg in list(self.pending) if reg in used))
        kept = {reg: form for reg, form in self.pending.items() if reg in used}
        for block in only:
            self.carried[block] = dict(kept), dict(self.leaves)
