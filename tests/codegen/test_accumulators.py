"""Products add to registers in place, unless what they add to is needed as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from simulation import Arrays, block, check, values

import tawa
import tawa.language as tl
from tawa.hopper.dialect.fragment import Copy

LEVELS = ("tile", "aref", "hopper", "ptx")


@tawa.jit
def kernel(a, b, o, n, KIND: tl.constexpr):  # noqa: C901
    r = tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    other = tl.zeros((64, 64), tl.float32)
    start = r[:, None].to(tl.float32) + r[None, :]
    for i in range(n):
        x, y = a.load([0, i * 64]), b.load([0, i * 64]).T
        if KIND == "product":
            acc = tl.dot(x, y, acc)
        elif KIND == "read before":
            other += acc
            acc = tl.dot(x, y, acc)
        elif KIND == "one turn behind":
            other = acc
            acc = tl.dot(x, y, acc)
        elif KIND == "difference":
            new = tl.dot(x, y, acc)
            other = new - acc
            acc = new
        elif KIND == "two products":
            other += tl.dot(x, y, acc)
            acc = tl.dot(y.T, x.T, acc)
        elif KIND == "inner loop":
            for _ in range(2):
                other += tl.dot(x, y, acc)
            acc = other * 0.5
        elif KIND == "never changed":
            other += tl.dot(x, y, start)
        elif KIND == "branch":
            if i % 2 == 0:
                acc = tl.dot(x, y, acc)
        elif KIND == "branch, one turn behind":
            other = acc
            if i % 2 == 0:
                acc = tl.dot(x, y, acc)
        elif KIND == "change places":
            acc, other = other, tl.dot(x, y, acc)
    at = r[:, None] * 64 + r[None, :]
    tl.store(o + at, acc)
    tl.store(o + 4096 + at, other)


def turns(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """The product of each turn, and that of its operands turned."""
    for i in range(0, x.shape[1], 64):
        left, right = x[:, i : i + 64], y[:, i : i + 64]
        yield i // 64, left @ right.T, right @ left.T


def expected(kind: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    acc, other = np.zeros((64, 64)), np.zeros((64, 64))
    start = np.arange(64)[:, None] + np.arange(64.0)
    for i, p, turned in turns(x, y):
        even = p * (i % 2 == 0)
        acc, other = {
            "product": (acc + p, other),
            "read before": (acc + p, other + acc),
            "one turn behind": (acc + p, acc),
            "difference": (acc + p, p),
            "two products": (acc + turned, other + acc + p),
            "inner loop": ((other + 2 * (acc + p)) * 0.5, other + 2 * (acc + p)),
            "never changed": (acc, other + start + p),
            "branch": (acc + even, other),
            "branch, one turn behind": (acc + even, acc),
            "change places": (other, acc + p),
        }[kind]
    return np.stack([acc, other])


COPIES = {
    "product": 0, "read before": 0, "one turn behind": 1, "difference": 1, "inner loop": 1,
    "branch": 0, "branch, one turn behind": 1, "change places": 0,
}  # fmt: skip
"""How many products begin with a copy."""


@pytest.mark.parametrize("options", [{}, {"specialize": False}, {"mma_depth": 0}], ids=str)
@pytest.mark.parametrize("kind", [*COPIES, "two products", "never changed"])
def test_what_a_product_adds_to(kind: str, options: dict[str, Any]) -> None:
    a = Arrays()
    x, y, o = a.random("f16", 64, 256), a.random("f16", 64, 256), a.output("f32", 2, 64, 64)
    args = [block(x, 64, 64), block(y, 64, 64), o, 4]
    levels = LEVELS if not options else ("hopper",)
    compiled = check(kernel, (1,), args, {2: expected(kind, values(x), values(y))}, 1e-5, levels,
                     KIND=kind, **options)  # fmt: skip
    copies = sum(isinstance(op, Copy) for op in compiled.module("hopper").walk())
    assert copies == COPIES.get(kind, copies)
