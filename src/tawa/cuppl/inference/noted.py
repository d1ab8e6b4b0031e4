"""Runs again of a chain's draws, with a look at each observation: for LOO, and to predict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.executable import FIELD, Executable, new_context
from tawa.cuppl.inference.settings import Limits, failure
from tawa.cuppl.natives import tape as k
from tawa.cuppl.typing.errors import UnsupportedMethod
from tawa.cuppl.typing.failures import FAILURES, HEAP_FULL, INVALID_PARAMETER
from tawa.functional.syntax import Span

__all__ = ["Noted", "run_again"]

Words = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
LEVELS = 1 << 11
STREAM = 10
"""Of the random numbers for what is predicted; the draw is the step, the chain the particle."""
KINDS = {"float": np.float64, "int": np.int64, "bool": np.bool_}


@dataclass(slots=True)
class Noted:
    """What one place of a program observed, in the order of a run.

    `log_likelihood` is (chains, draws, observations); `predicted` are values drawn anew, and
    `observed` those given, with a last dimension more for vectors.
    """

    span: Span
    log_likelihood: Floats
    predicted: npt.NDArray[np.generic]
    observed: npt.NDArray[np.generic]


class _Runner:
    """The words that the machine code works with."""

    def __init__(
        self, executable: Executable, inputs: int, results: int, limits: Limits, seed: int
    ) -> None:
        self.executable, self.limits, self.seed = executable, limits, seed
        self.meter = np.zeros(k.METER_WORDS, dtype=np.int64)
        self.results = np.zeros(max(1, results), dtype=np.int64)
        self.context = new_context()
        self.context[FIELD["inputs"]] = inputs
        self.context[FIELD["depth_limit"]] = LEVELS
        self.context[FIELD["key0"]] = seed & 0xFFFFFFFF
        self.context[FIELD["key1"]] = seed >> 32 & 0xFFFFFFFF
        self.context[FIELD["stream"]] = STREAM
        self.heap = self.more_heap(1 << 12)
        self.notes = self.more_notes(1 << 10)

    def more_heap(self, words: int) -> Words:
        """A heap."""
        if 8 * words > self.limits.max_memory:
            program = self.executable.lowered.elaborated
            raise failure(program, HEAP_FULL, 0, self.seed, 0, 0)
        self.heap = heap = np.zeros(words, dtype=np.int64)
        self.context[FIELD["heap_start"]] = heap.ctypes.data
        self.context[FIELD["heap_end"]] = heap.ctypes.data + 8 * words
        return heap

    def more_notes(self, words: int) -> Words:
        """Room for notes."""
        self.notes = notes = np.zeros(words, dtype=np.int64)
        self.meter[k.NOTES], self.meter[k.NOTE_ROOM] = notes.ctypes.data, words
        return notes

    def run(self, position: Floats, chain: int, draw: int) -> Words:
        """The notes of a run with these values."""
        values = np.ascontiguousarray(position)
        self.meter[k.POSITION], self.meter[k.ROOM] = values.ctypes.data, len(values)
        self.meter[k.DIMENSION] = len(values)
        context = self.context
        context[FIELD["particle"]], context[FIELD["step"]] = chain, draw
        while True:
            context[FIELD["draw"]] = context[FIELD["made"]] = 0
            given = [self.meter.ctypes.data, self.results.ctypes.data, self.limits.max_steps]
            status = self.executable.call("run_noted", context, given)
            used = int(self.meter[k.NOTED])
            if status == HEAP_FULL:
                self.more_heap(2 * len(self.heap))
            elif status != 0:
                program, site = self.executable.lowered.elaborated, int(context[FIELD["site"]])
                code = status if status in FAILURES else INVALID_PARAMETER
                raise failure(program, code, site, self.seed, chain, draw)
            elif used > len(self.notes):
                self.more_notes(2 * used)
            else:
                return self.notes[:used].copy()


def run_again(
    executable: Executable,
    inputs: int,
    results: int,
    positions: list[Floats],
    limits: Limits,
    seed: int,
) -> list[Noted]:
    """The observations of all draws of some chains, by their places in the program.

    Raises UnsupportedMethod where not all draws observe equally many values.
    """
    runner = _Runner(executable, inputs, results, limits, seed)
    rows = [
        runner.run(q, chain, draw)
        for chain, draws in enumerate(positions)
        for draw, q in enumerate(draws)
    ]
    if len({len(row) for row in rows}) > 1:
        raise _changing()
    table = np.stack(rows).reshape(*np.shape(positions)[:2], len(rows[0]))
    program = executable.lowered.elaborated
    places: dict[Span, list[tuple[int, int, str]]] = {}
    for at, site, count in _heads(table[0, 0]):
        same = (table[..., at] == site) & (table[..., at + 2] == count)
        if not same.all():
            raise _changing()
        found = places.setdefault(program.sites[site], [])
        found.append((at, count, program.observed[site]))
    return [_noted(span, table, heads) for span, heads in places.items()]


def _heads(row: Words) -> list[tuple[int, int, int]]:
    """Where notes begin, their sites and their numbers of values."""
    found: list[tuple[int, int, int]] = []
    at = 0
    while at < len(row):
        found.append((at, int(row[at]), int(row[at + 2])))
        at += 3 + 2 * abs(found[-1][2])
    return found


def _noted(span: Span, table: Words, heads: list[tuple[int, int, str]]) -> Noted:
    """The columns of one place."""
    if len({head[1:] for head in heads}) > 1:
        raise UnsupportedMethod(
            "vectors of several lengths are observed here, which no array holds", span=span,
            hint="observe those of each length at a place of their own",
        )  # fmt: skip
    _, count, kind = heads[0]
    starts = np.array([at for at, _, _ in heads])
    size = abs(count)
    cells = starts[:, None] + 3 + np.arange(size)[None, :]
    shape = (len(heads),) if count < 0 else (len(heads), size)
    type_ = KINDS[kind.split()[-1]]

    def values(words: Words) -> npt.NDArray[np.generic]:
        if type_ is np.float64:
            return np.ascontiguousarray(words).view(np.float64)
        return words.astype(type_)

    likelihood = np.ascontiguousarray(table[..., starts + 1]).view(np.float64)
    predicted = values(table[..., cells + size]).reshape(*table.shape[:2], *shape)
    return Noted(span, likelihood, predicted, values(table[0, 0][cells]).reshape(shape))


def _changing() -> UnsupportedMethod:
    return UnsupportedMethod(
        "what the program observes differs between draws, so it has no arrays of likelihoods",
        hint="take `log_density` in the program itself, and return a vector of it",
    )
