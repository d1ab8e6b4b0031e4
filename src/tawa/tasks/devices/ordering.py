"""Proof that a call's work on several devices is ordered wherever it has to be.

Two works that touch the same elements, of which one writes, must not run at once: one has to be
done before the other begins, by the order of their streams and by what streams wait for.
"""

from __future__ import annotations

from collections.abc import Iterator

from tawa.tasks.devices.held import Box, common_box, shown
from tawa.tasks.devices.placing import touches
from tawa.tasks.devices.recipe import Recipe


def conflicts(recipe: Recipe) -> Iterator[str]:
    """Each pair of works that touch the same elements in no order, in words."""
    touched: list[list[tuple[int, Box, bool]]] = [[] for _ in recipe.works]
    for number, array, box, writes in touches(recipe):
        touched[number].append((array, box, writes))
    for later, own in zip(recipe.works, touched, strict=True):
        for earlier in recipe.works[: later.number]:
            if recipe.behind[later.number].get(earlier.stream, -1) >= earlier.number:
                continue
            for array, box, writes in own:
                for other, others, wrote in touched[earlier.number]:
                    common = common_box(box, others) if array == other else None
                    if common is not None and (writes or wrote):
                        yield (
                            f"e{earlier.number} ({earlier.text}) and e{later.number} "
                            f"({later.text}) touch {shown(common)} of array {array}, in no order"
                        )
