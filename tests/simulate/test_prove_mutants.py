"""No edit of a synchronisation op that could change a result is proved for every launch.

What is proved all the same is of kinds that say why: done twice, waits for more, orders nothing new,
comes after the last wait for it. Two kinds of edits are no matter of shared memory and barriers, and a
recorded run finds them: of registers, and stores to global memory that are left out.
"""

from collections import Counter

import numpy as np
from launches import LAUNCHES, Small
from mutations import bounds, mutants, mutate, rewired, same, verdict, why_it_is_safe

from tawa.driver.compiled import spec_of
from tawa.simulate import prove


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


def test_no_loop_that_runs_more_or_less_often_than_its_partner_is_proved():
    """The roles that load and that compute have a loop each; one of them is edited."""
    small = next(s for s in LAUNCHES if s.name == "gemm")
    module = small.sweep().module({"num_stages": 2, "consumers": 1})
    tried = bounds(module)
    assert len(tried) == 12
    assert not [str(mutant) for mutant in tried if prove(mutate(module, mutant)).proved]


def test_no_team_that_takes_other_iterations_or_slots_is_proved():
    """Teams share the iterations of a loop: bounds of the loop that loads and of theirs, waits and
    returns of their slots."""
    small = next(s for s in LAUNCHES if s.name == "gemm")
    module = small.sweep().module({"num_stages": 4, "consumers": 1, "slice_k": 2})
    proof = prove(module)
    assert proof.proved, proof.why
    assert proof.states < 20
    tried = bounds(module)
    assert len(tried) == 12
    ops = ("mbarrier_wait", "mbarrier_arrive", "mbarrier_expect")
    edits = rewired(module)
    tried += [m for m in edits if m.kind == "slot back" and m.op.endswith(ops)]
    assert len(tried) >= 16
    assert not [str(mutant) for mutant in tried if prove(mutate(module, mutant)).proved]
