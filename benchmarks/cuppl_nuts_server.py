"""The loop of a peer of `cuppl_nuts.py`: data and a file name, then a line for each seed.

It says when it is ready. Answers are lines of JSON: seconds with warm-up, seconds of the warm-up
alone, and what compiling took. The looked-at draws (a row each) go to the file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["serve"]

Chain = Callable[[int], tuple[float, float, Any]]
"""Of a seed: seconds of the warm-up, seconds of the draws, and the draws."""


def serve(make: Callable[[dict[str, Any]], tuple[Chain, float]], version: str) -> None:
    """Answer for each seed; `make` compiles for the data, and says how long that took."""
    given = json.loads(sys.stdin.readline())
    out = sys.stdout
    sys.stdout = sys.stderr
    chain, first = make(given["data"])
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        warming, drawing, draws = chain(int(line))
        np.save(given["out"], np.asarray(draws))
        row = {"seconds": warming + drawing, "warming": warming, "first": first}
        print(json.dumps({**row, "version": version}), file=out, flush=True)
