"""Texts of accesses to global memory that say more than an address (PTX ISA 9.0, `ld` and `st`).

A cache operator names the levels that keep what is accessed; a priority says how soon L1 and L2
give it up. An instruction has one or the other: of both, the operator counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CACHE_POLICIES = {"evict_first": 0x12F0000000000000, "evict_last": 0x14F0000000000000}
"""What `createpolicy.fractional` makes of a priority for all lines; normal priority needs none."""

_REGISTERS = {1: ("u32", "r", "u8"), 2: ("u16", "h", "b16"), 4: ("u32", "r", "b32"),
              8: ("u64", "l", "b64")}  # fmt: skip
"""Bytes -> C++ type, constraint and PTX type of what one register of an access holds."""


@dataclass(frozen=True)
class Manner:
    """How memory is accessed: each time anew, by which caches, and how soon they give it up."""

    volatile: bool = False
    cache: str | None = None
    eviction: str | None = None

    def __bool__(self) -> bool:
        return self.volatile or self.cache is not None or self.eviction in CACHE_POLICIES

    @property
    def _qualifiers(self) -> str:
        if self.volatile:
            return ".volatile.global"
        if self.cache is not None:
            return f".global.{self.cache}"
        return f".global.L1::{self.eviction}.L2::cache_hint"

    @property
    def _policy(self) -> int | None:
        hinted = not self.volatile and self.cache is None
        return CACHE_POLICIES[self.eviction] if hinted and self.eviction is not None else None

    def function(self, what: Literal["load", "store"]) -> tuple[str, str]:
        """The name and the definition of the C++ function that accesses 1 to 16 bytes so."""
        words = ("volatile" if self.volatile else self.cache or self.eviction, what)
        name = "_".join(str(word) for word in reversed(words))
        cases = [self._case(what, size, *_REGISTERS[size]) for size in (8, 4, 2, 1)]
        body = "".join(f" else if constexpr (sizeof(T) == {n}) {{\n{t}  }}" for n, t in cases)
        pair = self._pair(what)
        head = "T {}(const T* pointer)" if what == "load" else "void {}(T* pointer, T value)"
        return name, (
            f"template <typename T>\n__device__ __forceinline__ {head.format(name)} {{\n"
            f"  if constexpr (sizeof(T) == 16) {{\n{pair}  }}{body} else {{\n"
            "    static_assert(sizeof(T) == 1, \"1, 2, 4, 8 or 16 bytes\");\n  }\n}\n"
        )  # fmt: skip

    def _asm(self, what: str, shape: str, registers: str, results: str, inputs: list[str]) -> str:
        """One instruction; `registers` names its places, `results` and `inputs` what they are."""
        mnemonic = "ld" if what == "load" else "st"
        policy = self._policy
        given = [*inputs, *([f'"l"({policy:#x}ull)'] if policy is not None else [])]
        hint = f", %{registers.count('%') + 1}" if policy is not None else ""
        at = f"[%{registers.count('%') if what == 'load' else 0}]"
        places = f"{registers}, {at}" if what == "load" else f"{at}, {registers}"
        text = f"{mnemonic}{self._qualifiers}{shape} {places}{hint};"
        return f'    asm volatile("{text}" : {results} : {", ".join(given)} : "memory");\n'

    def _case(self, what: str, size: int, type_: str, letter: str, kind: str) -> tuple[int, str]:
        bits = f"u{8 * size}"
        if what == "load":
            read = self._asm(what, f".{kind}", "%0", f'"={letter}"(bits)', ['"l"(pointer)'])
            return size, f"    {type_} bits;\n{read}    return bit_cast<T>({bits}(bits));\n"
        value = f'"{letter}"({type_}(bit_cast<{bits}>(value)))'
        return size, self._asm(what, f".{kind}", "%1", "", ['"l"(pointer)', value])

    def _pair(self, what: str) -> str:
        if what == "load":
            parts = ", ".join(f'"=l"(bits.values[{i}])' for i in range(2))
            read = self._asm(what, ".v2.b64", "{%0, %1}", parts, ['"l"(pointer)'])
            return f"    Vector<u64, 2> bits;\n{read}    return bit_cast<T>(bits);\n"
        given = ['"l"(pointer)', *(f'"l"(bits.values[{i}])' for i in range(2))]
        written = self._asm(what, ".v2.b64", "{%1, %2}", "", given)
        return f"    const auto bits = bit_cast<Vector<u64, 2>>(value);\n{written}"
