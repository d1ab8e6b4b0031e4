"""Copies within a device, taken away: what they copy is made where they would put it.

A device that computes one of several parts which are then read as one box would copy its own part
into the box. The part can lie there from the start, if nobody needs the place before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

from tawa.runtime.arrays import ELEMENT_BYTES
from tawa.runtime.descriptor import ALIGNMENT
from tawa.tasks.devices.held import Box, common_box
from tawa.tasks.devices.recipe import Recipe, Region, Work
from tawa.tasks.language.element_types import type_name

Touches: TypeAlias = list[tuple[int, int, Box, bool]]
"""Work, array, elements, and whether they are written."""


def in_place(recipe: Recipe) -> Recipe:
    """The same work without copies that need not be made."""
    found = next((w for w in recipe.works if w.copies and _needless(recipe, w)), None)
    while found is not None:
        recipe = _without(recipe, found)
        found = next((w for w in recipe.works if w.copies and _needless(recipe, w)), None)
    return recipe


def touches(recipe: Recipe) -> Touches:
    """Everything that works touch."""
    sizes = [*recipe.shapes, *(make.shape for make in recipe.makes)]
    return [
        (work.number, region.array, region.places(sizes[region.array]), writes)
        for work in recipe.works
        for region, writes in zip(work.given, work.writes, strict=True)
        if isinstance(region, Region)
    ]


def _needless(recipe: Recipe, work: Work) -> bool:
    """Whether the source of a copy can be its target: one array of the call's own for another."""
    source: Region = work.given[0]
    target: Region = work.given[1]
    own = len(recipe.shapes)
    if min(source.array, target.array) < own or source.array == target.array:
        return False
    part, whole = recipe.makes[source.array - own], recipe.makes[target.array - own]
    if part.device != whole.device or part.zero or source.shape != part.shape or source.cuts:
        return False
    place = target.places(whole.shape)
    if not _lies_alike(place, whole.shape, ELEMENT_BYTES[type_name(whole.dtype)]):
        return False
    for number, array, box, writes in touches(recipe):
        if array == source.array and writes and number > work.number:
            return False
        meets = array == target.array and common_box(box, place) is not None
        if meets and (number < work.number or (writes and number > work.number)):
            return False
    return True


def _lies_alike(place: Box, shape: Sequence[int], size: int) -> bool:
    """Whether a box is one stretch of its array, and begins where a copy engine may begin."""
    cut = next((d for d, (a, b) in enumerate(place) if b - a > 1), len(shape))
    rest = zip(place[cut + 1 :], shape[cut + 1 :], strict=True)
    if any(found != (0, extent) for found, extent in rest):
        return False
    begin = sum(low * prod(shape[d + 1 :]) for d, (low, _) in enumerate(place))
    return begin * size % ALIGNMENT == 0


def _without(recipe: Recipe, copy: Work) -> Recipe:
    """The work without a copy, whose source is its target from the start."""
    source, target = copy.given
    gone = source.array

    def seen(arg: object) -> object:
        if not isinstance(arg, Region):
            return arg
        if arg.array == gone:
            arg = Region(target.array, arg.shape, (*target.cuts, *arg.cuts))
        return replace(arg, array=arg.array - (arg.array > gone))

    works: list[Work] = []
    for work in recipe.works:
        if work is copy:
            continue
        after = {*work.after}
        if copy.number in after:
            after = (after - {copy.number}) | {*copy.after}
        moved = tuple(sorted(n - (n > copy.number) for n in after))
        given = tuple(seen(arg) for arg in work.given)
        works.append(replace(work, number=len(works), after=moved, given=given))
    makes = [m for n, m in enumerate(recipe.makes) if n + len(recipe.shapes) != gone]
    return Recipe(recipe.shapes, makes, works)
