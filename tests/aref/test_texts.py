"""What kernels become up to the aref level: a change of it is seen (`workloads/kernel_texts.py`)."""

from __future__ import annotations

import pytest
from kernel_texts import dealt, held, products


@pytest.mark.parametrize("name", [*dealt(2, 8), *products()])
def test_the_text_of_a_kernel(name: str, request: pytest.FixtureRequest) -> None:
    held(request, name, "aref")
