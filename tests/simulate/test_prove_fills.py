"""Slots that threads fill where the copy engine can't: it is all one to a proof who has filled them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from mutations import bounds, mutants, mutate, rewired, sample, verdict, why_it_is_safe
from simulation import Recorded, stored
from xdsl.dialects.builtin import ModuleOp

import tawa
import tawa.language as tl
from tawa.driver.compiled import spec_of
from tawa.simulate import prove


@tawa.jit
def product(
    a, b, c, M, N, K, a_row, b_row, c_row, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Rows begin again at the end of the matrices: a tile there is no box."""
    m = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    n = (tl.program_id(1) * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    a_at, b_at = a + m[:, None] * a_row + k[None, :], b + k[:, None] * b_row + n[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for i in range(tl.cdiv(K, BK)):
        left = K - i * BK
        x = tl.load(a_at, mask=k[None, :] < left, other=0.0)
        y = tl.load(b_at, mask=k[:, None] < left, other=0.0)
        total = tl.dot(x, y, total)
        a_at += BK
        b_at += BK * b_row
    tl.store(c + m[:, None] * c_row + n[None, :], total)


def launch(m: int, n: int, k: int) -> tuple[Recorded, np.ndarray]:
    """A launch, and what its last array holds after it."""
    random = np.random.default_rng(4)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    arrays = [stored(v, "f16") for v in (a, b)] + [stored(np.zeros((m, n)), "f32")]
    grid = (-(-m // 64), -(-n // 64))
    options = {"BM": 64, "BN": 64, "BK": 32, "num_stages": 2, "num_warps": 4}
    recorded = Recorded(product, grid, (*arrays, m, n, k, k, n, n), options)
    return recorded, a.astype(float) @ b.astype(float)


@cache
def module() -> ModuleOp:
    return launch(80, 80, 80)[0].compile().module("hopper")


def goes_wrong(broken: ModuleOp) -> str:
    """What launches of a module say: with tiles that are boxes, and with some that are none."""
    for size in ((64, 64, 96), (80, 64, 80), (80, 80, 48)):
        recorded, right = launch(*size)
        named = dict(zip((p.name for p in product.signature.parameters.values()), recorded.args,
                         strict=False))  # fmt: skip
        c = recorded.args[2]

        def as_expected(c: np.ndarray = c, right: np.ndarray = right) -> bool:
            return bool(np.allclose(c.view(np.ndarray), right, rtol=1e-2, atol=1e-2))

        c[...] = np.nan
        arguments = [named[name] for name in spec_of(broken).arguments]
        found = verdict(broken, recorded.grid, arguments, as_expected)
        if found != "survives":
            return found
    return "survives"


def test_both_ways_are_proved():
    text = str(module())
    assert "hopper.copy_async" in text
    assert "hopper.tma_load" in text
    proof = prove(module())
    assert proof.proved, proof.why
    assert proof.states < 1000
    assert goes_wrong(module()) == "survives"


def test_no_edit_that_goes_wrong_is_proved():
    edits = [
        *sample([*mutants(module()), *rewired(module())], 5, 3),
        *sample(bounds(module()), 2, 3),
    ]
    for mutant in edits:
        broken = mutate(module(), mutant)
        if prove(broken).proved:
            found = goes_wrong(broken)
            safe = found == "survives" or why_it_is_safe(mutant, found)
            assert safe, f"{mutant} is proved, but {found}"


@pytest.mark.parametrize("name", ["fence_proxy_async", "copy_arrive"])
def test_what_only_threads_need_is_not_forgotten(name: str):
    """The copy engine's writes need no fence and no arrival of threads."""
    broken = module().clone()
    op = next(op for op in broken.walk() if op.name == f"hopper.{name}")
    op.detach()
    assert not prove(broken).proved
