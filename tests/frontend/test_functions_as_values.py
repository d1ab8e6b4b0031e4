"""Functions as values: their text, parameters, names, and what is around them."""

from __future__ import annotations

import inspect
import linecache
from types import SimpleNamespace
from typing import Any

import pytest

import tawa.language as tl
from tawa.frontend.source.function import (
    TAKEN,
    JITFunction,
    Namespace,
    NoSource,
    is_constexpr_annotation,
    is_jit_function,
    jit_function,
    python_function,
    taken_text,
)


def written(text: str, name: str = "kernel", **names: Any) -> Any:
    """A function of a file that nobody wrote, as a notebook's are."""
    file = f"<written {written.count}>"
    written.count += 1
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"tl": tl, **names}
    exec(compile(text, file, "exec"), space)
    return space[name]


written.count = 0


class Around:
    """What Triton's decorator makes: the function, and the lines that it took, if any."""

    def __init__(self, fn: Any, **taken: Any) -> None:
        self.fn = fn
        self.__dict__ |= taken


PLAIN = "\n\ndef kernel(x, y, n: tl.constexpr = 4):\n    pass\n"


def test_the_source_is_the_functions_own_lines() -> None:
    found = JITFunction(written(PLAIN + "\ndef after(): pass\n")).source
    assert found.text == "def kernel(x, y, n: tl.constexpr = 4):\n    pass\n"
    assert (found.first_line, found.indent, found.is_ascii) == (3, 0, True)
    assert found.tree.name == "kernel"
    nested = "if True:\n    def kernel(x):\n        'Größe'\n"
    found = JITFunction(written(nested)).source
    assert (found.first_line, found.indent, found.is_ascii) == (2, 4, False)
    assert found.text.startswith("def kernel(x):\n    ")


def test_lines_that_triton_took_are_those_from_the_first_on() -> None:
    fn = written(PLAIN)
    lines = ["def kernel(x, y, n):\n", "    return x\n"]
    around = Around(Around(fn, raw_src=lines, starting_line_number=9))
    found = JITFunction(around)
    assert found.source.first_line == 9
    assert found.source.text == "".join(lines)
    assert taken_text(around) is taken_text(fn), "taken once"


@pytest.mark.parametrize(
    "taken", [{"raw_src": "def", "starting_line_number": 1}, {"raw_src": ["def kernel(): pass\n"]}]
)
def test_what_is_no_list_of_lines_is_not_taken(taken: dict[str, Any]) -> None:
    assert JITFunction(Around(written(PLAIN), **taken)).source.first_line == 3


def test_the_text_is_that_of_the_first_decoration() -> None:
    fn = written(PLAIN)
    first = JITFunction(fn)
    linecache.cache[fn.__code__.co_filename] = (1, None, ["changed\n"], "")
    assert JITFunction(fn).source.text == first.source.text
    other = written(PLAIN.replace("pass", "return"))
    fn.__code__ = other.__code__
    assert "return" in JITFunction(fn).source.text, "another code has another text"
    assert getattr(fn, TAKEN).code is other.__code__


def names_of(signature: str, **arguments: Any) -> JITFunction:
    return JITFunction(written(f"def kernel({signature}):\n    pass\n", **arguments))


def test_parameters() -> None:
    found = names_of("x, n: tl.constexpr, *, m: 'tl.constexpr' = 3, k: int = None")
    assert found.arg_names == ["x", "n", "m", "k"]
    assert found.constexpr_names == ("n", "m")
    assert [p.has_default for p in found.parameters] == [False, False, True, True]
    assert found.parameters[2].default == 3


def test_defaults_are_those_of_now() -> None:
    found = names_of("x=1, *, y=2")
    before = found.signature
    assert found.signature is before
    found.fn.__defaults__ = (5,)
    assert found.signature.parameters["x"].default == 5
    middle = found.signature
    found.fn.__kwdefaults__ = {"y": 7}
    assert found.signature.parameters["y"].default == 7
    assert found.signature is not middle


