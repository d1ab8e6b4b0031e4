"""Where the rows of a window lie among those of its tile, by all places of its rows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tawa.aref.analysis.windows import GROUP, group_pitch, row_pitches

TILES = ((64, 32), (8, 32), (12, 32), (4, 8, 32), (10, 12, 32), (3, 4, 8, 32), (2, 24, 32))


@pytest.mark.parametrize("tile", TILES)
def test_rows_follow_each_other_along_the_last_dimension_but_one(tile: tuple[int, ...]) -> None:
    rows = np.arange(math.prod(tile[:-1])).reshape(tile[:-1])
    steps = [int(rows.take(1, d).flat[0]) if n > 1 else None for d, n in enumerate(tile[:-1])]
    assert row_pitches(tile) == steps


@pytest.mark.parametrize("tile", TILES)
def test_instructions_take_groups_of_rows_at_one_distance(tile: tuple[int, ...]) -> None:
    rows = np.arange(math.prod(tile[:-1])).reshape(tile[:-1])
    found = set()
    for window in itertools.product(*(sorted({1, 2, 8, n - 1, n} - {0}) for n in tile[:-1])):
        if any(n > m for n, m in zip(window, tile[:-1], strict=True)):
            continue
        taken = rows[tuple(map(slice, window))].flatten()
        groups = taken.reshape(-1, GROUP) if len(taken) % GROUP == 0 else None
        pitch = None
        if groups is not None and (groups == groups[:, :1] + np.arange(GROUP)).all():
            steps = set(np.diff(groups[:, 0]).tolist())
            pitch = GROUP if not steps else steps.pop() if len(steps) == 1 else None
        assert group_pitch(tile, (*window, tile[-1])) == pitch, window
        found.add(pitch is None)
    assert found == {True, False}


def test_parts_of_rows_are_no_windows_for_instructions() -> None:
    assert group_pitch((64, 32), (64, 16)) is None
    assert group_pitch((64,), (64,)) is None
