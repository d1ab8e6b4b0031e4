"""Random expressions over random types against an independent NumPy computation.

The types of intermediate results come from the table that Triton's front end wrote
(`data/triton_types.json`), the values from NumPy with explicit rounding and wrapping.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TYPES = {
    "int1": np.bool_, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
    "fp16": np.float16, "fp32": np.float32, "fp64": np.float64,
}  # fmt: skip
TABLE = json.loads((Path(__file__).parent / "data" / "triton_types.json").read_text())
N = 16


@dataclass(frozen=True)
class Typed:
    """An expression's text, its type and its values."""

    text: str
    type: str
    values: np.ndarray


def result_type(symbol: str, a: str, b: str) -> str:
    """The type that both operands are converted to."""
    row = {"/": "a / b", "//": "a // b", "%": "a % b", "&": "a & b"}.get(symbol, "a + b")
    if row == "a % b":  # the table has every third pair; `%` types like `//`, or `/` for floats
        floating = "fp" in a or "fp" in b
        row = "a / b" if floating else "a // b"
    return TABLE[row][f"{a},{b}"]


def convert(values: np.ndarray, target: str) -> np.ndarray:
    """Conversion of values, as `x.to(target)`."""
    if target == "int1":
        return values != 0
    kind = np.dtype(TYPES[target])
    if values.dtype.kind == "f" and kind.kind in "iu":
        return saturate(values, kind)
    return values.astype(kind)


def saturate(values: np.ndarray, kind: np.dtype) -> np.ndarray:
    """float -> integer: towards zero, saturating to 32 or 64 bits, NaN as the hardware does."""
    wide = np.dtype(f"{kind.kind}{max(4, kind.itemsize)}")
    limits = np.iinfo(wide)
    out = []
    for v in values.astype(np.float64):
        if np.isnan(v):
            special = values.dtype == np.float64 or wide.itemsize == 8
            bit = 1 << (wide.itemsize * 8 - 1)
            out.append((bit if wide.kind == "u" else -bit) if special else 0)
        elif np.isinf(v):
            out.append(limits.max if v > 0 else limits.min)
        else:
            out.append(min(max(int(v), limits.min), limits.max))
    return np.array(out, dtype=wide).astype(kind)


def in_single(function, x: np.ndarray, y: np.ndarray, kind: str) -> np.ndarray:
    """f16 computes in f32 and rounds; wider types compute as they are."""
    if kind == "fp16":
        return function(x.astype(np.float32), y.astype(np.float32)).astype(np.float16)
    return function(x, y)


def truncated(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quotient and remainder of Python integers, rounded towards zero; by zero: -1 and x."""
    quotients, remainders = [], []
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        q = -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        quotients.append(q)
        remainders.append(a if b == 0 else a - q * b)
    return np.array(quotients, dtype=object), np.array(remainders, dtype=object)


def wrap(values: np.ndarray, kind: str) -> np.ndarray:
    """Python integers modulo the width."""
    bits = np.dtype(TYPES[kind]).itemsize * 8
    unsigned = np.array([int(v) % (1 << bits) for v in values], dtype=f"u{bits // 8}")
    return unsigned.view(TYPES[kind])


def combine(symbol: str, a: Typed, b: Typed) -> Typed | None:
    """One operation; None if the types don't allow it."""
    kind = result_type(symbol, a.type, b.type)
    if kind == "error" or (symbol in "//%" and kind == "int1"):
        return None
    x, y = convert(a.values, kind), convert(b.values, kind)
    text = f"({a.text} {symbol} {b.text})"
    if symbol in ("<", "=="):
        return Typed(text, "int1", x < y if symbol == "<" else x == y)
    if kind == "int1":
        logic = {"+": np.logical_xor, "-": np.logical_xor, "*": np.logical_and, "&": np.logical_and}
        return Typed(text, kind, logic[symbol](x, y))
    if kind.startswith("fp"):
        function = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod}
        return Typed(text, kind, in_single(function[symbol], x, y, kind))
    if symbol in ("//", "%"):
        return Typed(text, kind, wrap(truncated(x, y)[symbol == "%"], kind))
    exact = {"+": lambda p, q: p + q, "-": lambda p, q: p - q, "*": lambda p, q: p * q,
             "&": lambda p, q: p & q}[symbol]  # fmt: skip
    return Typed(text, kind, wrap(exact(x.astype(object), y.astype(object)), kind))


@st.composite
def arrays(draw, kind: str) -> np.ndarray:
    """16 values, many of them at the edges of the type."""
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    dtype = np.dtype(TYPES[kind])
    if kind == "int1":
        return generator.integers(0, 2, N).astype(np.bool_)
    if dtype.kind == "f":
        special = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 65504.0]
        return np.where(generator.random(N) < 0.4, generator.choice(special, N),
                        generator.standard_normal(N) * 100).astype(dtype)  # fmt: skip
    limits = np.iinfo(dtype)
    edges = np.array([limits.min, limits.max, 0, 1, 2, 7], dtype=dtype)
    small = generator.integers(max(-9, int(limits.min)), 10, N).astype(dtype)
    return np.where(generator.random(N) < 0.3, generator.choice(edges, N), small)


@st.composite
def expressions(draw) -> tuple[list[tuple[str, np.ndarray]], Typed]:
    """Leaves with their types, and an expression over them."""
    kinds = [draw(st.sampled_from(sorted(TYPES))) for _ in range(3)]
    leaves = [(kind, draw(arrays(kind))) for kind in kinds]
    pool = [Typed(f"v{i}", kind, values) for i, (kind, values) in enumerate(leaves)]
    with np.errstate(all="ignore"):
        return leaves, grow(draw, pool)


def grow(draw, pool: list[Typed]) -> Typed:
    """Apply random operations to the values of a pool; gives the last result."""
    for _ in range(draw(st.integers(1, 5))):
        a, b = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        operation = draw(st.sampled_from(["+", "-", "*", "/", "//", "%", "&", "<", "==", "to"]))
        if operation == "to":
            kind = draw(st.sampled_from(sorted(TYPES)))
            name = {"fp16": "float16", "fp32": "float32", "fp64": "float64"}.get(kind, kind)
            pool.append(Typed(f"{a.text}.to(tl.{name})", kind, convert(a.values, kind)))
        else:
            result = combine(operation, a, b)
            pool.extend([result] if result is not None else [])
    return pool[-1]


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(expressions())
def test_random_expressions(launch, define, case):
    leaves, expected = case
    loads = "".join(f"    v{i} = tl.load(p{i} + i)\n" for i in range(3))
    text = (
        "def kernel(p0, p1, p2, op):\n    i = tl.arange(0, 16)\n"
        f"{loads}    r = {expected.text}\n    tl.static_assert(op.dtype.element_ty == r.dtype)\n"
        "    tl.store(op + i, r)\n"
    )
    out = np.zeros(N, TYPES[expected.type])
    launch(define(text), (1,), *(values for _, values in leaves), out)
    np.testing.assert_array_equal(out, expected.values, err_msg=text)
