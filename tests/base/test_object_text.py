"""Objects as text: the same again, sharing and cycles too, and nothing but the classes named."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.base.object_text import Unreadable, Unwritable, object_of, text_of


class Colour(Enum):
    RED = "r"
    BLUE = "b"


@dataclass(frozen=True, slots=True)
class Point:
    x: Any
    y: Any = None


@dataclass
class Tree:
    name: str
    children: list[Any] = field(default_factory=list)
    parent: Any = None


class Sub(Tree):
    def __init__(self) -> None:
        raise AssertionError("no constructor is called")


CLASSES = {c.__name__: c for c in (Colour, Point, Tree, Sub)}

ATOMS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text())
KEYS = st.one_of(ATOMS, st.tuples(ATOMS, ATOMS), st.builds(Point, ATOMS, ATOMS))
VALUES = st.recursive(
    st.one_of(ATOMS, st.sampled_from(list(Colour))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner, max_size=4),
        st.frozensets(KEYS, max_size=3),
        st.sets(KEYS, max_size=3),
        st.builds(Point, inner, inner),
        st.builds(Tree, st.text(), st.lists(inner, max_size=3)),
    ),
    max_leaves=12,
)


def again(value: Any) -> Any:
    return object_of(text_of(value, CLASSES), CLASSES)


def same(a: Any, b: Any) -> bool:
    """Equal, and of the same classes all the way down (`1 == True`)."""
    if type(a) is not type(b) or a != b:
        return False
    if isinstance(a, list | tuple):
        return all(map(same, a, b))
    if isinstance(a, dict):
        return all(map(same, a.items(), b.items()))
    if isinstance(a, Point | Tree):
        return all(same(getattr(a, n), getattr(b, n)) for n in a.__dataclass_fields__)
    return isinstance(a, set | frozenset) or repr(a) == repr(b)


@given(VALUES)
def test_values_come_back(value: Any) -> None:
    assert same(again(value), value)


def test_numbers_are_exact() -> None:
    found = again([0.1, -0.0, 1e300, math.inf, -math.inf, 2**200, True, 1, 1.0, "\udc80é"])
    assert repr(found) == repr(
        [0.1, -0.0, 1e300, math.inf, -math.inf, 2**200, True, 1, 1.0, "\udc80é"]
    )
    assert math.isnan(again(math.nan))


def test_sharing_and_cycles() -> None:
    shared = Point(1)
    tree = Tree("root", [shared, shared])
    tree.children.append(Tree("child", parent=tree))
    found = again((tree, {shared: tree}))
    root = found[0]
    assert root.children[0] is root.children[1]
    assert root.children[2].parent is root
    assert found[1][Point(1)] is root


def test_trees_may_be_deep() -> None:
    deep: Any = None
    for _ in range(20_000):
        deep = Point(deep)
    found, depth = again(deep), 0
    while found is not None:
        found, depth = found.x, depth + 1
    assert depth == 20_000


def test_no_constructor_is_called() -> None:
    made = object.__new__(Sub)
    made.__dict__.update(name="x", children=[], parent=None)
    assert again(made).name == "x"


def test_classes_that_are_not_named_are_refused() -> None:
    class Other:
        pass

    with pytest.raises(Unwritable, match="Other"):
        text_of([Other()], CLASSES)
    with pytest.raises(Unwritable, match="function"):
        text_of(again, CLASSES)
    with pytest.raises(Unreadable):
        object_of(text_of(Point(1), CLASSES), {"Tree": Tree})


def test_a_tuple_that_holds_itself_is_refused() -> None:
    inner: list[Any] = []
    whole = (inner,)
    inner.append(whole)
    with pytest.raises(Unwritable, match="itself"):
        text_of(whole, CLASSES)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"null",
        b'{"a": 1}',
        pickle.dumps(Point(1)),
        json.dumps([2, [], [], 5]).encode(),
        json.dumps([1, [["os.system"]], [[0]], [0]]).encode(),
        json.dumps([1, [["Point", "x", "y"]], [[0, 1]], [0]]).encode(),
        json.dumps([1, [["Point", "z"]], [[0, 1]], [0]]).encode(),
        json.dumps([1, [["Colour"]], [["e", 0, "__class__"]], [0]]).encode(),
        json.dumps([1, [], [["l", [7]]], [0]]).encode(),
        json.dumps([1, [], [["d", 1]], [0]]).encode(),
        json.dumps([1, [], [["l"]], [3]]).encode(),
    ],
)
def test_other_texts_are_refused(text: bytes) -> None:
    with pytest.raises(Unreadable):
        object_of(text, CLASSES)
