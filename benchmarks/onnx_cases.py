"""ONNX's own node cases as a test of shape inference.

A case is a model of one operator (or its expansion into others) with input data. Its inputs are
made symbolic, every size n > 1 becoming the symbol `s<n>` (1 stays 1), except for small integer
inputs, which become constants. What a tool infers is compared with the executed shapes at up to
three valuations of the symbols: the data that comes with the case, and data of other sizes. Where
the constants fix all sizes, they are changed with them, and the tool infers again.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper
from onnx_oracle import Oracle

SMALL = 16
"""Integer inputs of at most this many numbers are constants."""

GROWTH: tuple[Callable[[int], int], ...] = (
    lambda n: 2 * n, lambda n: n + 1, lambda n: 3 * n, lambda n: n + 2,
)  # fmt: skip
"""How sizes are changed; the first two valuations that execute are used."""

MOST_TRIES = 90
"""Sets of two or three symbols that are tried for other sizes."""

Shapes = dict[str, tuple[int, ...]]
Inputs = dict[str, "tuple[int | str, ...] | None"]
Constants = dict[str, np.ndarray]


@dataclass(frozen=True)
class Valuation:
    """Sizes of the symbols, and the shapes that execution gives.

    `constants` are other constants than the case's, where these fix the sizes.
    """

    sizes: dict[str, int]
    outputs: Shapes
    constants: Constants | None = None


@dataclass(frozen=True)
class Case:
    """A model with symbolic inputs."""

    name: str
    model: ModelProto
    inputs: Inputs
    constants: Constants
    valuations: tuple[Valuation, ...]

    @property
    def symbols(self) -> set[str]:
        """The symbols among the sizes."""
        return symbols_of(self.inputs)


def cases(pattern: str = "", grow: bool = True) -> Iterator[Case]:
    """The node cases of the installed onnx whose name contains `pattern`.

    Without `grow`, only at the sizes that they come with: nothing is executed.
    """
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    from onnx.backend.test.loader import load_model_tests

    for case in load_model_tests(kind="node"):
        if pattern in case.name and case.model is not None and case.data_sets:
            inputs, outputs = case.data_sets[0]
            yield prepared(case.name, case.model, inputs, outputs, grow)


def prepared(
    name: str, model: ModelProto, inputs: list[Any], outputs: list[Any], grow: bool
) -> Case:
    """The symbolic case of a model with data.

    Sizes that are equal share a symbol. Where the model then runs at no other sizes, because one
    of them is fixed, each axis has a symbol of its own.
    """
    given: dict[str, Any] = {}
    for entry, raw in zip(model.graph.input, inputs, strict=False):
        value = numpy_helper.to_array(raw) if isinstance(raw, onnx.TensorProto) else raw
        given[entry.name] = np.asarray(value) if isinstance(value, np.generic) else value
    names = [entry.name for entry in model.graph.output]
    first = {
        n: tuple(value.dims) if isinstance(value, onnx.TensorProto) else np.shape(value)
        for n, value in zip(names, outputs, strict=False)
        if isinstance(value, np.ndarray | np.generic | onnx.TensorProto)
    }
    oracle = Oracle(model, given) if grow else None
    found: list[Case] = []
    for shared in (True, False):
        declared, constants = symbolic(given, shared)
        numbers = {symbol: number_of(symbol) for symbol in symbols_of(declared)}
        valuations = [Valuation(numbers, first)]
        if oracle is not None and numbers:
            tries = others(numbers, constants, thorough=not shared)
            for sizes, changed in tries:
                if len(valuations) < 3:
                    valuations += executed(
                        oracle, declared, constants, given, sizes, changed, first
                    )
        found.append(Case(name, model, declared, constants, tuple(valuations)))
        if len(valuations) == 3 or not numbers or not grow:
            break
    return max(found, key=lambda case: len(case.valuations))


def symbolic(given: dict[str, Any], shared: bool) -> tuple[Inputs, Constants]:
    """The inputs' sizes with symbols (`s3`; `s3.x.0` if they aren't shared), and the constants."""
    declared: Inputs = {}
    constants: Constants = {}
    for name, value in given.items():
        if not isinstance(value, np.ndarray):
            declared[name] = None
        elif np.issubdtype(value.dtype, np.integer) and value.size <= SMALL:
            constants[name] = value
        else:
            declared[name] = tuple(
                n if n <= 1 else f"s{n}" if shared else f"s{n}_{len(declared)}_{axis}"
                for axis, n in enumerate(value.shape)
            )
    return declared, constants


def symbols_of(inputs: Inputs) -> set[str]:
    """The symbols among sizes."""
    return {size for sizes in inputs.values() for size in sizes or () if isinstance(size, str)}


def number_of(symbol: str) -> int:
    """The size that a symbol stands for in the case's own data."""
    return int(symbol[1:].partition("_")[0])


Sizes = dict[str, int]


def others(
    sizes: Sizes, constants: Constants, thorough: bool
) -> Iterator[tuple[Sizes, Constants | None]]:
    """Other sizes of the symbols, and what the constants become where they fix sizes too."""
    for grown_sizes in grown(sizes):
        yield grown_sizes, None
    if not thorough:
        return
    few = sorted(sizes)
    for count in (2, 3):
        for chosen in islice(combinations(few, count), MOST_TRIES):
            yield {s: n + (s in chosen) for s, n in sizes.items()}, None
    for one, other in combinations(few, 2):
        yield {**sizes, one: sizes[other], other: sizes[one]}, None
    for symbol in few:
        yield {**sizes, symbol: 1}, None
    for grown_sizes in grown(sizes):
        for change in (_resized, _renamed, _scaled):
            yield grown_sizes, change(constants, sizes, grown_sizes)
    for factor in (2, 3):
        yield sizes, {n: np.resize(c, [factor * k for k in c.shape]) for n, c in constants.items()}


