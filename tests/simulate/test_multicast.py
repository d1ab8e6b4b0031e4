"""Clusters whose CTAs agree on some tiles and not on others."""

import numpy as np
import pytest
from launches import Small

import tawa
from tawa.simulate.interpret import errors


def odd_rows(rows: int) -> Small:
    """A persistent GEMM with `rows` tiles along M in clusters of two CTAs."""
    from gemm import launch

    random = np.random.default_rng(1)
    a, b = (random.standard_normal((size, 160)).astype(np.float16) for size in (64 * rows, 128))
    return Small("odd", lambda: launch(a, b, np.full((64 * rows, 128), np.nan, np.float16),
                                       (64, 64, 32)))  # fmt: skip


@pytest.mark.parametrize("rows", [1, 3, 4])
@pytest.mark.parametrize("stages", [2, None])
@pytest.mark.parametrize("consumers", [{"consumers": 1}, {"ping_pong": True}])
def test_tiles_that_only_some_turns_share_are_safe(
    rows: int, stages: int | None, consumers: dict[str, object]
):
    sweep = odd_rows(rows).sweep()
    options = {"persistent": True, "cluster": 2, **consumers}
    row = sweep.check(options if stages is None else {**options, "num_stages": stages})
    assert row.safe, row.detail or row.verdict
    a, b, c = (sweep.named[f"{x}_desc"].base.astype(float) for x in "abc")
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-2, atol=5e-2)


@pytest.mark.parametrize("columns", [192, 256])
def test_teams_on_a_kernels_own_loop_over_tiles_are_safe(columns: int):
    """Three tiles a row: CTAs agree now and then, and one has more tiles; four: they always do."""
    from persistent_gemm import launch

    random = np.random.default_rng(1)
    a, b = (random.standard_normal((size, 160)).astype(np.float16) for size in (192, columns))
    c = np.full((192, columns), np.nan, np.float16)
    small = Small("teams", lambda: launch(a, b, c, (64, 64, 32), programs=2))
    options = {"persistent": True, "cluster": 2, "ping_pong": True, "num_stages": 2}
    row = small.sweep().check(options)
    assert row.safe, row.detail or row.verdict
    np.testing.assert_allclose(c, a.astype(float) @ b.T.astype(float), rtol=1e-2, atol=5e-2)


def test_sharing_again_after_a_turn_apart_is_caught(monkeypatch: pytest.MonkeyPatch):
    """Without the agreement carried from turn to turn, a copy lands in a slot that is being read."""
    monkeypatch.setattr(
        "tawa.partition.multicast._still_together", lambda home, kernel, agree: agree
    )
    row = odd_rows(3).sweep().check({"persistent": True, "cluster": 2, "consumers": 1,
                                     "num_stages": 2})  # fmt: skip
    assert not row.safe
    assert row.verdict.partition(": ")[2] in vars(errors)
    assert issubclass(vars(errors)[row.verdict.partition(": ")[2]], tawa.TawaError)
