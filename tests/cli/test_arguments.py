import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.cli.arguments import (
    BadArgumentType,
    BadConstant,
    BadOptionValue,
    NotAnAssignment,
    UnknownOption,
    argument_type,
    assignments,
    constant,
    option_values,
)
from tawa.runtime.arrays import ELEMENT_BYTES
from tawa.runtime.binding import type_kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i32", "i32"),
        ("i32:16", "i32:16"),
        ("fp32", "f32"),
        ("ptr:f16", "*f16"),
        ("*fp16:16", "*f16:16"),
        ("*bf16", "*bf16"),
        ("ptr:fp8e4nv", "*e4m3"),
        ("desc:f16[128,64]", "desc<f16,128x64>"),
        ("desc: f16[1, 128, 64]", "desc<f16,1x128x64>"),
        ("desc<bf16,128x64>", "desc<bf16,128x64>"),
    ],
)
def test_types(text: str, expected: str):
    assert argument_type("a", text) == expected
    assert type_kind("a", expected).text == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "half",
        "desc:f16",
        "ptr:f16[4]",
        "i32[4]",
        "desc:*f16[4]",
        "desc:f16[]",
        "tma:f16",
        "i32:8",
    ],
)
def test_bad_types(text: str):
    with pytest.raises(BadArgumentType, match="argument `a`"):
        argument_type("a", text)


@given(
    st.sampled_from(sorted(ELEMENT_BYTES)), st.lists(st.integers(1, 512), min_size=1, max_size=5)
)
def test_every_descriptor_can_be_written(element: str, extents: list[int]):
    text = f"desc:{element}[{','.join(map(str, extents))}]"
    assert argument_type("a", text) == f"desc<{element},{'x'.join(map(str, extents))}>"


def test_constants():
    assert constant("A", "128") == 128
    assert constant("A", "'gelu'") == "gelu"
    assert constant("A", "(1, 2.5, None)") == (1, 2.5, None)
    with pytest.raises(BadConstant, match="`gelu`"):
        constant("A", "gelu")


def test_assignments():
    assert assignments("--arg", ["a = i32", "b=desc:f16[4,4]"]) == {
        "a": "i32",
        "b": "desc:f16[4,4]",
    }
    with pytest.raises(NotAnAssignment):
        assignments("--arg", ["a"])


def test_options():
    assert option_values({}) == {}
    given = {"num_stages": "4", "persistent": "True", "target": "sm_90a", "consumers": "None"}
    assert option_values(given) == {
        "num_stages": 4,
        "persistent": True,
        "target": "sm_90a",
        "consumers": None,
    }


def test_bad_options():
    with pytest.raises(UnknownOption, match="did you mean `num_stages`"):
        option_values({"num_stage": "4"})
    for name, text in {"num_stages": "True", "persistent": "1", "num_warps": "None"}.items():
        with pytest.raises(BadOptionValue):
            option_values({name: text})
