"""Where a replay's cycles go, by line: nothing is lost, and what is costly stands first."""

from __future__ import annotations

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.driver.prediction.launches import predict
from tawa.machine.chips import DEFAULT
from tawa.simulate import LaunchPrediction
from tawa.simulate.timing.lines import NOWHERE, OTHERS, busiest, place_of


@tawa.jit
def scaled_product(x, gain, w, out, n, k, BLOCK: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, STEP):
        at = start + tl.arange(0, STEP)
        a = tl.load(x + rows[:, None] * k + at[None, :])
        g = tl.load(gain + at)  # the load that is waited for
        b = tl.load(w + at[:, None] * n + cols[None, :])
        acc = tl.dot((a.to(tl.float32) * g[None, :]).to(tl.float16), b, acc)
    tl.store(out + rows[:, None] * n + cols[None, :], acc.to(tl.float16))


@tawa.jit
def roots(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)
    for _ in range(64):
        value = tl.exp2(tl.sin(value))  # the work
    tl.store(out + at, value)


def line_with(kernel, text: str) -> tuple[str, int]:
    lines = kernel.source.text.splitlines()
    (found,) = [i for i, line in enumerate(lines) if text in line]
    return kernel.source.file, kernel.source.first_line + found


def product(k: int = 2048, **more) -> LaunchPrediction:
    half, single = np.float16, np.float32
    values = [
        np.empty((1024, k), half), np.empty(k, single), np.empty((k, 1024), half),
        np.empty((1024, 1024), half), 1024, k,
    ]  # fmt: skip
    compiled = scaled_product.compile(*values, BLOCK=128, STEP=64, num_warps=8)
    sizes = [v for v, n in zip(values, scaled_product.arg_names, strict=False)
             if n in compiled.spec.arguments]  # fmt: skip
    return predict(compiled, (8, 8), sizes, 1.5, DEFAULT, **more)


@pytest.mark.parametrize("k", [128, 512, 8192])  # all iterations are replayed, or some
def test_every_cycle_is_on_some_line(k):
    found = product(k, accounts=True)
    assert {account.actor for account in found.accounts} >= {"load"}
    for account in found.accounts:
        assert account.cycles == pytest.approx(found.cycles, rel=0.02)
        assert sum(account.spent.values()) <= account.cycles * (1 + 1e-9)
    spent = busiest(found.accounts)
    assert sum(line.cycles for line in spent.lines) == pytest.approx(spent.cycles)
    for line in spent.lines:
        assert sum(cycles for _, cycles in line.causes) == pytest.approx(line.cycles)


def test_the_load_that_is_waited_for_stands_first():
    spent = busiest(product(accounts=True).accounts)
    first = spent.lines[0]
    assert first.place == line_with(scaled_product, "waited for")
    assert first.causes[0][0] == "device memory"
    assert first.cycles > 0.25 * spent.cycles
    own = {cause for line in spent.lines for cause, _ in line.causes} - OTHERS
    assert {"products", "arithmetic", "device memory"} <= own


def test_a_line_without_its_work_gains_no_more_than_it_takes():
    before = product(accounts=True)
    place = line_with(scaled_product, "waited for")
    after = product(free=lambda op: place_of(op) == place)
    share = busiest(before.accounts).lines[0].cycles / before.cycles
    gain = 1 - after.kernel_seconds / before.kernel_seconds
    assert 0.1 < gain < share + 0.03
    nothing = product(free=lambda op: place_of(op) == ("another.py", 1))
    assert nothing.kernel_seconds == pytest.approx(before.kernel_seconds, rel=1e-9)


def test_a_kernel_without_roles_is_its_one_actors_time():
    values = np.empty(1 << 20, np.float32), np.empty(1 << 20, np.float32)
    compiled = roots.compile(*values, BLOCK=1024)
    found = predict(compiled, (1024,), values, 1.7, DEFAULT, accounts=True)
    (account,) = found.accounts
    first = busiest([account]).lines[0]
    assert first.place == line_with(roots, "the work")
    assert first.causes[0][0] == "special functions"
    assert first.cycles > 0.8 * account.cycles
    free = predict(compiled, (1024,), values, 1.7, DEFAULT, free=lambda op: place_of(op) != NOWHERE)
    assert free.cycles < 0.1 * found.cycles
