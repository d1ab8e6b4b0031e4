"""How elements are printed, and what assertions of a kernel say on the device."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import bf16, f16, f32, f64, i1, i8, i16, i32, i64

import tawa
import tawa.language as tl
from tawa.base.types import PtrType
from tawa.driver.compilation import Compilation
from tawa.frontend import lower_to_tile, parse_argument
from tawa.hopper.dialect.debug import _shown
from tawa.hopper.emit import emit
from tawa.simulate.interpret import hopper


@pytest.mark.parametrize(
    ("element", "form", "text"),
    [
        (i1, "%d", "int(x)"), (i8, "%d", "int(x)"), (i16, "%d", "int(x)"), (i32, "%d", "int(x)"),
        (i64, "%lld", "x"), (f32, "%g", "double(x)"), (f64, "%g", "double(x)"),
        (PtrType(f32), "%p", "(const void*)(x)"),
    ],
)  # fmt: skip
def test_elements_as_printf_takes_them(element: Any, form: str, text: str) -> None:
    assert _shown(element, "x") == (form, text)


@pytest.mark.parametrize("element", [f16, bf16])
def test_halves_become_floats_first(element: Any) -> None:
    form, text = _shown(element, "x")
    assert form == "%g"
    assert text.startswith("double(")
    assert text != "double(x)"


@tawa.jit
def told(x, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.device_print("n 5%", n)
    tl.device_print("v", v)
    tl.device_print("t", tl.reshape(v, (2, N // 2)))
    tl.device_print("here")
    tl.device_assert(v > 0, "positive")
    tl.device_assert(n > 0, 'all "well"')


def test_what_a_kernel_says_on_the_device() -> None:
    """The threads that hold an element first print it, with its place; all check theirs."""
    request = told.request("*f32", "i32", 64, num_warps=1)
    work = Compilation(request.options)
    module = lower_to_tile(told, [parse_argument(t) for t in request.types.values()], {"N": 64})
    for level in ("tile", "aref", "hopper"):
        module = work.level(level, module)
    text = emit(module)
    said = re.findall(r'printf\((".*?(?<!\\)"), blockIdx.x, blockIdx.y, blockIdx.z(.*)\);', text)
    program = '"program (%d, %d, %d) '
    assert [form for form, _ in said] == [
        program + 'n 5%% %d\\n"', program + 'element (%d) v %g\\n"',
        program + 'element (%d, %d) t %g\\n"', program + 'here\\n"',
    ]  # fmt: skip
    assert said[0][1].endswith("int(v_0[i])")
    assert [values.count(", ") for _, values in said] == [1, 2, 3, 0]
    assert "if (lane / 1 % 32 == 0) {" in text
    assert "if (thread == 0) {" in text
    failed = re.findall(
        r'if \(!(\w+)\[i\]\) __assertfail\((.*), "(.*)", (\d+), "kernel", 1\);', text
    )
    first = told.fn.__code__.co_firstlineno
    assert [(message, int(line) - first) for _, message, _, line in failed] == [
        ('"positive"', 8), ('"all \\"well\\""', 9),
    ]  # fmt: skip
    assert {file for _, _, file, _ in failed} == {__file__}


def test_the_simulator_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = told.compile("*f32", "i32", 4, num_warps=1)
    hopper.run(compiled.module("hopper"), (1,), [np.arange(1, 5, dtype=np.float32), 7])
    said = capsys.readouterr().out.splitlines()
    assert sum(" n 5% 7" in line or "n 5% 7" in line for line in said) == 1
    assert sum("element (3,) v 4.0" in line for line in said) == 1
    assert sum("element (1, 0) t 3.0" in line for line in said) == 1
    assert sum("here" in line for line in said) == 1
    assert len(said) == 1 + 4 + 4 + 1
    with pytest.raises(tawa.TawaError, match="positive") as caught:
        hopper.run(compiled.module("hopper"), (1,), [np.array([1, 2, 0, 3], np.float32), 7])
    assert "2" in caught.value.render()
