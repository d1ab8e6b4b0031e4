"""What kernels become up to the hopper level: a change of it is seen (`workloads/kernel_texts.py`)."""

from __future__ import annotations

import pytest
from kernel_texts import dealt, held


@pytest.mark.parametrize("name", dealt(0, 10))
def test_the_text_of_a_kernel(name: str, request: pytest.FixtureRequest) -> None:
    held(request, name, "hopper")
