"""Kernels as functions of the IR: their arguments and what is known of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    i32,
)
from xdsl.ir import Attribute, BlockArgument, Operation

AT_LEAST = "tawa.at_least"
"""Attribute of an op or a kernel argument: what its user promises the value to reach."""

MULTIPLE, CONTIGUOUS, CONSTANT = "tawa.multiple", "tawa.contiguous", "tawa.constant"
"""Attributes of an op: what its user promises of runs of its result, a number a dimension."""

DISJOINT = "tawa.disjoint"
"""Attribute of a kernel: names of arguments whose accesses its user promises to be apart."""

RELEASES = "tawa.releases"
"""Attribute of a kernel that lets the next one on its stream begin before it ends."""

POSITIVE = "tawa.positive"
"""Attribute of an f32 argument that every launch has seen to lie between 2^-64 and 2^64."""

NAME = "tawa.name"
"""Attribute of a kernel argument whose name is no name of a value: those end in no number."""

MADE, GIVEN = "tawa.made", "tawa.given"
"""Attributes of a kernel: how the host makes arguments of those that a launch is given, and how
many it is given. Those that are made follow them; others may follow those."""


def argument_names(kernel: func.FuncOp) -> list[str]:
    """The names of a kernel's arguments, as its user wrote them."""
    facts = kernel.arg_attrs.data if kernel.arg_attrs is not None else ()
    names = [a.name_hint or f"argument {a.index}" for a in kernel.args]
    for i, fact in enumerate(facts):
        if isinstance(name := fact.data.get(NAME), StringAttr):
            names[i] = name.data
    return names


def disjoint_pairs(kernel: func.FuncOp) -> list[tuple[str, str]]:
    """The names of arguments that are promised to be apart."""
    text = kernel.attributes.get(DISJOINT)
    found: list[tuple[str, str]] = json.loads(text.data) if isinstance(text, StringAttr) else []
    return [(one, other) for one, other in found]


def add_arguments(kernel: func.FuncOp, types: Sequence[Attribute]) -> list[BlockArgument]:
    """Append arguments to a kernel; returns them."""
    block = kernel.body.block
    added = [block.insert_arg(t, len(block.args)) for t in types]
    kernel.properties["function_type"] = FunctionType.from_lists([a.type for a in block.args], [])
    if kernel.arg_attrs is not None:
        known = kernel.arg_attrs.data
        none = [DictionaryAttr({})] * (len(block.args) - len(known))
        kernel.properties["arg_attrs"] = ArrayAttr([*known, *none])
    return added


def let_host_make(kernel: func.FuncOp, given: int, recipes: Sequence[str]) -> None:
    """Note how the arguments from number `given` on are made: JSON texts, one each."""
    kernel.attributes[MADE] = ArrayAttr([StringAttr(recipe) for recipe in recipes])
    kernel.attributes[GIVEN] = IntegerAttr(given, i32)


def made_by_host(kernel: Operation | None) -> tuple[int, list[dict[str, Any]]]:
    """The number of the first argument that the host makes, and how it makes each.

    Of a kernel whose descriptors were not hoisted, none is known to be made.
    """
    made = kernel.attributes.get(MADE) if kernel is not None else None
    given = kernel.attributes.get(GIVEN) if kernel is not None else None
    # Asked for every address: xDSL's `isa` would take most of the time.
    if not isinstance(made, ArrayAttr) or not isinstance(given, IntegerAttr):
        return (len(kernel.body.block.args) if isinstance(kernel, func.FuncOp) else 0), []
    return given.value.data, [json.loads(text.data) for text in cast(ArrayAttr[StringAttr], made)]
