"""What expressions become for every element type, as recorded: functions, and types of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Operation

from tawa.base.errors import TawaError
from tawa.frontend import lower_to_tile, parse_argument
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import Load, Print

ELEMENTS = ("i1", "i8", "u16", "i32", "u32", "i64", "f16", "bf16", "f64")
HEAD = """def kernel(p, q):
    at = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    x, y = tl.load(p + at), tl.load(q + at)
"""
Define = Callable[[str], Any]

REDUCED = (
    "tl.sum(x, 0)", "tl.sum(x, keep_dims=True)", "tl.sum(x, -1, dtype=tl.float64)",
    "tl.max(x, 1, keep_dims=True)", "tl.min(x)", "tl.max(x, 0, return_indices=True)[0]",
    "tl.argmin(x, 1, keep_dims=True)", "tl.argmax(x, None, keep_dims=True)", "tl.xor_sum(x, 0)",
    "tl.reduce_or(x, 1)", "tl.cumsum(x, 1)", "tl.cumsum(x, 0, dtype=tl.int64)", "tl.cumprod(x, 1)",
)  # fmt: skip
CHANGED = (
    "x.to(tl.int1)", "x.to(tl.int8)", "x.to(tl.uint32)", "x.to(tl.int64)", "x.to(tl.float16)",
    "x.to(tl.float32)", "x.to(tl.float8e5)", "-x", "~x", "not x", "tl.abs(x)", "x + 1", "x * 2.5",
    "x / 2", "3 // x", "x >> 1", "x & 1", "x == 2.5", "tl.exp(x)", "tl.umulhi(x, x)",
    "tl.fma(x, x, x)", "tl.clamp(x, 0, 1)",
)  # fmt: skip
PAIRED = ("x + y", "x / y", "x // y", "x < y", "x & y", "tl.maximum(x, y)", "tl.where(x > 0, x, y)")


def said(op: Operation) -> str:
    """An op's function or name, its words and numbers, and the elements of what it gives."""
    words = [op.function.data if isinstance(op, Map) else op.name.removeprefix("tile.")]
    if isinstance(op, arith.ConstantOp):
        words.append(str(op.value))
        return " ".join(words)
    words += [
        a.data if isinstance(a, StringAttr) else str(a.value.data)
        for name, a in sorted(op.properties.items())
        if isinstance(a, StringAttr | IntegerAttr) and name != "function"
    ]
    kinds = (str(r.type).removeprefix("tensor<").removesuffix(">") for r in op.results)
    return " ".join([*words, *kinds])


def lines(define: Define, expressions: tuple[str, ...], *types: str) -> Iterator[str]:
    """What each expression becomes, or the error that it is."""
    for text in expressions:
        kernel = define(HEAD + f"    tl.device_print('r', {text})\n")
        try:
            module = lower_to_tile(kernel, [parse_argument(f"*{t}") for t in types], {})
        except TawaError as error:
            yield f"  {text}: {type(error).__name__}"
            continue
        ops = list(module.walk())
        last = max(n for n, op in enumerate(ops) if isinstance(op, Load))
        (end,) = [n for n, op in enumerate(ops) if isinstance(op, Print)]
        yield f"  {text}: {'; '.join(map(said, ops[last + 1 : end]))}"


@pytest.mark.parametrize("element", ELEMENTS)
def test_of_one_type(define: Define, golden: Any, element: str) -> None:
    golden("\n".join(lines(define, (*REDUCED, *CHANGED), element, element)) + "\n", "txt")


@pytest.mark.parametrize("number", range(1, len(ELEMENTS)))
def test_of_two_types(define: Define, golden: Any, number: int) -> None:
    pairs = [(ELEMENTS[number], other) for other in ELEMENTS[:number]]
    found = [(" ".join(pair), lines(define, PAIRED, *pair)) for pair in pairs]
    golden("\n".join(line for pair, own in found for line in (pair, *own)) + "\n", "txt")
