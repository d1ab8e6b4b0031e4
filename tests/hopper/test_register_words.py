"""Which elements of a fragment are the words that a warp's product takes: those of its layout."""

from __future__ import annotations

import re

import pytest
from xdsl.dialects.builtin import bf16, f16, f32, i8

from tawa.base.types import e4m3
from tawa.base.warp_matrix import Product
from tawa.hopper.dialect.register_words import held_word


@pytest.mark.parametrize("element", [f16, bf16, f32, i8, e4m3], ids=str)
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("inner", [32, 64])
def test_words_are_neighbours_along_k(element, side: int, inner: int) -> None:
    """Of a block of 8 rows or columns, at an element of K: the lane's own, one word each."""
    product = Product.of((32, inner), (inner, 16), element, None)
    layout = product.operand(1, side)
    of_first = layout.coordinates[0]
    outer, along = (0, 1) if side == 0 else (1, 0)
    seen: list[int] = []
    for block in range((32, 16)[side] // 8):
        for k in range(0, inner, product.step):
            for half in range(product.registers[1]):
                text = held_word(product, "x", f"{block}", f"{k}", 0, half)
                again = held_word(product, "x", f"{block}", "0", k // product.step, half)
                found = words(text)
                assert found == words(again)
                seen += found
                for place, register in enumerate(found):
                    where = of_first[register]
                    assert where[outer] // 8 == block
                    assert where[along] == k + half * 4 * product.packed + place
    assert sorted(seen) == list(range(layout.registers))
    kind = {1: "bit_cast<u32>(", 2: "pair(", 4: "quad("}[product.packed]
    assert held_word(product, "x", "0", "0", 0, 0).startswith(kind)


def words(text: str) -> list[int]:
    """The elements that a word's text names."""
    inside = [eval(part.replace("/", "//")) for part in re.findall(r"\[(.*?)\]", text)]
    if text.startswith("quad("):
        first = eval(text.removeprefix("quad(x + ").removesuffix(")").replace("/", "//"))
        return [first + i for i in range(4)]
    return inside
