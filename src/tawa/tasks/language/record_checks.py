"""Whether what a mapping's records say is of the program: misspelt names change nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from tawa.tasks.language.defaults import Resolved, where
from tawa.tasks.language.errors import BadMapping
from tawa.tasks.language.mapping import Instance, Mapping
from tawa.tasks.language.task import VARIANTS, Variant


def check_records(
    mapping: Mapping, instances: Iterable[Resolved], tunables: Iterable[tuple[str, str]]
) -> None:
    """Raises `BadMapping` for names in a mapping that nothing in the program has.

    `instances` are those that ran, `tunables` what they asked for, by record and name. Records of
    other programs' variants are left alone: one mapping may serve several.
    """
    used = {i.record.name: i for i in instances}
    asked = {*tunables}
    called = {name for record in mapping.instances.values() for name in record.calls or ()}
    for record in mapping.instances.values():
        instance = used.get(record.name)
        if instance is not None:
            _check_names(record, instance, asked)
        elif record.name not in VARIANTS | called and not record.entry:
            _unknown(record, "an instance", record.name, {*used} | VARIANTS)


def _check_names(record: Instance, instance: Resolved, asked: set[tuple[str, str]]) -> None:
    for name in record.tunables:
        if (record.name, name) not in asked and not _mentions(instance.variant, name):
            known = {own for of, own in asked if of == record.name}
            _unknown(record, f"a tunable of `{instance.variant.name}`", name, known, instance)
    for name in record.memories:
        parameters = {*instance.variant.task.privileges}
        if name not in parameters and not _mentions(instance.variant, name):
            what = f"a tensor of `{instance.variant.name}`"
            _unknown(record, what, name, parameters, instance)


def _mentions(variant: Variant, name: str) -> bool:
    """Whether a variant's text has a name: of a tensor that it makes, or a tunable it may ask."""
    return re.search(rf"\b{re.escape(name)}\b", variant.function.source.text) is not None


def _unknown(
    record: Instance, what: str, name: str, known: set[str], instance: Resolved | None = None
) -> None:
    close = get_close_matches(name, known, 1)
    raise BadMapping(
        f"Instance({record.name!r}) says something of `{name}`, which is not {what}",
        span=record.span,
        expected=" or ".join(sorted(known)) if len(known) <= 8 else "a variant's name",
        found=name,
        hint=f"did you mean `{close[0]}`?" if close else None,
        notes=[where(instance)] if instance else [],
    )
