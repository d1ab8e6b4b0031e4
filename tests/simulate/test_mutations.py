"""Every wrong edit of a synchronisation op of a compiled kernel is caught.

What survives is proved to be safe and gives the right numbers, and is one of few kinds: the op is
done twice where once does the same, more is waited for, or other waits already order what it orders.
"""

from collections import Counter

import numpy as np
import pytest
from launches import Small
from mutations import equivalent, mutants, mutate, same, sample, verdict

from tawa.driver.compiled import spec_of


def judged(small: Small, options, output, reference, chosen=lambda found: found):
    """How many mutants were caught, and why the others may survive."""
    sweep = small.sweep()
    module = sweep.module(options)
    arguments = [sweep.named[name] for name in spec_of(module).arguments]
    result, why = Counter(), Counter()
    for mutant in chosen(mutants(module)):
        output[...] = np.nan
        found = verdict(
            mutate(module, mutant), sweep.grid, arguments, lambda: same(output, reference)
        )
        result[found.partition(" ")[0]] += 1
        if found == "survives":
            reason = equivalent(mutant)
            assert reason is not None, f"{mutant} survives"
            why[reason] += 1
    return result, why


def arrays(*shape):
    return np.random.default_rng(4).standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize(
    "options",
    [
        {"persistent": True, "num_stages": 2, "staging": 1, "consumers": 1},
        {"persistent": True, "num_stages": 3, "mma_depth": 1, "consumers": 2},
    ],
    ids=["one", "two"],
)
def test_every_mutant_of_a_gemm(options):
    from gemm import launch

    a, b, c = arrays(256, 160), arrays(64, 160), np.empty((256, 64), np.float16)
    small = Small(
        "gemm", lambda: launch(a, b, c, (128 if options["consumers"] == 2 else 64, 64, 32))
    )
    result, why = judged(small, options, c, a.astype(float) @ b.astype(float).T)
    assert result.total() >= 60
    assert result["unsure"] == 0
    assert why["redundant"] == 0
    assert why["waits for more"] == 1
    assert result["caught"] + result["wrong"] + why.total() == result.total()


def test_a_sample_of_attention_s_mutants():
    from attention import launch, reference

    # Causal, four blocks of keys a diagonal: loops with and without the mask run several times.
    q, k, v = arrays(3, 1, 256, 64)
    o = np.empty_like(q)
    small = Small("attention", lambda: launch(q, k, v, o, causal=True, block=(64, 16)))
    expected = reference(*(x.astype(float) for x in (q, k, v)), causal=True)
    options = {"num_stages": 2, "persistent": True}
    result, why = judged(small, options, o, expected, lambda found: sample(found, 60, seed=2))
    assert result.total() == 60
    assert result["unsure"] == 0
    assert why["redundant"] <= 5
