"""Which constraints of inline assembly fit the elements that it computes."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute

from tawa.ir.scalars.assembly import Assembly

Elements = list[Attribute]

RIGHT: dict[str, tuple[str, int, Elements, Elements]] = {
    "a word": ("=r,r", 1, [i32], [i32]),
    "a float in a word": ("=r,f", 1, [f32], [f32]),
    "the first result's register": ("=r,0", 1, [i32], [i32]),
    "the second result's register": ("=r,=l,1,0", 1, [i32, i64], [i64, i32]),
    "clobbers and spaces": ("= &r, r, ~{memory}", 1, [i32], [i32]),
    "halves in a word": ("=r,r", 2, [f16], [f16]),
    "four bytes": ("=r,r,r,r,r", 4, [i8], [i32]),
    "half a word": ("=h,h", 1, [i16], [f16]),
    "a byte in half a word": ("=h,r", 1, [i8], [i8]),
    "long": ("=l,d", 1, [i64], [f64]),
    "narrow in wide": ("=l,l", 1, [i32], [i16]),
    "half a float": ("=f,f", 1, [f16], [f16]),
}

WRONG: dict[str, tuple[str, int, Elements, Elements, str]] = {
    "a word in half": ("=h,r", 1, [i32], [i32], "`h` for 32 bits"),
    "long in a word": ("=r,r", 1, [i32], [i64], "`r` for 64 bits"),
    "a double in a float": ("=f,r", 1, [f64], [i32], "`f` for 64 bits"),
    "a float in a double": ("=d,r", 1, [f32], [i32], "`d` for 32 bits"),
    "no such letter": ("=x,r", 1, [i32], [i32], "`x` for 32 bits"),
    "no such letter for a bit": ("=x,r", 1, [i1], [i32], "`x` for 1 bits"),
    "a number behind the results": ("=r,1", 1, [i32], [i32], "`1` for 32 bits"),
    "a result that names one": ("=0,r", 1, [i32], [i32], "`0` for 32 bits"),
    "one too few": ("=r", 1, [i32], [i32], "1 constraints for 2"),
    "one too many": ("=r,r,r", 1, [i32], [i32], "3 constraints for 2"),
    "three halves": ("=r,r", 3, [f16], [f16], "do not fill"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_fits(name: str):
    text, pack, results, operands = RIGHT[name]
    assert Assembly("", text, pack).problem(results, operands) is None


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not(name: str):
    text, pack, results, operands, why = WRONG[name]
    assert why in str(Assembly("", text, pack).problem(results, operands))


@pytest.mark.parametrize(
    ("element", "pack", "shared", "registers"),
    [(i8, 4, 4, 1), (i8, 2, 2, 1), (f16, 4, 2, 2), (f32, 4, 1, 4), (f64, 2, 1, 2), (f16, 1, 1, 1)],
)
def test_elements_share_registers(element: Attribute, pack: int, shared: int, registers: int):
    found = Assembly("", "", pack)
    assert (found.shared(element), found.registers(element)) == (shared, registers)
