"""Random programs: the inferred shape is the executed one, and checks fire when NumPy fails."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.axon.programs import Program, programs, shapes

from tawa import axon
from tawa.axon.sizes.shapes import tensor_parts
from tawa.axon.typing.errors import ContractViolation, ShapeMismatch


def numpy_shape(program: Program, arrays: list[np.ndarray], stacks: bool) -> tuple[int, ...] | None:
    """The shape of NumPy's result, None if NumPy fails."""
    try:
        return program.run(*arrays, stacks=stacks).shape
    except (ValueError, IndexError):
        return None


def inferred_shape(program: Program, arrays: list[np.ndarray]) -> tuple[int, ...] | None:
    """The shape that the scheme gives for these arguments, None if the program or they are ill."""
    try:
        function = axon.load(program.text)["f"]
        parts = tensor_parts(function.check(*arrays))
    except (ShapeMismatch, ContractViolation):
        return None
    assert parts is not None
    numbers = parts[1].numbers
    assert numbers is not None, f"{function.type}: {parts[1]}"
    return numbers


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(programs(), st.lists(shapes, min_size=3, max_size=3))
def test_inferred_shape_is_executed_shape(program: Program, given_shapes: list[tuple[int, ...]]):
    arrays = [np.ones(shape) for shape in given_shapes[: program.parameters]]
    # What `@` multiplies by is a matrix, unless the program itself says that it has more axes.
    possible = {numpy_shape(program, arrays, stacks) for stacks in (False, True)}
    assert inferred_shape(program, arrays) in possible


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.lists(shapes, min_size=3, max_size=3))
def test_what_passes_the_check_runs(program: Program, given_shapes: list[tuple[int, ...]]):
    arrays = [np.ones(shape) for shape in given_shapes[: program.parameters]]
    expected = inferred_shape(program, arrays)
    if expected is not None:
        assert axon.load(program.text)["f"](*arrays).shape == expected
