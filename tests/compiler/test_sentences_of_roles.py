"""Who does what, as `--explain` says it: one or several, asked for or not."""

from __future__ import annotations

import pytest

from tawa.ir.decisions.roles import (
    FewerWarps,
    MoreWarps,
    NotSpecialised,
    ProgramsDealt,
    Specialised,
    TransposedByRole,
)


@pytest.mark.parametrize(
    ("single", "teams", "groups", "sentence"),
    [
        (True, 1, 1, "one loading thread and 1 team of 1 consumer warp group"),
        (False, 2, 1, "a loading warp group and 2 teams of 1 consumer warp group"),
        (True, 1, 2, "one loading thread and 1 team of 2 consumer warp groups"),
    ],
)
def test_roles(single: bool, teams: int, groups: int, sentence: str) -> None:
    assert Specialised(single, teams, groups).sentence == sentence


def test_one_role() -> None:
    assert "asks" in NotSpecialised().sentence
    assert NotSpecialised("it waits").sentence == "not specialised: it waits"
    assert NotSpecialised("it waits", "tile.load").sentence.startswith(
        "not specialised: it waits ("
    )


def test_warps_and_programs() -> None:
    assert MoreWarps(8, 4).sentence.startswith("8 warps: ")
    assert FewerWarps(2, 4).sentence.startswith("2 warps: ")
    assert "as their loops tell" in ProgramsDealt(True).sentence
    assert "as equal" in ProgramsDealt(False).sentence
    orders = [TransposedByRole("a", interleaved).sentence for interleaved in (False, True)]
    assert ["K in the order" in sentence for sentence in orders] == [False, True]
