"""How the roles of a multiprocessor's CTAs share its registers."""

from __future__ import annotations

import pytest

from tawa.aref.analysis.registers import (
    BESIDE,
    BESIDE_ACCUMULATORS,
    FEWEST,
    LESS,
    MANY,
    MOST,
    REGISTERS_OF_ADDRESS,
    SELDOM,
    Converting,
    Copying,
    budget,
)
from tawa.machine.chips import DEFAULT


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("ctas", [1, 2])
def test_who_seldom_copies_leaves_more_to_who_computes(ctas: int, narrow: bool) -> None:
    """Where registers are few: with one CTA of two computing groups they are not."""
    chip = DEFAULT.divided(ctas)
    often = budget(chip, 8, 64, narrow, Copying(4, 8))
    seldom = budget(chip, 8, 64, narrow, Copying(4, 8, seldom=True))
    if ctas == 1 and not narrow:
        assert seldom == often
        return
    assert seldom.producer == SELDOM < FEWEST <= (often.producer or 0)
    assert (seldom.consumer or 0) >= (often.consumer or 0) + 8


STEP, MOST_OF_FILE = DEFAULT.register_step, DEFAULT.registers
LOADERS: dict[str, Copying | None] = {
    "one thread": None, "a few addresses": Copying(4, 2), "addresses": Copying(4, 8),
    "two groups": Copying(8, 8), "to spare": Copying(4, 8, spare=24),
    "seldom": Copying(4, 8, seldom=True), "many addresses": Copying(4, 60),
}  # fmt: skip


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("warps", [4, 8, 12])
@pytest.mark.parametrize("elements", [0, 8, 32])
def test_all_share_what_the_launch_got(loader: str, warps: int, elements: int) -> None:
    """In whole steps, and nothing is left that would be a step for each group that computes."""
    copying = LOADERS[loader]
    converting = Converting(4, elements) if elements else None
    groups, loaders, converters = warps // 4, copying.groups if copying else 1, bool(elements)
    threads = 128 * (groups + loaders + converters)
    for accumulators in (0, 32, 64, 96, 128, 160, 192):
        for narrow in (False, True):
            found = budget(DEFAULT, warps, accumulators, narrow, copying, converting)
            assert found.entry * threads <= MOST_OF_FILE
            assert (found.entry + STEP) * threads > MOST_OF_FILE or found.entry == 255
            if found.producer is None or found.consumer is None:
                assert found.entry >= MOST
                continue
            parts = [found.producer, found.consumer, *([found.converter] if converters else [])]
            assert all(part is not None and part % STEP == 0 for part in parts)
            taken = loaders * found.producer + groups * found.consumer + (found.converter or 0)
            pool = found.entry * (groups + loaders + converters)
            assert taken <= pool
            assert pool - taken < STEP * groups or found.consumer == MOST
            assert found.limit == found.consumer
            assert DEFAULT.min_role_registers <= found.producer <= found.entry
            if copying and found.producer > FEWEST:
                assert found.consumer >= accumulators + BESIDE_ACCUMULATORS


@pytest.mark.parametrize(
    ("warps", "accumulators", "narrow", "expected"),
    [
        (8, 0, False, (40, 232, 168)), (8, MANY - 1, False, (40, 232, 168)),
        (8, MANY, False, (24, 240, 168)), (8, 0, True, (24, 240, 168)), (4, 64, False, None),
        (6, 64, False, None), (2, 64, False, None), (12, 64, False, (32, 160, 128)),
        (12, 64, True, (24, 160, 128)), (16, 64, False, (24, 112, 96)),
    ],
)  # fmt: skip
def test_a_loading_thread_s_share(
    warps: int, accumulators: int, narrow: bool, expected: tuple[int, int, int] | None
) -> None:
    found = budget(DEFAULT, warps, accumulators, narrow)
    if expected is None or found.producer is None:
        assert (found.producer, found.consumer, found.limit) == (None, None, found.entry)
        return
    assert (found.producer, found.consumer, found.entry) == expected


def test_what_roles_need() -> None:
    assert (Copying(8, 5).groups, Converting(8, 4).groups) == (2, 2)
    assert Copying(4, 5).registers - Copying(4, 4).registers == REGISTERS_OF_ADDRESS
    assert Copying(4, 0).registers == BESIDE
    assert not Copying(0, 5)
    assert Copying(4, 0)
    assert not Converting(0, 5)
    assert Converting(4, 0)
    for elements in range(0, 60, 7):
        found = Converting(4, elements).registers(168)
        assert found % STEP == 0
        assert 0 <= found - (BESIDE + elements) < STEP
    assert Converting(4, 400).registers(168) == 168


def test_one_that_copies_gets_what_its_addresses_take() -> None:
    """And what is to spare; where registers are few it is the computing ones that get that."""
    wide = budget(DEFAULT, 8, 64, False, Copying(4, 8))
    spare = budget(DEFAULT, 8, 64, False, Copying(4, 8, spare=24))
    assert wide.producer is not None
    assert spare.producer is not None
    wanted = Copying(4, 8).registers
    assert wide.producer == -(-wanted // STEP) * STEP
    assert spare.producer == -(-(wanted + 24) // STEP) * STEP
    few = budget(DEFAULT, 8, 64, True, Copying(4, 8, spare=24))
    assert few.producer == max(FEWEST, -(-(wanted - LESS - 48) // STEP) * STEP)
