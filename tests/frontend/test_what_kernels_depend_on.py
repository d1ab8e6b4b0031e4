"""Texts of values that kernels are compiled for, and what is watched of the names that they use."""

from __future__ import annotations

import enum
import itertools
import linecache
import math
import types
from functools import partial
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.frontend.source.dependencies import dependencies_of, described
from tawa.frontend.source.function import JITFunction

_FILES = itertools.count()


def written(text: str, name: str = "kernel", **names: Any) -> Any:
    """A function of a text, with its globals."""
    file = f"<depends {next(_FILES)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"tl": tl, "tawa": tawa, "__name__": "depends", **names}
    exec(compile(text, file, "exec"), space)
    return space[name]


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Plain:
    def __init__(self, **fields: Any) -> None:
        self.__dict__ |= fields

    def scaled(self) -> Any:
        return self.size * 2

    def alone(self) -> int:
        return 7


class Slotted:
    __slots__ = ("one", "two")

    def __init__(self, one: Any) -> None:
        self.one = one


def add(x: int, y: int) -> int:
    return x + y


DIFFERENT: list[Any] = [
    1, 1.0, True, "1", b"1", None, 0.0, -0.0, 0, False, 2, (1,), [1], {1}, frozenset({1}), {1: 1},
    {1: 2}, {2: 1}, (1, 2), (2, 1), ((1,), 2), Colour.RED, Colour.BLUE, tl.float16, tl.float32,
    tl.constexpr(1), tl.constexpr(2), Plain(size=1), Plain(size=2), Plain(other=1), Slotted(1),
    Slotted(2), np.array([1, 2]), np.array([2, 1]), np.array([[1, 2]]), np.array([1.0, 2.0]),
    partial(add, 1), partial(add, 2), partial(add, y=1), Plain, Colour, math, np, tl.cdiv, tl.dot,
    tl.max, int, 1 + 2j,
]  # fmt: skip


def test_values_that_kernels_may_tell_apart_have_different_texts() -> None:
    texts: dict[str, Any] = {}
    for value in DIFFERENT:
        text = described(value)
        assert text not in texts, (value, texts[text])
        texts[text] = value


@pytest.mark.parametrize(
    ("one", "other"),
    [({1, 2, 30, 4}, {30, 4, 2, 1}), (Plain(size=1), Plain(size=1)), (Slotted(3), Slotted(3)),
     (np.arange(3), np.arange(3)), (tl.constexpr(4), tl.constexpr(4)), ([1, (2, 3)], [1, (2, 3)]),
     (partial(add, 1), partial(add, 1)), (tl.pointer_type(tl.int8), tl.pointer_type(tl.int8))],
)  # fmt: skip
def test_equal_values_have_equal_texts(one: Any, other: Any) -> None:
    assert described(one) == described(other)


def test_a_value_in_itself_ends() -> None:
    around = Plain()
    around.itself = around
    assert described(around) == described(around)


def test_what_plain_functions_compute_counts() -> None:
    """By their text, or by their code where they have none."""
    one = written("def f(x):\n    return x + 1\n", "f")
    other = written("def f(x):\n    return x + 2\n", "f")
    assert described(one) != described(other)
    assert described(one) == described(written("def f(x):\n    return x + 1\n", "f"))
    nameless = [eval(f"lambda x: {text}") for text in ("x + 1", "x + 2", "x - 1", "x.real")]
    assert len({described(f) for f in nameless}) == 4
    assert described(nameless[0]) == described(eval("lambda x: x + 1"))
    inner = [eval(f"lambda x: (lambda y: y + {n})(x)") for n in (1, 2)]
    assert described(inner[0]) != described(inner[1]), "constants of functions in functions"


def test_what_nameless_functions_name_counts() -> None:
    space: dict[str, Any] = {"n": 1}
    f = eval("lambda x: x + n", space)
    before = described(f)
    space["n"] = 2
    assert described(f) != before


def test_installed_functions_are_known_by_their_names() -> None:
    assert described(np.broadcast_to) == described(np.broadcast_to)
    assert described(math.floor) != described(math.ceil)
    assert described(itertools.chain) != described(itertools.count)


def test_methods_by_what_they_read() -> None:
    assert described(Plain(size=1).scaled) != described(Plain(size=2).scaled)
    assert described(Plain(size=1, more=1).scaled) == described(Plain(size=1, more=2).scaled)
    assert described(Plain(size=1).alone) == described(Plain(size=2).alone)


TEXT = """
def kernel(x, n: tl.constexpr = 2):
    y = x + N
    for i in range(n):
        y = helper(y, table.rows)
    tl.store(x, y + outer)
"""


