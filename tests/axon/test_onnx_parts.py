"""What splits and slices of ONNX models leave: as short as it can be said, and soon."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import onnx
import pytest
from tests.axon.test_onnx_sound import at, constant, model_of, node, shapes_of, value
from tests.work import calls_made

from tawa.axon.onnx.graph import ModelInference
from tawa.axon.onnx.shapes import ModelShapes

FRONT, END = -(2**62), 2**62
"""Bounds of slices far outside."""

PLACES = (FRONT, -5, -3, -2, -1, 0, 1, 2, 4, END)


def split(count: int, of: str = "x", to: str = "y") -> onnx.NodeProto:
    return node("Split", [of], [f"{to}{i}" for i in range(count)], num_outputs=count)


def sliced(*bounds: tuple[int, int, int]) -> ModelShapes:
    """A vector of N numbers, sliced once by each of some bounds: starts, stops and steps."""
    nodes: list[onnx.NodeProto] = []
    known = [constant("row", [0])]
    for i, numbers in enumerate(bounds):
        names = [f"{name}{i}" for name in ("start", "stop", "step")]
        known += [constant(name, [number]) for name, number in zip(names, numbers, strict=True)]
        start, stop, step = names
        nodes.append(
            node("Slice", [f"y{i}" if i else "x", start, stop, "row", step], [f"y{i + 1}"])
        )
    return shapes_of(model_of(nodes, [value("x", ["N"])], tuple(known)))


def left_by(size: int, start: int, stop: int, step: int) -> int:
    """What the specification says a slice leaves: a start before the front begins there."""
    first, last = (place + size if place < 0 else place for place in (start, stop))
    if step > 0:
        return len(range(min(max(first, 0), size), min(max(last, 0), size), step))
    return len(range(min(max(first, 0), size - 1), min(max(last, -1), size - 1), step))


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2, -3])
def test_slices_of_numbers_leave_what_the_specification_says(step: int):
    for start in PLACES:
        for stop in PLACES if step > 0 else PLACES[:-1]:
            of = start, stop, step
            shapes = sliced(of, of)
            for size in range(9):
                once = left_by(size, *of) if size else 0
                assert at(shapes, "y1", N=size) == (once,), of
                assert at(shapes, "y2", N=size) == (left_by(once, *of) if once else 0,), of


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ((1, -1, 1), "[max(0, N - 6)]"),
        ((2, -3, 2), "[max(0, ((N + 4)//8) - 4)]"),
        ((1, END, 3), "[((N + 13)//27)]"),
        ((-2, FRONT, -1), "[max(N - 3, min(N, 1))]"),
        ((-2, FRONT, -2), "[max((N//8), min(N, 1))]"),
        ((-1, -5, -2), "[min(((N + 7)//8), 1)]"),
    ],
)
def test_slices_of_slices_are_said_as_one(bounds: tuple[int, int, int], said: str):
    assert sliced(bounds, bounds, bounds).text("y3") == said


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_parts_are_the_whole_again_once_they_are_joined(count: int):
    parts = [f"y{i}" for i in range(count)]
    nodes = [split(count), node("Concat", parts, ["z"], axis=0),
             node("Concat", parts[1:], ["rest"], axis=0), node("Add", ["x", "z"], ["sum"])]  # fmt: skip
    shapes = shapes_of(model_of(nodes, [value("x", ["N"])]))
    assert shapes.text("z") == shapes.text("sum") == "[N]"
    assert not shapes.requirements()
    for size in range(20):
        each = -(-size // count)
        for i, name in enumerate(parts):
            assert at(shapes, name, N=size) == (min(each, max(size - each * i, 0)),)
        assert at(shapes, "rest", N=size) == (size - each,)


def test_parts_of_which_something_is_known_are_said_so():
    """Of 4 * N + 2 in 4, the first two are as large; all of 3 * N in 3."""
    nodes = [node("Concat", [*["x"] * 4, "two"], ["more"], axis=0), split(4, "more"),
             node("Concat", ["x"] * 3, ["three"], axis=0), split(3, "three", "z")]  # fmt: skip
    shapes = shapes_of(model_of(nodes, [value("x", ["N"])], (constant("two", [1, 1], np.float32),)))
    assert [shapes.text(f"z{i}") for i in range(3)] == ["[N]"] * 3
    assert [shapes.text(f"y{i}") for i in range(2)] == ["[N + 1]"] * 2


@pytest.mark.parametrize(
    ("nodes", "most"),
    [
        ([("Split", ["@"], {"num_outputs": 7, "axis": 2})], 3_000),
        (
            [
                ("Split", ["@"], {"num_outputs": 4, "axis": 2}),
                ("Concat", ["%0", "%1", "%2", "%3"], {"axis": 2}),
            ],
            2_200,
        ),
        ([("Split", ["@"], {"num_outputs": 3, "axis": 2}), ("Relu", ["%1"], {})], 1_500),
        ([("Split", ["@"], {"num_outputs": 2, "axis": 2}), ("Relu", ["%1"], {})], 1_400),
        ([("Slice", ["@", "before", "front", "row", "last"], {})], 2_500),
        ([("Slice", ["@", "one", "last", "row", "three"], {})], 1_900),
        ([("Slice", ["@", "last", "far", "row", "before"], {})], 2_400),
        ([("Slice", ["@", "ones", "lasts", "axes"], {})], 2_800),
    ],
    ids=[
        "seven parts",
        "parts, joined",
        "the second of three",
        "the second of two",
        "from the last but one",
        "every third within",
        "backward from the last",
        "within two axes",
    ],
)
def test_parts_take_little_work_late_in_a_chain(
    nodes: list[tuple[str, list[str], dict[str, Any]]], most: int
):
    made: list[onnx.NodeProto] = []
    last = "x"
    for round_ in range(40 // len(nodes)):
        names = {"@": last}
        for op, others, attributes in nodes:
            outputs = [f"{op}{round_}_{k}" for k in range(attributes.get("num_outputs", 1))]
            made.append(node(op, [names.get(name, name) for name in others], outputs, **attributes))
            names.update({f"%{k}": name for k, name in enumerate(outputs)})
            last = outputs[0]
    numbers = {"one": [1], "row": [2], "last": [-1], "before": [-2], "far": [-5], "three": [3],
               "front": [-(2**63)], "ones": [1, 1], "lasts": [-1, -1], "axes": [2, 3]}  # fmt: skip
    used = {name for one in made for name in one.input}
    known = tuple(constant(name, given) for name, given in numbers.items() if name in used)
    walk = ModelInference(model_of(made, [value("x", ["B", 4, "H", "W"])], known), strict=True)
    gc.collect()  # what other tests left would be counted
    assert calls_made(walk.run) < most * len(made)
