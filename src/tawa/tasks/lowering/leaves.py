"""Leaves by themselves: a tile program that loads tiles, calls a leaf, and stores its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import tawa.language as tl
from tawa.driver.inspection.tile_programs import run_tile_module, tile_module, whole
from tawa.driver.jit import Kernel
from tawa.tasks.language.element_types import language_name, number_type, type_name
from tawa.tasks.language.privileges import OPERATORS
from tawa.tasks.language.task import Variant
from tawa.tasks.lowering.generated import function_of


def tile_of(value: Any, shape: Any, dtype: Any, message: Any) -> Any:
    """What a leaf returns, as the type of what it is written to; its shape has to be the same."""
    tl.static_assert(value.shape == shape, message)
    return tl.cast(value, dtype)


def call_text(leaf: str, args: Sequence[str], outs: Sequence[Out]) -> list[str]:
    """Lines that call a leaf and take its results, one for each of the task's writes."""
    call = f"{leaf}({', '.join(args)})"
    if len(outs) == 1:
        return [f"{outs[0].name} = {outs[0].taken(call, leaf)}"]
    given = [f"{out.name}_of_leaf" if out.operator else out.name for out in outs]
    taken = (f"{o.name} = {o.taken(g, leaf)}" for o, g in zip(outs, given, strict=True))
    return [f"{', '.join(given)} = {call}", *taken]


TILE_OF = Kernel(tile_of)


@dataclass(frozen=True)
class Out:
    """A tile that a leaf writes: the variable that it goes to, and its parameter."""

    name: str
    parameter: str
    shape: tuple[int, ...]
    dtype: Any
    operator: str | None = None
    """Of a reduction: how what the leaf returns is combined into the tile `onto`."""
    onto: str = ""

    def taken(self, value: str, leaf: str) -> str:
        """A value of this tile's shape and type."""
        shape = " x ".join(map(str, self.shape))
        wrong = f"{leaf} returns a tile of another shape than `{self.parameter}`, {shape}"
        kind = f"{list(self.shape)}, tl.{language_name(self.dtype)}"
        found = f"tile_of({value}, {kind}, {wrong!r})"
        if self.operator is None:
            return found
        return OPERATORS[self.operator][0].format(self.onto, found)


def unread(shape: Sequence[int], dtype: Any) -> str:
    """A tile in place of one that is only written: the leaf asks for its shape and type alone."""
    return f"tl.zeros({list(shape)}, tl.{language_name(dtype)})"


def evaluate(leaf: Variant, args: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """A leaf's results for tiles (NumPy arrays) and numbers; `types` are those of the tiles."""
    module = module_of(leaf, args, types)
    task = leaf.task
    results: list[Any] = []
    given: list[Any] = []
    for name, arg in zip(task.parameters, args, strict=True):
        if _is_tile(arg):
            if task.privileges[name].reads:
                given.append(whole(np.ascontiguousarray(arg)))
        elif _runs(arg) and not leaf.is_constant(task.parameters.index(name)):
            given.append(arg)
    for name in task.writes:
        tile = args[task.parameters.index(name)]
        results.append(np.empty(tile.shape, tile.dtype))
        given.append(whole(results[-1]))
    run_tile_module(module, 1, given)
    return results


def module_of(leaf: Variant, args: Sequence[Any], types: Sequence[Any]) -> Any:
    """The tile program that loads a leaf's tiles from descriptors, and stores its results."""
    shapes: tuple[Any, ...] = tuple(a.shape if _is_tile(a) else None for a in args)
    runs = [_runs(a) and not leaf.is_constant(place) for place, a in enumerate(args)]
    fixed = tuple(None if _is_tile(a) or run else a for a, run in zip(args, runs, strict=True))
    kinds: tuple[Any, ...] = tuple(
        number_type(a) if run else None for a, run in zip(args, runs, strict=True)
    )
    return _module(leaf, shapes, tuple(types), fixed, kinds)


def _is_tile(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _runs(value: Any) -> bool:
    """Whether a number is passed when the program runs; others are compiled in."""
    return isinstance(value, int | float) and not isinstance(value, bool)


@cache
def _module(
    leaf: Variant, shapes: tuple[Any, ...], types: tuple[Any, ...], fixed: tuple[Any, ...],
    kinds: tuple[Any, ...],
) -> Any:  # fmt: skip
    task, signature, lines, args = leaf.task, dict[str, str](), list[str](), list[str]()
    for name, shape, dtype, value, kind in zip(
        task.parameters, shapes, types, fixed, kinds, strict=True
    ):
        if shape is None:
            args.append(name if kind else repr(value))
            if kind:
                signature[name] = kind
        elif task.privileges[name].reads:
            signature[f"{name}_in"] = _descriptor(shape, dtype)
            lines.append(f"{name} = {name}_in.load({[0] * len(shape)})")
            args.append(name if task.privileges[name].sees else unread(shape, dtype))
        else:
            args.append(unread(shape, dtype))
    places = [(name, task.parameters.index(name)) for name in task.writes]
    outs = [
        Out(f"{n}_new", n, shapes[place], types[place], task.privileges[n].operator, n)
        for n, place in places
    ]
    lines += call_text(leaf.name, args, outs)
    for name, place in places:
        signature[f"{name}_out"] = _descriptor(shapes[place], types[place])
        lines.append(f"{name}_out.store({[0] * len(shapes[place])}, {name}_new)")
    text = "".join(f"    {line}\n" for line in lines)
    text = f"def {leaf.name}_alone({', '.join(signature)}):\n{text}"
    fn = function_of(f"{leaf.name}_alone", text, {leaf.name: leaf.function, "tile_of": TILE_OF})
    return tile_module(Kernel(fn), signature, copied=False)


def _descriptor(shape: Sequence[int], dtype: Any) -> str:
    return f"desc<{type_name(dtype)},{'x'.join(map(str, shape))}>"