class Names:
    """A kernel, what it names, and whether a change is seen."""

    def __init__(self) -> None:
        self.table = types.ModuleType("table")
        self.table.rows, self.table.columns = 3, 4  # type: ignore[attr-defined]
        helper = JITFunction(written("def helper(y, k):\n    return y + k\n", "helper"))
        self.kernel = JITFunction(written(TEXT, N=1, M=1, helper=helper, table=self.table, y=5,
                                          outer=Plain(size=1)))  # fmt: skip
        self.space: dict[str, Any] = self.kernel.fn.__globals__  # type: ignore[attr-defined]
        self.before = dependencies_of(self.kernel)

    def seen(self) -> tuple[bool, bool]:
        """Whether something is said to have changed, and whether the digest differs."""
        changed = not self.before.unchanged()
        self.kernel.__dict__.pop("_dependencies")
        return changed, dependencies_of(self.kernel).digest != self.before.digest


def test_nothing_changed() -> None:
    names = Names()
    assert dependencies_of(names.kernel) is names.before
    assert names.seen() == (False, False)


CHANGES: dict[str, Any] = {
    "a global": lambda n: n.space.update(N=2),
    "an attribute of a module": lambda n: setattr(n.table, "rows", 9),
    "a field of an object": lambda n: setattr(n.space["outer"], "size", 9),
    "a default value": lambda n: setattr(n.kernel.fn, "__defaults__", (3,)),
    "a helper": lambda n: n.space.update(
        helper=JITFunction(written("def helper(y, k):\n    return y - k\n", "helper"))),
    "the type of a global": lambda n: n.space.update(N=1.0),
    "a global that is gone": lambda n: n.space.pop("N"),
    "an attribute that is gone": lambda n: delattr(n.table, "rows"),
}  # fmt: skip
NO_CHANGES: dict[str, Any] = {
    "a global that is not used": lambda n: n.space.update(M=2),
    "an attribute that is not used": lambda n: setattr(n.table, "columns", 9),
    "a global with a variable's name": lambda n: n.space.update(y=9),
    "a new name": lambda n: n.space.update(new=9),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_changes_a_kernel(case: str) -> None:
    names = Names()
    CHANGES[case](names)
    assert names.seen() == (True, True)


@pytest.mark.parametrize("case", NO_CHANGES)
def test_what_does_not_change_a_kernel(case: str) -> None:
    names = Names()
    NO_CHANGES[case](names)
    assert names.seen() == (False, False)


def test_a_name_that_had_no_value_gets_one() -> None:
    kernel = JITFunction(written("def kernel(x):\n    tl.store(x, later)\n"))
    before = dependencies_of(kernel)
    assert before.unchanged()
    kernel.fn.__globals__["later"] = 1  # type: ignore[attr-defined]
    assert not before.unchanged()
    assert dependencies_of(kernel).digest != before.digest


def test_an_attribute_that_was_missing_is_there() -> None:
    table = types.ModuleType("table")
    kernel = JITFunction(written("def kernel(x):\n    tl.store(x, table.late)\n", table=table))
    before = dependencies_of(kernel)
    assert before.unchanged()
    table.late = 1  # type: ignore[attr-defined]
    assert not before.unchanged()


def test_variables_of_the_function_around() -> None:
    text = (
        "def made(n):\n    def kernel(x):\n        tl.store(x, n + later)\n"
        "    def change(m):\n        nonlocal n, later\n        n, later = m, m\n"
        "    if n > 9:\n        later = 1\n    return kernel, change\n"
    )
    fn, change = written(text, "made")(1)
    kernel = JITFunction(fn)
    before = dependencies_of(kernel)
    assert before.unchanged()
    change(2)
    assert not before.unchanged()
    middle = dependencies_of(kernel)
    assert middle.digest != before.digest
    change(2)
    assert middle.unchanged()
    change(3)
    assert not middle.unchanged()


def test_lists_that_are_changed_in_place() -> None:
    sizes = [1, 2]
    both = (sizes, 3)
    kernel = JITFunction(written("def kernel(x):\n    tl.store(x, sizes[0] + both[1])\n",
                                 sizes=sizes, both=both))  # fmt: skip
    before = dependencies_of(kernel)
    assert before.unchanged()
    sizes[0] = 5
    assert not before.unchanged()


def test_compile_time_functions_count_by_their_text() -> None:
    def kernel_with(text: str) -> str:
        host = tl.constexpr_function(written(text, "host"))
        return dependencies_of(
            JITFunction(written("def kernel(x):\n    tl.store(x, host(3))\n", host=host))
        ).digest

    one = kernel_with("def host(n):\n    return n * 2\n")
    assert one != kernel_with("def host(n):\n    return n * 3\n")
