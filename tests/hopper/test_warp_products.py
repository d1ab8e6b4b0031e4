"""Products that warps do by themselves: what lanes fetch, by text and by meaning, against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from op_comparison import Comparison, TextDiffers
from plain_products import product
from reassembled import BLOCKS, BYTES, many_registers
from simulation import Arrays, Recorded, as_float, relative_error

import tawa
import tawa.language as tl
from tawa.hopper.dialect.warp_matrix import WarpProduct
from tawa.ir.decisions.assembling import ProductsNarrowed
from tawa.simulate.interpret.hopper import RoundRobin, prepared, run_cluster


@tawa.jit
def batches(a, b, out, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i, m, n, k = tl.arange(0, B), tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + i[:, None, None] * (M * K) + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + i[:, None, None] * (K * N) + k[None, :, None] * N + n[None, None, :])
    at = i[:, None, None] * (M * N) + m[None, :, None] * N + n[None, None, :]
    tl.store(out + at, tl.dot(x, y))


def only_product(module: Any) -> WarpProduct:
    (found,) = [op for op in module.walk() if isinstance(op, WarpProduct)]
    return found


def run(launch: Recorded, planted: tuple[str, str] | None = None) -> WarpProduct:
    """Run a launch by meaning, each op's text beside it; gives its product."""
    compiled = launch.compile()
    module, comparison = compiled.module("hopper"), Comparison(planted=planted)
    comparison.add(module)
    with comparison.watching(), np.errstate(all="ignore"):
        for cluster in prepared(module, launch.grid, launch.values(compiled), 4):
            run_cluster(cluster, RoundRobin())
    assert WarpProduct.name in comparison.seen
    assert not comparison.unsupported
    return only_product(module)


PRODUCTS = {
    "16-bit, as decoding has them": ("f16", 16, 32, 64, "NT", 4, (4, 4)),
    "both transposed": ("bf16", 32, 64, 48, "TN", 4, (4, 4)),
    "one column of a warp, odd steps": ("f16", 16, 16, 48, "NN", 2, (4, 2)),
    "three columns of a warp": ("bf16", 16, 24, 64, "NT", 1, (4, 4)),
    "half an instruction along K": ("f16", 48, 40, 8, "NN", 1, (4, 4)),
    "more warps than parts": ("f16", 16, 16, 32, "NN", 8, (4, 4)),
    "i8": ("i8", 16, 64, 64, "NT", 4, (4, 4)),
    "tf32, columns of A": ("f32", 16, 32, 40, "TT", 4, (0, 2)),
    "f32 by three": ("f32", 16, 16, 16, "NT", 1, (4, 4)),
    "e4m3": ("e4m3", 16, 32, 32, "NT", 2, (4, 4)),
    "e5m2, one column": ("e5m2", 32, 8, 32, "NT", 2, (4, 2)),
    "e5m2, odd steps": ("e5m2", 16, 24, 48, "NT", 1, (2, 2)),
    "e4m3, rows of 24 bytes": ("e4m3", 16, 32, 24, "NT", 4, (0, 0)),
}
"""Element type, M, N, K, what is transposed, warps; matrices of an instruction, A's and B's."""


@pytest.mark.parametrize("name", PRODUCTS)
def test_lanes_fetch_what_products_multiply(name: str) -> None:
    arrays = Arrays()
    element, m, n, k, turned, warps, moved = PRODUCTS[name]
    a = arrays.random(element, *((k, m) if turned[0] == "T" else (m, k)))
    b = arrays.random(element, *((n, k) if turned[1] == "T" else (k, n)))
    out = arrays.output("i32" if element == "i8" else "f32", m, n)
    precision = "tf32x3" if "three" in name else "tf32"
    constants = {
        "M": m, "N": n, "K": k, "TA": turned[0] == "T", "TB": turned[1] == "T",
        "PRECISION": precision, "num_warps": warps, "specialize": False,
    }  # fmt: skip
    op = run(Recorded(product, (1,), (a, b, out), constants))
    x, y = (as_float(t, t.element) for t in (a, b))
    expected = (x.T if turned[0] == "T" else x) @ (y.T if turned[1] == "T" else y)
    tolerance = 2e-3 if element == "f32" and precision == "tf32" else 1e-5
    assert relative_error(as_float(out, out.element), expected) < tolerance
    most = tuple(max((n for _, n in f.together()), default=0) if f else 0 for f in op.fetches)
    assert (most[0], 0 if op.fetches[1] is None else most[1]) == moved
    text = str(launch_text(op))
    assert ("ldmatrix" in text) == any(op.fetches)


PLANTED = {
    "a lane's matrix": ("lane / 8 % 2 * 8", "lane / 16 % 2 * 8"),
    "what is transposed": ("x4.trans", "x4"),
    "an operand's next part": ("v_5[0] + 4, v_6", "v_5[0], v_6"),
    "a partial sum": ("v_1[i] + v_3[i]", "v_1[i]"),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_error_is_found(what: str) -> None:
    arrays = Arrays()
    a, b, out = (
        arrays.random("f16", 16, 128),
        arrays.random("f16", 128, 16),
        arrays.output("f32", 16, 16),
    )
    constants = {"M": 16, "N": 16, "K": 128, "TA": False, "TB": False, "PRECISION": "tf32"}
    launch = Recorded(product, (1,), (a, b, out), {**constants, "num_warps": 2})
    with pytest.raises(TextDiffers):
        run(launch, PLANTED[what])


def launch_text(op: WarpProduct) -> str:
    from tawa.hopper.dialect.text import Writer

    w = Writer()
    for value in op.operands:
        w.define(value)
    op.cuda(w)
    return "\n".join(w.lines)


def test_batches() -> None:
    arrays = Arrays()
    a, b, out = (
        arrays.random("f16", 4, 16, 32),
        arrays.random("f16", 4, 32, 16),
        arrays.output("f32", 4, 16, 16),
    )
    constants = {"B": 4, "M": 16, "N": 16, "K": 32, "num_warps": 2}
    op = run(Recorded(batches, (1,), (a, b, out), constants))
    expected = as_float(a, a.element) @ as_float(b, b.element)
    assert relative_error(as_float(out, out.element), expected) < 1e-5
    assert all(op.fetches)


def test_products_that_would_spill_fetch_step_by_step() -> None:
    found = many_registers.compile(*BYTES, **BLOCKS, num_warps=2, num_stages=1, persistent=True)
    (narrowed,) = found.decided(ProductsNarrowed)
    stored = re.search(r"(\d+) bytes of spill stores", narrowed.spill)
    assert stored is not None
    assert found.usage.spill_stores * 4 < int(stored[1])
    assert only_product(found.module("hopper")).narrow is not None
