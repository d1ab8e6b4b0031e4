"""Random programs, each as Axon text and as NumPy calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

Array = np.ndarray
Meaning = Callable[..., Any]


@dataclass(frozen=True)
class Step:
    """One operation: its text with a slot for each operand, and what NumPy does."""

    text: str
    operands: int
    meaning: Meaning


def _strict(x: Array, w: Array) -> Array:
    if w.ndim != 2 or x.ndim < 1:
        raise ValueError("not a matrix")
    return x @ w


def _product(x: Array, w: Array) -> Array:
    """`@` where the program says that the right operand is a stack."""
    return _strict(x, w) if w.ndim <= 2 else _stacked(x, w)


def _stacked(x: Array, y: Array) -> Array:
    if x.ndim < 2 or y.ndim < 2:
        raise ValueError("not matrices")
    return np.matmul(x, y)


def _pointwise(x: Array, y: Array) -> Array:
    if x.shape != y.shape:
        raise ValueError("shapes differ")
    return x + y


def _halves(axis: int) -> Meaning:
    return lambda x: np.split(x, 2, axis=axis)[0]


def _cut(start: int, stop: int) -> Meaning:
    def cut(x: Array) -> Array:
        if x.shape[-1] < stop:
            raise ValueError("too short")
        return x[..., start:stop]

    return cut


def _transposed(x: Array) -> Array:
    if x.ndim < 2:
        raise ValueError("no matrix")
    return np.swapaxes(x, -1, -2)


def _flat(x: Array) -> Array:
    if x.ndim < 1:
        raise ValueError("no axis")
    return x.reshape(x.shape[0], -1)


def _outer(x: Array, y: Array) -> Array:
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError("not vectors")
    return np.outer(x, y)


def _summed(axis: int) -> Meaning:
    def summed(x: Array) -> Array:
        if x.ndim < 1:  # NumPy lets a scalar be summed along axis 0 or -1
            raise ValueError("no axis")
        return np.sum(x, axis=axis)

    return summed


def _squeezed(axis: int) -> Meaning:
    def squeezed(x: Array) -> Array:
        if x.ndim < 1:  # NumPy lets a scalar be squeezed along axis 0 or -1
            raise ValueError("no axis")
        return np.squeeze(x, axis=axis)

    return squeezed


def _kept(axis: int) -> Meaning:
    return lambda x: x + np.expand_dims(_summed(axis)(x), axis)


def _mapped(x: Array) -> Array:
    if x.ndim < 2:
        raise ValueError("nothing to sum")
    return np.sum(x, axis=-1)


axes = st.sampled_from([-2, -1, 0, 1])
sizes = st.sampled_from([1, 2, 3, 4])


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """One operation with its static arguments."""
    axis = draw(axes)
    a, b = draw(sizes), draw(sizes)
    return draw(
        st.sampled_from([
            Step("$0 + $1", 2, lambda x, y: x + y),
            Step("$0 * $1", 2, lambda x, y: x * y),
            Step("$0 .+ $1", 2, _pointwise),
            Step("$0 @ $1", 2, _strict),
            Step("matmul $0 $1", 2, _stacked),
            Step(f"concat{{axis = {axis}}} $0 $1", 2,
                 lambda x, y: np.concatenate([x, y], axis=axis)),
            Step(f"sum{{axis = {axis}}} $0", 1, _summed(axis)),
            Step(f"softmax{{axis = {axis}}} $0", 1, _kept(axis)),
            Step("transpose $0", 1, _transposed),
            Step("flatten $0", 1, _flat),
            Step("outer $0 $1", 2, _outer),
            Step("map (fn r -> sum r) $0", 1, _mapped),
            Step(f"(halves{{axis = {axis}}} $0).0", 1, _halves(axis)),
            Step(f"slice{{0, {a}}} $0", 1, _cut(0, a)),
            Step(f"expand{{{axis}}} $0", 1, lambda x: np.expand_dims(x, axis)),
            Step(f"squeeze{{{axis}}} $0", 1, _squeezed(axis)),
            Step(f"reshape{{[{a}, _]}} $0", 1, lambda x: x.reshape(a, -1)),
            Step(f"reshape{{[{a}, {b}, _]}} $0", 1, lambda x: x.reshape(a, b, -1)),
            Step("reshape{[_]} $0", 1, lambda x: x.reshape(-1)),
            Step(f"repeat{{{a}, axis = {axis}}} $0", 1,
                 lambda x: np.concatenate([x] * a, axis=axis)),
        ])
    )  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A program of some parameters and steps; each step takes earlier values."""

    parameters: int
    steps: tuple[tuple[Step, tuple[int, ...]], ...]

    @property
    def text(self) -> str:
        """The program in Axon."""
        names = [f"x{i}" for i in range(self.parameters)]
        head = f"def f {' '.join(names)} ="
        lines: list[str] = []
        for number, (step, operands) in enumerate(self.steps):
            text = step.text
            for slot, operand in enumerate(operands):
                text = text.replace(f"${slot}", names[operand])
            lines.append(f"  let v{number} = {text} in")
            names.append(f"v{number}")
        return "\n".join([head, *lines, f"  {names[-1]}"])

    def run(self, *arrays: Array, stacks: bool = True) -> Array:
        """What NumPy makes of it. Raises what NumPy raises.

        `stacks` says whether `@` takes stacks of matrices on its right.
        """
        values = list(arrays)
        for step, operands in self.steps:
            meaning = _product if stacks and step.meaning is _strict else step.meaning
            values.append(meaning(*(values[operand] for operand in operands)))
        return values[-1]


@st.composite
def programs(draw: st.DrawFn, longest: int = 5) -> Program:
    """A random program."""
    parameters = draw(st.integers(1, 3))
    chosen: list[tuple[Step, tuple[int, ...]]] = []
    for number in range(draw(st.integers(1, longest))):
        step = draw(steps())
        operand = st.integers(0, parameters + number - 1)
        chosen.append((step, tuple(draw(operand) for _ in range(step.operands))))
    return Program(parameters, tuple(chosen))


shapes = st.lists(sizes, max_size=4).map(tuple)
