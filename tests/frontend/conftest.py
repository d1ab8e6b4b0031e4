"""Running kernels on NumPy arrays: as written, simplified, and through the text form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.parser import Parser

from tawa.frontend import (
    Constant,
    DescriptorArg,
    JITFunction,
    PointerArg,
    lower_to_tile,
    specialize_number,
)
from tawa.language.dtypes import dtype_named
from tawa.simulate.tile import HostDescriptor, run
from tawa.tile.ops import tile_context
from tawa.tile.simplify import simplify


class Typed:
    """An array in storage form with the name of its element type, such as bf16."""

    def __init__(self, array: np.ndarray, element: str) -> None:
        self.array, self.element = array, element


class Block:
    """A host descriptor: an array and a block shape."""

    def __init__(self, array: np.ndarray, *block_shape: int, element: str = "") -> None:
        self.array, self.block_shape = array, block_shape
        self.element = element or array.dtype.name


def classify(value: Any):
    """(argument type or constant, launch value) of an argument."""
    if isinstance(value, Block):
        kind = DescriptorArg(dtype_named(value.element), value.block_shape)
        return kind, HostDescriptor.of(value.array)
    if isinstance(value, Typed):
        return PointerArg(dtype_named(value.element), 16), value.array
    if isinstance(value, np.ndarray):
        return PointerArg(dtype_named(value.dtype.name), 16), value
    return specialize_number(value), value


class Launcher:
    """Compiles a kernel for arguments and runs it; every form must give the same bytes."""

    def module(self, kernel: Any, args: tuple[Any, ...], constants: dict[str, Any]):
        function = kernel if isinstance(kernel, JITFunction) else JITFunction(kernel)
        names = [n for n in function.arg_names if n not in constants]
        types, values, fixed = [], [], dict(constants)
        for name, value in zip(names, args, strict=False):
            kind, launched = classify(value)
            if isinstance(kind, Constant):
                fixed[name] = kind.value
            else:
                types.append(kind)
                values.append(launched)
        return lower_to_tile(function, types, fixed), values

    def __call__(self, kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
        module, values = self.module(kernel, args, constants)
        arrays = [getattr(v, "base", v) for v in values]
        before = [np.array(a) for a in arrays if isinstance(a, np.ndarray)]
        run(module, grid, values)
        after = [np.array(a) for a in arrays if isinstance(a, np.ndarray)]
        text = str(module)
        parsed = Parser(tile_context(), text).parse_module()
        assert str(parsed) == text
        simplify(module)
        module.verify()
        for again in (parsed, module):
            for array, start in zip(
                (a for a in arrays if isinstance(a, np.ndarray)), before, strict=True
            ):
                array[...] = start
            run(again, grid, values)
            for array, expected in zip(
                (a for a in arrays if isinstance(a, np.ndarray)), after, strict=True
            ):
                np.testing.assert_array_equal(array.view(np.uint8), expected.view(np.uint8))


@pytest.fixture
def launch() -> Launcher:
    """Run a kernel: `launch(kernel, grid, *arguments, **constants)`."""
    return Launcher()


@pytest.fixture
def typed():
    """Arrays of element types that NumPy lacks."""
    return Typed


@pytest.fixture
def block():
    """Host descriptors."""
    return Block
