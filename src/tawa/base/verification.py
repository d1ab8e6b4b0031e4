"""Verifying a module after each pass, without looking twice at what was found to be well.

The verifier of an op without regions depends on its *signature*: its class, types, properties and
declared attributes, and the class of the op around it. Modules have few different signatures, and
passes change few ops, so most of the time of verifying after every pass would go into finding the
same again. Ops with regions, and those that end a block, are always verified.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, ErasedSSAValue, Operation
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

Form = tuple[Any, ...]

MOST_SIGNATURES = 1 << 16

_WELL: set[Form] = set()
"""Signatures that were verified in this process."""


def form_of(op: Operation) -> Form:
    """What changes when an op without regions does."""
    return (
        op.parent,
        op.next_op is None,
        operands := tuple(op.operands),
        [value.type for value in operands],
        [value.type for value in op.results],
        op.properties.copy(),
        op.attributes.copy(),
    )


def signature_of(op: Operation) -> Form:
    """What the verifier of an op that is no terminator and has no regions depends on."""
    declared = op.get_irdl_definition().attributes if isinstance(op, IRDLOperation) else ()
    around = op.parent_op()
    return (
        op.__class__,
        around and around.__class__,
        *[value.type for value in op.operands],
        None,
        *[value.type for value in op.results],
        *op.properties.items(),
        *[(name, op.attributes.get(name)) for name in declared],
    )


class Verifier:
    """Verifies one module after another; remembers the forms that the ops of the last one had."""

    def __init__(self) -> None:
        self._forms: dict[Operation, Form] = {}

    def verify(self, module: ModuleOp) -> None:
        """Verify a module. Raises VerifyException or ValueError, as the ops' own verifiers do."""
        before, self._forms = self._forms, {}
        self._op(module, before)

    def _op(self, op: Operation, before: dict[Operation, Form]) -> None:
        if op.regions:
            for region in op.regions:
                for block in region.blocks:
                    self._block(block, before)
            op.verify(verify_nested_ops=False)
            return
        form = form_of(op)
        if before.get(op) != form:
            _verify(op)
        self._forms[op] = form

    def _block(self, block: Block, before: dict[Operation, Form]) -> None:
        """The ops of a block, and what they need of it."""
        if block.is_empty:
            block.verify()
        for op in block.ops:
            if op.parent is not block:
                raise VerifyException(f"{op.name} lies in a block that is not its parent")
            self._op(op, before)


def _verify(op: Operation) -> None:
    """Verify an op without regions, unless one like it was."""
    erased = any(isinstance(value, ErasedSSAValue) for value in op.operands)
    if erased or op.next_op is None or op.successors:
        op.verify()
        return
    signature = signature_of(op)
    if signature not in _WELL:
        op.verify()
        if len(_WELL) > MOST_SIGNATURES:
            _WELL.clear()
        _WELL.add(signature)
