"""Options that are wishes: what Triton's kernels ask for is made to fit where it does not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from tawa.base.options import BadOption, Options
from tawa.ir.decisions.choice import WishLeftOpen

if TYPE_CHECKING:
    from tawa.driver.compiled import Compiled

OF_TRITON = frozenset({"num_stages", "num_ctas"})
"""Options that say how Triton is to compute something; its stages hold what Tawa's do not."""


def fitted_wishes(
    wishes: Collection[str], options: Options, compile_: Callable[[Options], Compiled]
) -> Compiled:
    """The compiled kernel, with as many stages as fit if those that were wished for do not.

    A program is computed by one CTA whatever is wished for. Raises what compiling raises.
    """
    from tawa.codegen.shared_memory import SharedMemoryExceeded

    if options.num_ctas > 1:
        if "num_ctas" not in wishes:
            raise BadOption(
                f"there is no num_ctas={options.num_ctas}",
                expected="num_ctas=1: a program is computed by one CTA",
                found=f"num_ctas={options.num_ctas}",
                hint="programs that share their loads are asked for with `cluster`",
            )
        compiled = fitted_wishes(wishes, replace(options, num_ctas=1), compile_)
        decision = WishLeftOpen("num_ctas", options.num_ctas, "is left out: a CTA a program")
        return replace(compiled, decisions=(decision, *compiled.decisions))
    try:
        return compile_(options)
    except SharedMemoryExceeded:
        asked = options.num_stages
        if asked is None or "num_stages" not in wishes:
            raise
    compiled = compile_(replace(options, num_stages=None))
    decision = WishLeftOpen("num_stages", asked)
    return replace(compiled, decisions=(decision, *compiled.decisions))
