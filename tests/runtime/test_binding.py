"""Binding calls to parameters, and the kinds of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa.language as tl
from tawa.runtime.arguments import (
    IntegerOutOfRange,
    UnsupportedArgument,
    classify,
    classify_unspecialized,
)
from tawa.runtime.arrays import HOST, NotAnArray, StrideNotWhole, UnsupportedElementType, view
from tawa.runtime.binding import (
    BoundParameter,
    compile_binder,
    compile_namer,
    example_kind,
    selected,
    selector,
    type_kind,
)
from tawa.runtime.kinds import TupleKind, constant_kind, kind_of, spread
from tawa.runtime.launch_errors import BadTypeText

PARAMETERS = (
    BoundParameter("x"),
    BoundParameter("n"),
    BoundParameter("step", specialize=False, has_default=True, default=1),
    BoundParameter("BLOCK", constexpr=True, has_default=True, default=64),
)
bind = compile_binder(PARAMETERS, "add")
X = np.zeros(4, np.float32)


def key(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return bind(*args, **kwargs)[0]


def test_the_same_kinds_have_the_same_key() -> None:
    same = [key(X, 32), key(X, 48), key(n=160, x=np.ones(7, np.float32)), key(X, 32, 7, BLOCK=64)]
    assert len(set(same)) == 1


@pytest.mark.parametrize(
    "other",
    [
        ((X, 33), {}),
        ((X, 1), {}),
        ((X, True), {}),
        ((X, 2**40), {}),
        ((X, 2.0), {}),
        ((X, None), {}),
        ((X.astype(np.float16), 32), {}),
        ((X, 32), {"BLOCK": 128}),
        ((X, 32), {"BLOCK": 64.0}),
        ((X, 32), {"num_stages": 3}),
        ((X, 32), {"device": "simulator"}),
    ],
)
def test_another_kind_constant_or_option_is_another_key(other: Any) -> None:
    args, kwargs = other
    assert key(*args, **kwargs) != key(X, 32)


def test_unspecialised_parameters_only_count_by_type() -> None:
    assert key(X, 32, 1) == key(X, 32, 16) == key(X, 32, 5)
    assert key(X, 32, 5) != key(X, 32, 2**40)


def test_a_stream_is_no_part_of_the_key() -> None:
    found = bind(X, 32, stream=5)
    assert found == (key(X, 32), (X, 32, 1), 5, (X, 32, 1))


def test_a_parameter_may_have_a_reserved_name() -> None:
    own = compile_binder([BoundParameter("stream"), BoundParameter("device")], "k")
    assert own(3, 4)[1:] == ((3, 4), None, (3, 4))


@pytest.mark.parametrize("call", [((), {}), ((X,), {}), ((X, 1, 2, 3, 4), {}), ((X, 1), {"x": X})])
def test_python_s_own_message_for_wrong_arguments(call: Any) -> None:
    args, kwargs = call
    with pytest.raises(TypeError, match=r"add\(\)"):
        bind(*args, **kwargs)


def test_arguments_by_name() -> None:
    named = compile_namer(PARAMETERS, "add")
    found = named(X, n=2, num_stages=4, stream=1, device=None)
    assert found == {"x": X, "n": 2, "step": 1, "BLOCK": 64, "num_stages": 4}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (16, "i32:16"),
        (0, "i32:16"),
        (17, "i32"),
        (1, "i32:1"),
        (-(2**31), "i32:16"),
        (2**31, "i64:16"),
        (2**31 + 1, "i64"),
        (2**63 + 1, "u64"),
        (True, "i1"),
        (0.5, "f32:+"),
        (None, "none"),
        (np.int64(7), "i32"),
        (np.float32(0.5), "f32:+"),
        (-0.5, "f32"),
        (0.0, "f32"),
        (float("inf"), "f32"),
        (np.bool_(True), "i1"),
        (np.zeros(3, np.int8), "*i8:16"),
        (np.zeros(3, bool), "*i1:16"),
    ],
)
def test_kinds(value: Any, text: str) -> None:
    assert classify(value)[0].text == text
    assert classify(value)[0] is classify(value)[0]
    assert classify_unspecialized(value)[0].text == text.partition(":")[0]


def test_parts_of_tuples() -> None:
    array = np.zeros(3, np.int8)
    kind, passed = classify((7, tl.constexpr(8), (array, ()), None))
    given = {name: kind.text for name, kind in spread({"x": kind}).items()}
    assert given == {
        "x.0": "i32",
        "x.1": "constant",
        "x.2.0": "*i8:16",
        "x.2.1": "constant",
        "x.3": "none",
    }
    assert passed == (7, None, (array, None), None)
    assert classify(())[0] is constant_kind(())
    assert classify(())[1] is None


def test_what_kernels_can_t_take() -> None:
    with pytest.raises(UnsupportedArgument, match="str"):
        classify("text")
    with pytest.raises(IntegerOutOfRange):
        classify(2**64)
    with pytest.raises(UnsupportedElementType, match="big-endian float32"):
        view(np.zeros(4, ">f4"))
    with pytest.raises(UnsupportedElementType, match="complex64"):
        view(np.zeros(3, np.complex64))
    with pytest.raises(NotAnArray):
        view(3.0)


class OnlyDLPack:
    """Hides everything of a NumPy array but DLPack."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint16", "int64", "bool"])
