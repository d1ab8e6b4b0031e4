"""Every name of the language is documented and means something to the front end."""

from __future__ import annotations

import inspect

import pytest

import tawa.language as tl
from tawa.frontend import lower
from tawa.frontend.source.registry import LOWERINGS
from tawa.language import core, libdevice, math, standard
from tawa.language.builtin import Builtin, Composite, LanguageFunction, OutsideKernel
from tawa.language.extra import cuda

MODULES = (tl, core, math, standard, cuda, libdevice)
FUNCTIONS = {
    f"{module.__name__}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, LanguageFunction)
}


def test_every_builtin_has_a_meaning():
    assert lower.MEANINGS
    builtins = {name for name, f in FUNCTIONS.items() if isinstance(f, Builtin)}
    assert len(builtins) > 100
    assert {name for name in builtins if FUNCTIONS[name] not in LOWERINGS} == set()


def test_every_function_is_documented_and_shows_its_signature():
    assert {name for name, f in FUNCTIONS.items() if not (f.__doc__ or "").strip()} == set()
    assert "axis" in str(inspect.signature(tl.sum))
    assert repr(tl.sum) == "<tl.sum(input, ...)>"
    assert repr(tl.program_id) == "<tl.program_id(axis)>"


@pytest.mark.parametrize("function", [tl.zeros, tl.cdiv, tl.libdevice.tanh], ids=lambda f: f.name)
def test_functions_have_no_meaning_outside_kernels(function):
    assert isinstance(function, Builtin | Composite)
    with pytest.raises(OutsideKernel, match="outside a kernel"):
        function(1, 2)


def test_constexpr_objects_compute():
    size = tl.constexpr(64)
    assert isinstance(size // 3, tl.constexpr)
    assert (size // 3).value == 21
    assert (2 * size + 1).value == 129
    assert (-size).value == -64
    assert bool(size == 64)
    assert list(range(tl.constexpr(3))) == [0, 1, 2]
    assert tl.constexpr((4, 8))[1] == 8


def test_dtypes_are_found_under_any_spelling():
    from tawa.language.dtypes import dtype_named

    for spellings in (("fp16", "f16", "float16"), ("uint8", "u8"), ("int1", "bool", "i1"),
                      ("fp8e4nv", "float8_e4m3fn", "e4m3"), ("bf16", "bfloat16")):  # fmt: skip
        assert len({dtype_named(s) for s in spellings}) == 1
    assert repr(tl.float16) == "tl.float16"
    assert str(tl.float16) == "fp16"
    assert tl.uint32.integer_range() == (0, 2**32 - 1)


def test_host_functions():
    assert tl.next_power_of_2(1) == 1
    assert tl.next_power_of_2(65) == 128
