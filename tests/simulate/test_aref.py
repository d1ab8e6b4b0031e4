"""The aref level: a correct kernel passes, each small edit is caught by its own message."""

import pytest
from aref_protocols import EDITS, Edit, broken, correct

from tawa.simulate.interpret import errors


def test_the_correct_kernel_passes():
    assert correct().simulate() < 1e-6


@pytest.mark.parametrize("edit", EDITS, ids=lambda e: e.name)
def test_broken_kernels_are_caught(edit: Edit):
    with pytest.raises(getattr(errors, edit.error)) as raised:
        broken(edit.name).simulate()
    assert type(raised.value).__name__ == edit.error
