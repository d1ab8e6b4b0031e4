"""Inline assembly: which elements of which operands share a register.

`pack` elements of every operand are computed at once. Elements narrower than 32 bits share
registers, as many as fit and `pack` has; each register is one constraint (`=r`, `r`, `f`, ...).
What is narrower than its register are its lowest bits, also in one of floats, as LLVM has it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Attribute

from tawa.base.numerics import Array, decode, encode, storage_dtype
from tawa.base.types import PtrType, bits, i64
from tawa.ir.scalars.ptx import evaluate

REGISTERS = {"h": 16, "r": 32, "f": 32, "l": 64, "d": 64}
"""Bits of a register by its constraint."""


@dataclass(frozen=True)
class Assembly:
    """The text of an inline assembly, its constraints, and how many elements it computes."""

    text: str
    constraints: str
    pack: int

    def shared(self, element: Attribute) -> int:
        """Elements of a type that share a register."""
        return min(max(1, 32 // bits(element)), self.pack)

    def registers(self, element: Attribute) -> int:
        """Registers of one operand of an element type."""
        return self.pack // self.shared(element)

    @property
    def letters(self) -> list[str]:
        """The constraint of each register, results first, without `=` and `&`."""
        parts = [part.strip() for part in self.constraints.split(",")]
        kept = [part for part in parts if part and part[0] != "~"]
        return [re.sub(r"[=&+\s]", "", part) for part in kept]

    def problem(self, results: Sequence[Attribute], operands: Sequence[Attribute]) -> str | None:
        """What is wrong with the constraints for these element types; None if nothing."""
        if any(self.pack % self.shared(e) for e in (*results, *operands)):
            return f"{self.pack} elements do not fill registers"
        wanted = [e for e in (*results, *operands) for _ in range(self.registers(e))]
        if len(self.letters) != len(wanted):
            return f"{len(self.letters)} constraints for {len(wanted)} registers"
        outputs = sum(self.registers(e) for e in results)
        for i, (letter, element) in enumerate(zip(self.letters, wanted, strict=True)):
            if letter.isdigit() and outputs <= i and int(letter) < outputs:
                continue
            width = bits(element) * self.shared(element)
            room = REGISTERS.get(letter, 0)
            if room < width or (room > width and letter == "d"):
                known = ", ".join(f"`{k}` of {v}" for k, v in REGISTERS.items())
                return f"`{letter}` for {width} bits (there are {known})"
        return None

    def evaluate(
        self, results: Sequence[Attribute], operands: Sequence[Attribute], arrays: Sequence[Array]
    ) -> list[Array]:
        """The results for value arrays of shape (rows, elements); rows are padded by themselves."""
        rows, count = arrays[0].shape if arrays else (1, 1)
        padded = -(-count // self.pack) * self.pack
        fill = np.minimum(np.arange(padded), count - 1)
        inputs = [
            word
            for array, element in zip(arrays, operands, strict=True)
            for word in self._packed(np.ascontiguousarray(array[:, fill]), element)
        ]
        outputs = sum(self.registers(e) for e in results)
        words = iter(evaluate(self.text, inputs, outputs))
        found: list[Array] = []
        for element in results:
            own = [next(words) for _ in range(self.registers(element))]
            found.append(self._unpacked(own, element).reshape(rows, padded)[:, :count])
        return found

    def _packed(self, array: Array, element: Attribute) -> list[Array]:
        """The registers of an operand, one entry for each execution."""
        width, together = bits(element), self.shared(element)
        kind = i64 if isinstance(element, PtrType) else element
        raw = np.ascontiguousarray(encode(array, kind)).view(f"uint{width}").astype(np.uint64)
        parts = raw.reshape(-1, self.pack // together, together)
        words = np.zeros(parts.shape[:2], np.uint64)
        for i in range(together):
            words |= parts[:, :, i] << np.uint64(width * i)
        return list(words.T)

    def _unpacked(self, words: Sequence[Array], element: Attribute) -> Array:
        width, together = bits(element), self.shared(element)
        parts = [
            (word >> np.uint64(width * i)).astype(f"uint{width}")
            for word in words
            for i in range(together)
        ]
        raw = np.ascontiguousarray(np.stack(parts, axis=-1)).reshape(-1)
        return np.asarray(decode(raw.view(storage_dtype(element)), element))
