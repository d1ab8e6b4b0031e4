"""Options that are wishes: what Triton's kernels ask for is made to fit where it does not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from tawa.base.options import Options
from tawa.ir.decisions.choice import WishLeftOpen

if TYPE_CHECKING:
    from tawa.driver.compiled import Compiled

OF_TRITON = frozenset({"num_stages"})
"""Of Triton's options those that Tawa takes at their word: its stages hold what Triton's do not."""


def fitted_wishes(
    wishes: Collection[str], options: Options, compile_: Callable[[Options], Compiled]
) -> Compiled:
    """The compiled kernel, with as many stages as fit if those that were wished for do not.

    Raises what compiling raises.
    """
    from tawa.codegen.shared_memory import SharedMemoryExceeded

    try:
        return compile_(options)
    except SharedMemoryExceeded:
        asked = options.num_stages
        if asked is None or "num_stages" not in wishes:
            raise
    compiled = compile_(replace(options, num_stages=None))
    decision = WishLeftOpen("num_stages", asked)
    return replace(compiled, decisions=(decision, *compiled.decisions))
