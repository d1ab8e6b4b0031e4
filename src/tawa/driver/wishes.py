"""Options that are wishes: what Triton's kernels ask for is made to fit where it does not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from tawa.base.errors import TawaError
from tawa.base.options import BadOption, Options
from tawa.ir.decisions.choice import RolesLeftOut, WishLeftOpen
from tawa.machine.chips import SM_90A

if TYPE_CHECKING:
    from tawa.codegen.shared_memory import SharedMemoryExceeded
    from tawa.driver.compiled import Compiled

OF_TRITON = frozenset({"num_stages", "num_ctas", "num_warps"})
"""Options that say how Triton is to compute something; its stages hold what Tawa's do not."""

MOST_WARPS = SM_90A.cta_warps


def fitted_wishes(
    wishes: Collection[str], options: Options, compile_: Callable[[Options], Compiled]
) -> Compiled:
    """The compiled kernel, with as many stages as fit if those that were wished for do not.

    Where no warp group can hold a product, all warps do everything, and as many as it takes; and
    where shared memory can't hold the tiles of several roles that nobody asked for. A program is
    computed by one CTA whatever is wished for. Raises what compiling raises.
    """
    from tawa.codegen.lower import RegistersExceeded
    from tawa.codegen.shared_memory import SharedMemoryExceeded

    if options.num_ctas > 1:
        if "num_ctas" not in wishes:
            raise BadOption(
                f"there is no num_ctas={options.num_ctas}",
                expected="num_ctas=1: a program is computed by one CTA",
                found=f"num_ctas={options.num_ctas}",
                hint="programs that share their loads are asked for with `cluster`",
            )
        decision = WishLeftOpen("num_ctas", options.num_ctas, "is left out: a CTA a program")
        options = replace(options, num_ctas=1)
    else:
        try:
            return compile_(options)
        except SharedMemoryExceeded as error:
            asked = options.num_stages
            if asked is None or "num_stages" not in wishes:
                return _by_one_role(options, compile_, error)
            decision = WishLeftOpen("num_stages", asked)
            options = replace(options, num_stages=None)
        except RegistersExceeded:
            asked = options.num_warps
            warps = 2 * asked if options.specialize is False else asked
            if options.specialize or "num_warps" not in wishes or warps > MOST_WARPS:
                raise
            decision = WishLeftOpen(
                "num_warps", asked, f"leaves products too few registers: {warps} warps, one role"
            )
            options = replace(options, specialize=False, num_warps=warps)
    compiled = fitted_wishes(wishes, options, compile_)
    return replace(compiled, decisions=(decision, *compiled.decisions))


def _by_one_role(
    options: Options, compile_: Callable[[Options], Compiled], lacking: SharedMemoryExceeded
) -> Compiled:
    """The kernel without roles, if nobody asked for them. Raises what shared memory lacks.

    Products that are asked for in flight stay there: one role may have no room for their copies.
    """
    if options.specialize is not None or options.mma_depth:
        raise lacking
    try:
        compiled = compile_(replace(options, specialize=False))
    except TawaError:
        raise lacking from None
    return replace(compiled, decisions=(RolesLeftOut(lacking.excess), *compiled.decisions))
