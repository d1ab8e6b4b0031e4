"""Populations of recorded runs: how many count, who descends from whom, how far floats go."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.memory import float_bits
from tawa.cuppl.inference.record import Record
from tawa.cuppl.natives import trace as k

__all__ = ["effective", "parents_of", "scales_of"]

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.int64]


def effective(log_weights: Floats) -> float:
    """The effective number of particles; one at least has a weight."""
    relative = np.exp(log_weights - log_weights.max())
    return float(relative.sum() ** 2 / (relative * relative).sum())


def parents_of(log_weights: Floats, random: np.random.Generator) -> Words:
    """Systematic resampling: the parent of each particle, which is itself if it has a child."""
    count = len(log_weights)
    shares = np.cumsum(np.exp(log_weights - log_weights.max()))
    ends = np.ceil(count * shares / shares[-1] - random.random()).astype(np.int64)
    ends[-1] = count
    children: Words = np.diff(ends.clip(0, count), prepend=0)
    parents = np.arange(count)
    parents[children == 0] = np.repeat(np.arange(count), (children - 1).clip(0))
    return parents


def scales_of(records: Sequence[Record]) -> Words:
    """A table of how far the values of each choice of a float lie apart (`scale_of`)."""
    keys = np.concatenate([one.old(k.OLD_KEYS) for one in records])
    values = np.concatenate([one.old(k.OLD_WORDS) for one in records])
    odd = keys & 1 == 1
    known, which = np.unique(keys[odd], return_inverse=True)
    numbers = values[odd].view(np.float64)
    size = np.bincount(which, minlength=len(known))
    with np.errstate(all="ignore"):
        mean = np.bincount(which, numbers, len(known)) / size
        spread = np.sqrt(np.bincount(which, (numbers - mean[which]) ** 2, len(known)) / size)
    mask = (1 << (2 * len(known) + 1).bit_length()) - 1
    table = np.zeros(2 * mask + 2, dtype=np.int64)
    for key, scale in zip(known.tolist(), spread.tolist(), strict=True):
        if math.isfinite(scale) and scale > 0.0:
            at = key & mask
            while table[2 * at]:
                at = (at + 1) & mask
            table[2 * at], table[2 * at + 1] = key, float_bits(scale)
    return table
