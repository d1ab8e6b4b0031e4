"""No edit of a synchronisation op that could change a result is proved for every launch.

What is proved all the same is of kinds that say why: done twice, waits for more, orders nothing new,
comes after the last wait for it. Two kinds of edits are no matter of shared memory and barriers, and a
recorded run finds them: of registers, and stores to global memory that are left out.
"""

from collections import Counter

import numpy as np
from launches import Small
from mutations import mutants, mutate, same, verdict
from test_mutations import equivalent

from tawa.driver.compiled import spec_of
from tawa.simulate import prove

REGISTERS = ("AccumulatorInFlight", "MissingWgmmaFence", "StaleFragment")
UNAWAITED = {"hopper.mbarrier_arrive"}
"""Returns of the last slot, for which nobody waits in a kernel that is not persistent."""
ALONE = {"hopper.bulk_wait_read", "hopper.bulk_commit"}
"""Waits for stores that have not begun: the first of a kernel, and of a staging slot of its own."""


def why_it_is_safe(mutant, found: str) -> str | None:
    """Why no result can differ, or what else finds the edit; None if nothing does."""
    if any(name in found for name in REGISTERS):
        return "registers"
    if found == "wrong numbers":
        return "not stored" if mutant.op == "hopper.tma_store" else None
    if found != "survives":
        return None
    if mutant.op in UNAWAITED and mutant.kind in ("delete", "duplicate"):
        return "nobody waits"
    if mutant.op in ALONE and mutant.kind in ("delete", "more"):
        return "nothing to wait for"
    return equivalent(mutant)


def test_every_mutant_of_a_gemm():
    from gemm import launch

    random = np.random.default_rng(4)
    a, b = (random.standard_normal((64, 320)).astype(np.float16) for _ in range(2))
    c = np.empty((64, 64), np.float16)
    small = Small("gemm", lambda: launch(a, b, c, (64, 64, 32)))
    sweep = small.sweep()
    module = sweep.module({"num_stages": 2, "consumers": 1})
    arguments = [sweep.named[name] for name in spec_of(module).arguments]
    assert prove(module).proved
    right = a.astype(float) @ b.astype(float).T
    reasons: Counter[str] = Counter()
    tried = mutants(module)
    for mutant in tried:
        broken = mutate(module, mutant)
        if not prove(broken).proved:
            continue
        c[...] = np.nan
        found = verdict(broken, sweep.grid, arguments, lambda: same(c, right))
        reason = why_it_is_safe(mutant, found)
        assert reason is not None, f"{mutant} is proved, but {found}"
        reasons[reason] += 1
    assert len(tried) >= 60
    assert reasons.total() <= len(tried) / 2