def _changes(old: Sizes, new: Sizes) -> dict[int, int]:
    """What each number among the sizes becomes."""
    return {old[symbol]: size for symbol, size in new.items() if size != old[symbol]}


def _resized(constants: Constants, old: Sizes, new: Sizes) -> Constants:
    """Constants whose own axes follow the sizes."""
    becomes = _changes(old, new)
    return {
        name: np.resize(value, [becomes.get(n, n) for n in value.shape])
        for name, value in constants.items()
    }


def _renamed(constants: Constants, old: Sizes, new: Sizes) -> Constants:
    """Constants that list sizes: those that change."""
    becomes = _changes(old, new)
    change = np.vectorize(lambda n: becomes.get(int(n), n))
    return {n: change(c).astype(c.dtype) if c.size else c for n, c in constants.items()}


def _scaled(constants: Constants, old: Sizes, new: Sizes) -> Constants:
    """Constants multiplied as the sizes are."""
    factors = {new[symbol] // size for symbol, size in old.items()}
    factor = factors.pop() if len(factors) == 1 else 1
    return {name: value * factor for name, value in constants.items()}


def grown(sizes: Sizes) -> Iterator[Sizes]:
    """Other sizes of the symbols: all of them grown, then one at a time."""
    for grow in GROWTH:
        yield {symbol: grow(size) for symbol, size in sizes.items()}
    for symbol, size in sizes.items() if len(sizes) > 1 else ():
        for grow in GROWTH[:2]:
            yield {**sizes, symbol: grow(size)}


def executed(
    oracle: Oracle, declared: Inputs, constants: Constants, given: dict[str, Any], sizes: Sizes,
    changed: Constants | None, first: Shapes,
) -> list[Valuation]:  # fmt: skip
    """The model run on data of other sizes: one valuation, or none if it doesn't run."""
    feeds: dict[str, Any] = dict(constants if changed is None else changed)
    becomes = {number_of(symbol): size for symbol, size in sizes.items()}
    for name, dims in declared.items():
        value = given[name]
        if dims is not None:
            feeds[name] = np.resize(value, [sizes[d] if isinstance(d, str) else d for d in dims])
        elif isinstance(value, list):  # a sequence
            feeds[name] = [np.resize(x, [becomes.get(n, n) for n in x.shape]) for x in value]
        else:
            feeds[name] = value
    results = oracle.run(feeds)
    if results is None:
        return []
    outputs = {
        name: np.shape(value)
        for name, value in zip(oracle.outputs, results, strict=True)
        if name in first and isinstance(value, np.ndarray | np.generic)
    }
    return [Valuation(sizes, outputs, changed)]


def symbolic_model(case: Case) -> ModelProto:
    """The case as a model, for tools that read models."""
    model = ModelProto()
    model.CopyFrom(case.model)
    kept = []
    for entry in model.graph.input:
        if entry.name in case.constants:
            array = case.constants[entry.name]
            model.graph.initializer.append(numpy_helper.from_array(array, entry.name))
            continue
        dims = case.inputs.get(entry.name)
        if dims is not None and entry.type.HasField("tensor_type"):
            element = entry.type.tensor_type.elem_type
            entry = helper.make_tensor_value_info(entry.name, element, list(dims))
        kept.append(entry)
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for entry in model.graph.output:
        if entry.type.HasField("tensor_type"):
            entry.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    return model


Inferred = dict[str, "tuple[int | None, ...] | None"]
Tool = Callable[[Case], Callable[[dict[str, int]], Inferred]]
"""A tool infers a case once, and then gives the outputs' shapes for sizes of the symbols."""


@dataclass
class Score:
    """How many outputs are fully right, partly known, wrong, or without a rank."""

    right: int = 0
    partial: int = 0
    wrong: int = 0
    unranked: int = 0
    failed: int = 0

    @property
    def outputs(self) -> int:
        """All outputs scored."""
        return self.right + self.partial + self.wrong + self.unranked


def score(case: Case, tool: Tool, total: Score) -> dict[str, str]:
    """Add a tool's result on a case to `total`; the verdict on each output."""
    names = case.valuations[0].outputs
    try:
        evaluate = tool(case)
        found = [
            evaluate(valuation.sizes)
            if valuation.constants is None
            else tool(replace(case, constants=valuation.constants))(valuation.sizes)
            for valuation in case.valuations
        ]
    except Exception:  # a tool that raises knows nothing of the outputs
        total.failed += 1
        found = [{} for _ in case.valuations]
    verdicts: dict[str, str] = {}
    for name in names:
        marks = [
            verdict(inferred.get(name), valuation.outputs.get(name))
            for inferred, valuation in zip(found, case.valuations, strict=True)
        ]
        worst = next(m for m in ("wrong", "unranked", "partial", "right") if m in marks)
        setattr(total, worst, getattr(total, worst) + 1)
        verdicts[name] = worst
    return verdicts


def verdict(inferred: tuple[int | None, ...] | None, truth: tuple[int, ...] | None) -> str:
    """How an inferred shape compares with the executed one."""
    if truth is None:
        return "right"
    if inferred is None:
        return "unranked"
    if len(inferred) != len(truth):
        return "wrong"
    pairs = list(zip(inferred, truth, strict=True))
    if any(mine is not None and mine != theirs for mine, theirs in pairs):
        return "wrong"
    return "right" if all(mine is not None for mine, _ in pairs) else "partial"


def version() -> str:
    """The installed onnx."""
    return onnx.__version__
