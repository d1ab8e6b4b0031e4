"""Products one multiplication at a time: operands come as vectors, along K or across it."""

from __future__ import annotations

import numpy as np
import pytest
from plain_products import product
from simulation import Arrays, check, values

import tawa
import tawa.language as tl
from tawa.runtime import sass


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    ("shape", "warps", "element"),
    [((16, 16, 16), 1, "f32"), ((32, 64, 8), 4, "f32"), ((8, 32, 64), 2, "f16"),
     ((16, 8, 32), 1, "f64"), ((64, 2, 16), 4, "f32"), ((2, 16, 4), 1, "bf16")],
)  # fmt: skip
def test_operands_of_any_order(
    turned: tuple[bool, bool], shape: tuple[int, int, int], warps: int, element: str
) -> None:
    (m, n, k), arrays = shape, Arrays()
    sides = (k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n)
    a, b = (arrays.random(element, *side) for side in sides)
    o = arrays.output("f64" if element == "f64" else "f32", m, n)
    x, y = (values(v).T if t else values(v) for v, t in zip((a, b), turned, strict=True))
    check(product, (1,), (a, b, o), {2: x @ y}, 1e-5, ("tile", "hopper", "ptx"),
          M=m, N=n, K=k, TA=turned[0], TB=turned[1], PRECISION="ieee", num_warps=warps)  # fmt: skip


@tawa.jit
def batches(a, b, o, B: tl.constexpr, S: tl.constexpr):
    i, r = tl.arange(0, B)[:, None, None], tl.arange(0, S)
    at = i * S * S + r[None, :, None] * S + r[None, None, :]
    tl.store(o + at, tl.dot(tl.load(a + at), tl.load(b + at), input_precision="ieee"))


def test_batches() -> None:
    arrays = Arrays()
    a, b = arrays.random("f32", 4, 16, 16), arrays.random("f32", 4, 16, 16)
    o = arrays.output("f32", 4, 16, 16)
    expected = np.matmul(values(a), values(b))
    check(batches, (1,), (a, b, o), {2: expected}, 1e-5, ("tile", "hopper", "ptx"),
          B=4, S=16, num_warps=2)  # fmt: skip


@pytest.mark.parametrize("turned", [(False, False), (False, True)])
def test_a_load_is_of_four_elements(turned: tuple[bool, bool]) -> None:
    compiled = product.compile("*f32:16", "*f32:16", "*f32:16", M=64, N=64, K=32, TA=turned[0],
                               TB=turned[1], PRECISION="ieee", num_warps=4)  # fmt: skip
    code = sass.disassemble(compiled.cubin)[compiled.spec.entry]
    # Of 8 rows and 4 columns a thread, for 4 steps along K.
    assert code.count("LDS") == code.count("LDS.128") == 8 + 4
    assert code.count("FFMA") == 8 * 4 * 4