@pytest.mark.parametrize(
    ("annotation", "is_one"),
    [(tl.constexpr, True), ("tl.constexpr", True), ("constexpr", True), ("'constexpr'", True),
     ("tl.const", False), ("constexpr.tl", False), (int, False), (inspect.Parameter.empty, False),
     (SimpleNamespace(__name__="constexpr"), True), (SimpleNamespace(__name__="other"), False)],
)  # fmt: skip
def test_which_annotations_are_constexpr(annotation: Any, is_one: bool) -> None:
    assert is_constexpr_annotation(annotation) is is_one


def test_names_are_read_when_they_are_asked_for() -> None:
    text = (
        "COUNT: tl.constexpr = 4\nOTHER: int = 5\n"
        "def outer(a):\n    def kernel():\n        return a, later, COUNT\n"
        "    if a:\n        return kernel\n    later = 1\n    return kernel\n"
        "def made(a):\n    return outer(a)\n"
    )
    make = written(text, "made")
    space = Namespace(make(0))
    assert (space["a"], space["later"], space["OTHER"]) == (0, 1, 5)
    assert isinstance(space["COUNT"], tl.constexpr)
    assert space["COUNT"].value == 4
    assert not isinstance(space["OTHER"], tl.constexpr)
    assert {"a", "later", "COUNT", "made"} <= set(space)
    assert len(space) == len(list(space)) == len({*space})
    without = Namespace(make(2))
    assert without["a"] == 2
    for name in ("later", "nothing"):
        with pytest.raises(KeyError):
            without[name]


def test_objects_around_functions() -> None:
    fn = written(PLAIN)
    around = Around(Around(fn))
    assert python_function(around) is python_function(fn) is fn
    own = JITFunction(fn)
    assert jit_function(own) is own
    assert isinstance(jit_function(around), JITFunction)
    assert jit_function(around).fn is fn
    assert is_jit_function(Around(fn))
    assert is_jit_function(own)
    assert not is_jit_function(fn)
    assert not is_jit_function(Around)
    assert not is_jit_function(3)


@pytest.mark.parametrize("value", [3, Around, SimpleNamespace(fn=None), print])
def test_what_has_no_function_inside(value: Any) -> None:
    with pytest.raises(NoSource, match="can't be a kernel"):
        python_function(value)


def _changed(text: str) -> Any:
    """A function whose file has another text by now than what was run."""
    fn = written(PLAIN)
    linecache.cache[fn.__code__.co_filename] = (1, None, text.splitlines(keepends=True), "")
    return fn


WRONG = {
    "another name": ("\n\ndef other(x, y, n):\n    pass\n", "changed while"),
    "another parameter": ("\n\ndef kernel(x, z, n):\n    pass\n", "changed while"),
    "no function": ("\n\nkernel = 3\n", "is not a `def`"),
    "no text": ("", "can't be read"),
    "not Python": ("\n\ndef kernel(x, y n):\n    pass\n", "can't be read"),
}


@pytest.mark.parametrize("case", WRONG)
def test_sources_that_are_not_the_functions(case: str) -> None:
    text, message = WRONG[case]
    with pytest.raises(NoSource, match=message):
        _ = JITFunction(_changed(text)).source


def test_more_sources_that_are_refused() -> None:
    fn = written(PLAIN)
    fn.__wrapped__ = print
    with pytest.raises(NoSource, match="wrapped by another decorator"):
        _ = JITFunction(fn).source
    space: dict[str, Any] = {}
    exec("def kernel(x): pass", space)
    with pytest.raises(NoSource, match="can't be read"):
        _ = JITFunction(space["kernel"]).source


@pytest.mark.parametrize("signature", ["x, /, y", "x, *, y", "x, y=1"])
def test_parameters_of_every_kind_fit_their_code(signature: str) -> None:
    assert names_of(signature).source.tree.name == "kernel"


def test_names_that_a_class_renames_fit() -> None:
    text = "class Scope:\n    def kernel(__x):\n        pass\nkernel = Scope.kernel\n"
    assert JITFunction(written(text)).source.indent == 4
