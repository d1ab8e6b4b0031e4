"""Result types agree with Triton's for every expression and combination of element types.

`data/triton_types.json` was written by `triton_types.py` from Triton 3.6.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tawa.base.errors import TawaError
from tawa.frontend import JITFunction, PointerArg, ScalarArg, lower_to_tile
from tawa.language.dtypes import DTYPES

HERE = Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("triton_types", HERE / "triton_types.py")
TABLES = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(TABLES)
EXPECTED = json.loads(TABLES.TABLE.read_text())

# Programs that Triton rejects and this compiler accepts on purpose, with what they give.
MORE = {
    "int(s)": lambda t: "int32",
    "float(s)": lambda t: "fp32",
    "a.to(tl.int1)": lambda t: "int1",
    "a.to(tl.float8e5)": lambda t: "fp8e5",
    # Triton wants depth 32 of 8-bit operands.
    "tl.dot(a.reshape(16, 16), a.reshape(16, 16))": lambda t: "int32" if t == "int8" else "fp32",
    "tl.dot(a.reshape(16, 16), a.reshape(16, 16), out_dtype=tl.float16)": lambda t: (
        "int32" if t == "int8" else "fp16"
    ),
}
# Programs that Triton accepts and this compiler rejects on purpose.
LESS = {
    ("tl.atomic_and(p, s)", "fp32"),  # bitwise operations on floats
    ("tl.atomic_and(p, s)", "fp64"),
}


def may_differ(expression: str, key: str, found: str, expected: str) -> bool:
    """Whether Triton rejects, or only its front end takes, what this compiler computes in f32."""
    if expression in MORE and expected == "error":
        return found in ("error", MORE[expression](key))
    if (expression, key) in LESS:
        return found == "error"
    if "fp8" in key and expected == "error":
        return True  # most arithmetic of fp8 with other types
    integers = "tl.clamp(a, a, a)", "tl.fdiv(a, b)"
    if expression in integers and expected == "error":
        return found in (*key.split(","), "fp32", "fp64")
    return "fp8" in key and any(symbol in expression for symbol in "/%") and found == "fp32"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    header = "import tawa.language as tl\nfrom tawa.frontend import JITFunction as jit"
    folder = tmp_path_factory.mktemp("kernels")
    return TABLES.load_module(TABLES.module_text(header), folder, "tawa_kernels_for_types")


def result_type(kernel: JITFunction, types: tuple[str, ...], capsys) -> str:
    first = PointerArg(DTYPES[types[0]])
    second = PointerArg(DTYPES[types[1]]) if len(types) == 2 else ScalarArg(DTYPES[types[0]])
    try:
        lower_to_tile(kernel, [first, second], {})
    except TawaError:
        capsys.readouterr()
        return "error"
    return capsys.readouterr().out.strip()


@pytest.mark.parametrize("index", range(len(TABLES.PAIRS)), ids=list(TABLES.PAIRS))
def test_result_types_are_triton_s(kernels, index, capsys):
    expression, combinations = list(TABLES.PAIRS.items())[index]
    wrong = {}
    for types in combinations:
        key = ",".join(types)
        expected = EXPECTED[expression][key]
        found = result_type(getattr(kernels, f"k{index}"), types, capsys)
        if found != expected and not may_differ(expression, key, found, expected):
            wrong[key] = (found, expected)
    assert not wrong, f"(found, Triton's): {wrong}"
