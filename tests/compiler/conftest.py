"""Fixtures of the compiler's tests."""

import pytest
from simulation import Arrays


@pytest.fixture
def arrays() -> Arrays:
    """Makes the arrays of one test."""
    return Arrays()