def test_all_protocols_describe_an_array_alike(dtype: str) -> None:
    array = np.zeros((6, 8, 4), dtype)[1:, ::2, :3]
    seen = view(array)
    assert seen == view(OnlyDLPack(array))
    assert seen.pointer == array.ctypes.data
    assert seen.shape == (5, 4, 3)
    assert seen.strides == (32, 8, 1)
    assert seen.device == HOST


def test_bfloat16_and_float8_arrays() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name, short in (("bfloat16", "bf16"), ("float8_e4m3fn", "e4m3"), ("float8_e5m2", "e5m2")):
        assert view(np.zeros(4, getattr(ml_dtypes, name))).element_type == short


def test_a_stride_that_is_no_whole_element_is_refused() -> None:
    with pytest.raises(StrideNotWhole):
        view(np.zeros(4, np.dtype([("x", "f4"), ("y", "u1")]))["x"])


@pytest.mark.parametrize(
    ("parameter", "texts"),
    [
        (BoundParameter("n"), ["i32:1", "i32:16", "i32", "*i8:16"]),
        (BoundParameter("n", align=False), ["i32:1", "i32", "i32", "*i8"]),
        (BoundParameter("n", specialize=False), ["i32", "i32", "i32", "*i8"]),
        (BoundParameter("n", specialize=False, align=False), ["i32", "i32", "i32", "*i8"]),
        (BoundParameter("n", declared="i64"), ["i64:=1", "i64:16", "i64", None]),
        (BoundParameter("n", declared="i64", align=False), ["i64", "i64", "i64", None]),
        (BoundParameter("n", declared="i64", specialize=False), ["i64", "i64", "i64", None]),
    ],
)
def test_what_a_parameter_sees_of_its_arguments(
    parameter: BoundParameter, texts: list[str | None]
) -> None:
    """One and multiples of 16 count as its decorator and its annotation say, in every call."""
    values = (1, 32, 7, np.zeros(3, np.int8))
    bound = compile_binder([parameter], "k")
    for value, text in zip(values, texts, strict=True):
        if text is not None:
            assert parameter.classifier(value)[0].text == text
            (kind, *_), passed, *_ = bound(value)
            assert (kind.text, passed[0]) == (text, value)
            assert example_kind("n", value, parameter) is kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("i32", "i32"), ("i32:16", "i32:16"), ("i32:1", "i32:1"), ("i64:=1", "i64:=1"),
        ("f32:+", "f32:+"), ("*f16", "*f16"), ("*f16:16", "*f16:16"), ("bf16", "bf16"),
        ("desc<f16,64x64>", "desc<f16,64x64>"),
    ],
)  # fmt: skip
def test_kinds_that_texts_name(text: str, kind: str) -> None:
    found = type_kind("x", text)
    assert (found.text, found.one) == (kind, text.endswith(":1"))
    parts = example_kind("x", (text, "i1"), None)
    assert isinstance(parts, TupleKind)
    assert parts.parts == (found, kind_of("i1"))


@pytest.mark.parametrize("text", ["f12", "i32:8", "i32:", "i32:=2", "16", "i32:16:16", "", "x*f16"])
def test_texts_that_name_no_kind(text: str) -> None:
    if text == "i32:":
        assert type_kind("x", text) is kind_of("i32")
        return
    with pytest.raises(BadTypeText, match="`x`"):
        type_kind("x", text)


@pytest.mark.parametrize(
    ("numbers", "count", "found"),
    [
        ([0, 1, 2], 3, None), ([], 0, None), ([], 2, ()), ([1], 3, (20,)), ([0], 1, None),
        ([0, 1], 3, (10, 20)), ([2, 0], 3, (30, 10)), ([0, 2, 1], 3, (10, 30, 20)),
    ],
)  # fmt: skip
def test_values_that_are_picked(numbers: list[int], count: int, found: Any) -> None:
    pick = selector(numbers, count)
    assert (pick is None) if found is None else (pick is not None and pick((10, 20, 30)) == found)


def test_parts_of_tuples_are_picked_by_name() -> None:
    """A tuple's parts stand one by one; what is picked of plain arguments costs nothing more."""
    names = ["a", "b.0", "b.1", "c"]
    values = (1, (2, 3), 4)
    every, some = selected(names, names), selected(names, ["c", "b.0"])
    assert every is not None
    assert some is not None
    assert (every(values), some(values)) == ((1, 2, 3, 4), (4, 2))
    assert selected(["a", "b"], ["a", "b"]) is None
    last = selected(["a", "b"], ["b"])
    assert last is not None
    assert last((1, 2)) == (2,)
