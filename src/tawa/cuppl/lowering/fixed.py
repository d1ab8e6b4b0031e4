"""Parameters that all nested activations of a function share.

Where every call that a function makes to itself passes a parameter on as it is, the parameter is
the same in all activations above the outermost one. Its register still holds it when such a call
returns: whatever may change it in between (a call from another function, a suspension) goes through
a frame of this function that has it. So the frames of calls to itself need not keep it.

A tail call to another function that may suspend leaves no such frame: then nothing is fixed.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from tawa.cuppl.core.ir import Call, Function, Reg
from tawa.cuppl.lowering.dataflow import defined
from tawa.cuppl.lowering.tail import is_tail_call

__all__ = ["fixed_parameters"]


def fixed_parameters(function: Function, suspending: AbstractSet[str]) -> set[Reg]:
    """The parameters that a function never changes, and passes on in each call to itself."""
    fixed: set[Reg] = set(function.params)
    recursive = False
    for block in function.blocks.values():
        for index, item in enumerate(block.instructions):
            fixed.difference_update(defined(item))
            if not isinstance(item, Call) or item.function not in suspending:
                continue
            if item.function == function.name:
                recursive = True
                pairs = zip(function.params, item.args, strict=True)
                fixed.difference_update(p for p, given in pairs if p != given)
            elif is_tail_call(block, index):
                return set()
    return fixed if recursive else set()
