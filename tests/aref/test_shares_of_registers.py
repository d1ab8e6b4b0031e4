"""How the roles of a multiprocessor's CTAs share its registers."""

from __future__ import annotations

import pytest

from tawa.aref.analysis.registers import FEWEST, SELDOM, Copying, budget
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
