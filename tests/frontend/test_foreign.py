"""Triton's names and objects, by what they say of themselves: no Triton is needed to find ours."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tawa import language
from tawa.frontend.values.foreign import (
    Missing,
    attribute,
    is_foreign,
    speaks_triton,
    theirs,
    translate,
)
from tawa.language import dtypes, host


def theirs_named(name: str, module: str, kind: str = "object", /, **values: Any) -> Any:
    """An object of a class of this name, that was defined in a module."""
    made = type(kind, (), {"__module__": module})()
    made.__dict__.update({"__name__": name, "__module__": module, **values})
    return made


def constexpr(value: object) -> Any:
    return theirs_named("", "triton.language.core", "constexpr", value=value)


def dtype(name: str) -> Any:
    return theirs_named("", "triton.language.core", "dtype", name=name)


@pytest.mark.parametrize(
    ("value", "foreign"),
    [
        (ModuleType("triton"), True),
        (ModuleType("triton.language.math"), True),
        (ModuleType("tritonic"), False),
        (theirs_named("f", "triton.runtime"), True),
        (theirs_named("f", "tritonic.runtime"), False),
        (theirs_named("f", None), False),  # pyright: ignore
        (dtype("fp16"), True),
        (3, False),
        (len, False),
    ],
)
def test_what_is_tritons(value: Any, foreign: bool) -> None:
    assert is_foreign(value) is foreign


def test_modules_are_ours_of_the_same_name() -> None:
    assert translate(ModuleType("triton.language")) is language
    assert translate(ModuleType("triton.language.math")) is language.math
    assert translate(ModuleType("triton.language.core")) is language
    assert translate(ModuleType("triton.language.extra.cuda")) is language.extra.cuda
    missing = translate(ModuleType("triton.language.nowhere"))
    assert isinstance(missing, Missing)
    assert missing.name == "triton.language.nowhere"


def test_the_module_itself_is_the_installed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    triton = ModuleType("triton")
    monkeypatch.setitem(sys.modules, "triton", triton)
    assert translate(triton) is triton
    monkeypatch.delitem(sys.modules, "triton")
    assert isinstance(translate(triton), Missing)


def test_constants_and_types() -> None:
    assert translate(constexpr(8)) == 8
    assert translate(constexpr(dtype("fp16"))) is language.float16
    assert translate(dtype("int32")) is language.int32
    assert isinstance(translate(dtype("fp3")), Missing)
    pointer = theirs_named("", "triton.language.core", "pointer_type", element_ty=dtype("fp32"))
    assert translate(pointer) == dtypes.pointer_type(language.float32)
    pointer.element_ty = dtype("fp3")
    assert isinstance(translate(pointer), Missing)
    other = theirs_named("exp", "triton.language.math", "constexpr")  # has no value
    assert translate(other) is language.math.exp


@pytest.mark.parametrize(
    ("name", "module", "ours"),
    [
        ("load", "triton.language.core", language.load),
        ("exp", "triton.language.math", language.math.exp),
        ("load", "triton.language.math", language.load),  # of a module around it
        ("cdiv", "triton", host.cdiv),
        ("next_power_of_2", "triton.runtime", host.next_power_of_2),
    ],
)
def test_functions_by_their_name(name: str, module: str, ours: object) -> None:
    assert translate(theirs_named(name, module)) is ours


@pytest.mark.parametrize("module", ["triton", "triton.language.core", "triton.language.nowhere"])
def test_a_function_that_is_not_here(module: str) -> None:
    found = translate(theirs_named("no_such_function", module))
    assert isinstance(found, Missing)
    assert found.name == "no_such_function"


def test_attributes_of_modules() -> None:
    triton = ModuleType("triton")
    assert attribute(triton, "cdiv") is host.cdiv
    assert attribute(triton, "language") is language
    assert isinstance(attribute(triton, "jit"), Missing)
    assert attribute(ModuleType("triton.language"), "load") is language.load
    inside = next(n for n in vars(language.standard) if not hasattr(language, n))
    assert attribute(ModuleType("triton.language"), inside) is getattr(language.standard, inside)
    assert isinstance(attribute(ModuleType("triton.language"), "no_such"), Missing)
    nowhere = attribute(ModuleType("triton.language.nowhere"), "load")
    assert isinstance(nowhere, Missing)
    assert nowhere.name == "triton.language.nowhere"


def test_their_types_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = ModuleType("triton.language")
    fake.dtype = lambda name: f"dtype {name}"  # pyright: ignore
    fake.pointer_type = lambda element: f"pointer to {element}"  # pyright: ignore
    monkeypatch.setitem(sys.modules, "triton.language", fake)
    assert theirs(language.float16) == f"dtype {language.float16.name}"
    assert theirs(dtypes.pointer_type(language.int8)) == "pointer to dtype int8"
    assert theirs(7) == 7


def test_functions_that_speak_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    def speaks() -> object:
        return tl_of_triton.load  # noqa: F821 # pyright: ignore

    def silent() -> object:
        return pytest.raises

    monkeypatch.setitem(speaks.__globals__, "tl_of_triton", ModuleType("triton.language"))
    assert speaks_triton(speaks)
    assert not speaks_triton(silent)
    assert not speaks_triton(SimpleNamespace())
    assert not speaks_triton(len)
