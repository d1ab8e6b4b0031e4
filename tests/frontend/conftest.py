"""Running kernels on NumPy arrays: as written, simplified, and through the text form."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

import numpy as np
import pytest
from xdsl.parser import Parser

import tawa.language as tl
from tawa.frontend import (
    Constant,
    DescriptorArg,
    JITFunction,
    PointerArg,
    lower_to_tile,
    specialize_number,
)
from tawa.language.dtypes import dtype_named
from tawa.simulate.interpret.tile import HostDescriptor, run
from tawa.tile.dialect.ops import tile_context
from tawa.tile.passes.simplify import simplify

_COUNTER = itertools.count()


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
        owners = [v.base if isinstance(v, HostDescriptor) else v for v in values]
        arrays = [a for a in owners if isinstance(a, np.ndarray)]
        before = [np.array(a) for a in arrays]
        run(module, grid, values)
        after = [np.array(a) for a in arrays]
        text = str(module)
        parsed = Parser(tile_context(), text).parse_module()
        assert str(parsed) == text
        simplify(module)
        module.verify()
        for again in (parsed, module):
            for array, start in zip(arrays, before, strict=True):
                array[...] = start
            run(again, grid, values)
            for array, expected in zip(arrays, after, strict=True):
                np.testing.assert_array_equal(array, expected)


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


def define(text: str, name: str = "kernel", **names: Any) -> JITFunction:
    """A kernel from source text, which messages can show."""
    file = f"<kernel {next(_COUNTER)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"tl": tl, "jit": JITFunction, **names}
    exec(compile(text, file, "exec"), namespace)
    found = namespace[name]
    return found if isinstance(found, JITFunction) else JITFunction(found)


@pytest.fixture(name="define")
def define_fixture():
    """Kernels from text: `define(text, **globals)`."""
    return define
