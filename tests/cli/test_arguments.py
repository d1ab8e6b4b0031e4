import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType

from tawa.base.options import Options
from tawa.base.types import NAMES, DescType, PtrType, bf16, e4m3, f16, f32, i32
from tawa.cli.arguments import (
    BadArgumentType,
    BadConstant,
    BadOptionValue,
    NotAnAssignment,
    UnknownOption,
    argument_type,
    assignments,
    constant,
    parse_options,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i32", i32),
        ("fp32", f32),
        ("ptr:f16", PtrType(f16)),
        ("*fp16", PtrType(f16)),
        ("*bf16", PtrType(bf16)),
        ("ptr:fp8e4nv", PtrType(e4m3)),
        ("desc:f16[128,64]", DescType(TensorType(f16, [128, 64]))),
        ("desc: f16[1, 128, 64]", DescType(TensorType(f16, [1, 128, 64]))),
    ],
)
def test_types(text: str, expected: object):
    assert argument_type("a", text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "half", "desc:f16", "ptr:f16[4]", "i32[4]", "desc:*f16[4]", "desc:f16[]", "tma:f16"],
)
def test_bad_types(text: str):
    with pytest.raises(BadArgumentType, match="argument `a`"):
        argument_type("a", text)


@given(st.sampled_from(sorted(NAMES)), st.lists(st.integers(1, 512), min_size=1, max_size=5))
def test_every_descriptor_can_be_written(element: str, extents: list[int]):
    text = f"desc:{element}[{','.join(map(str, extents))}]"
    assert argument_type("a", text) == DescType(TensorType(NAMES[element], extents))


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
    assert parse_options({}) == Options()
    made = parse_options({"num_stages": "4", "persistent": "True", "target": "sm_90a"})
    assert made == Options(num_stages=4, persistent=True)
    assert parse_options({"consumers": "2"}, made) == Options(
        num_stages=4, persistent=True, consumers=2
    )
    assert parse_options({"num_stages": "None"}, made).num_stages is None


def test_bad_options():
    with pytest.raises(UnknownOption, match="did you mean `num_stages`"):
        parse_options({"num_stage": "4"})
    for name, text in {"num_stages": "True", "persistent": "1", "num_warps": "None"}.items():
        with pytest.raises(BadOptionValue):
            parse_options({name: text})
