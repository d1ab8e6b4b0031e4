"""Whether another split of registers leaves loading roles as much."""

from __future__ import annotations

import pytest

from tawa.aref.analysis.registers import ROOMY, Budget, blocks_in_flight
from tawa.driver.candidates import _leaves_as_much  # pyright: ignore


def split(producer: int | None, consumer: int | None = 232) -> Budget:
    return Budget(producer, consumer, 232, 168)


@pytest.mark.parametrize(
    ("other", "now", "expected"),
    [
        (split(40), split(40), True), (split(ROOMY - 8), split(ROOMY - 16), True), (split(24), split(40), False),
        (split(ROOMY), split(40), False),  # it moves other blocks at a time
        (split(ROOMY + 8), split(ROOMY), True), (split(40, 224), split(40), False),
        (split(None), split(None), True), (split(None, 224), split(None), False),
        (split(None), split(40), False), (split(40), split(None), False),
    ],
)  # fmt: skip
def test_splits_that_are_the_same_but_for_loading_roles(other: Budget, now: Budget, expected: bool):
    assert _leaves_as_much(other, now) is expected


def test_blocks_of_a_moving_role():
    assert [blocks_in_flight(n) for n in (24, ROOMY - 1, ROOMY, 232)] == [2, 2, 4, 4]
