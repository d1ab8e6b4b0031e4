"""Verifying a module after each pass, without looking twice at what was found to be well.

The verifier of an op without regions depends on its *signature*: its class, types, properties and
declared attributes, and the class of the op around it. Modules have few different signatures, and
passes change few ops, so most of the time of verifying after every pass would go into finding the
same again. Ops that end a block are always verified when they changed, and ops with regions when
anything in them did. That nothing in an isolated op is defined outside of it is seen in one sweep.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, ErasedSSAValue, Operation
from xdsl.irdl import IRDLOperation
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from tawa.ir.walking import every

Form = tuple[Any, ...]

MOST_SIGNATURES = 1 << 16

_WELL: set[Form] = set()
"""Signatures that were verified in this process."""


def form_of(op: Operation) -> Form:
    """What changes when an op without regions does, but for the types of its operands."""
    return (
        op,
        op.parent,
        op.next_op is None,
        tuple(op.operands),
        [value.type for value in op.results],
        op.properties.copy(),
        op.attributes.copy(),
    )


OPERANDS, RESULTS = 3, 4
"""Places in a form."""


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


class Scope:
    """The values that are used and defined in an isolated op, by identity."""

    def __init__(self) -> None:
        self.used: set[int] = set()
        self.defined: set[int] = set()


class Verifier:
    """Verifies one module after another; remembers the forms that the ops of the last one had.

    Forms are found by the identity of what they are of, which they keep alive.
    """

    def __init__(self) -> None:
        self._forms: dict[int, Form] = {}
        self._before: dict[int, Form] = {}
        self._retyped = False

    def verify(self, module: ModuleOp) -> None:
        """Verify a module. Raises VerifyException or ValueError, as the ops' own verifiers do."""
        self._before, self._forms = self._forms, {}
        self._retyped = False
        found: list[Operation] = []
        self._op(module, Scope(), found)
        if self._retyped:
            found = every(module)
        for op in found:
            if op.regions:
                op.verify(verify_nested_ops=False)
            else:
                _verify(op)

    def _op(self, op: Operation, scope: Scope, found: list[Operation]) -> tuple[bool, bool]:
        """Look at an op and what is in it; whether it changed, and whether it or what is in it did.

        Adds what is to be verified to `found`: what is in an op before the op.
        """
        form = form_of(op)
        old = self._before.get(id(op))
        changed = old != form
        self._forms[id(op)] = form
        if changed and old is not None and old[RESULTS] != form[RESULTS]:
            self._retyped = True
        scope.used.update(map(id, form[OPERANDS]))
        scope.defined.update(map(id, op.results))
        if not op.regions:
            if changed:
                found.append(op)
            return changed, changed
        isolated = _is_isolated(op.__class__)
        inner = Scope() if isolated else scope
        flat = deep = changed
        for region in op.regions:
            for block in region.blocks:
                near, far = self._block(block, inner, found)
                flat, deep = flat or near, deep or far
        if (flat if isolated else deep) or (isolated and not inner.used <= inner.defined):
            found.append(op)
        return changed, deep

    def _block(self, block: Block, scope: Scope, found: list[Operation]) -> tuple[bool, bool]:
        """The ops of a block: whether its own ops changed, and whether any op in them did."""
        if block.is_empty:
            block.verify()
        scope.defined.update(map(id, block.args))
        near = far = False
        ops = [*block.ops]
        for op in ops:
            if op.parent is not block:
                raise VerifyException(f"{op.name} lies in a block that is not its parent")
            changed, inside = self._op(op, scope, found)
            near, far = near or changed, far or inside
        form = block, [*map(id, ops)], [arg.type for arg in block.args]
        old = self._before.get(id(block))
        self._forms[id(block)] = form
        if old != form:
            near = far = True
            self._retyped = self._retyped or (old is not None and old[2] != form[2])
        return near, far


@cache
def _is_isolated(of: type[Operation]) -> bool:
    return of.has_trait(IsolatedFromAbove)


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
