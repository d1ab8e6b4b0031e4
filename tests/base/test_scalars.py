"""Every scalar function compiles for sm_90a for every legal type, and means what it says."""

from __future__ import annotations

import numpy as np
import pytest
from cuda.core import Program, ProgramOptions

from tawa.base.indices import reciprocal
from tawa.base.types import NAMES, f32, f64
from tawa.ir.scalars.prelude import ELEMENT_TYPES, PRELUDE, prelude
from tawa.ir.scalars.special_functions import UNARY
from tawa.ir.scalars.table import FUNCTIONS, cases, cpp_constant, cpp_type
from tawa.runtime import sass


def compile_cuda(source: str) -> bytes:
    options = ProgramOptions(arch="sm_90a", std="c++17", device_as_default_execution_space=True)
    return Program(source, "c++", options).compile("cubin").code


def program(selected: list[str]) -> str:
    functions: list[str] = []
    for number, (function, operands, result) in enumerate(cases()):
        if function.name not in selected:
            continue
        names = [f"x{i}" for i in range(len(operands))]
        parameters = ", ".join(f"{cpp_type(t)}* p{i}" for i, t in enumerate(operands))
        loads = " ".join(f"{cpp_type(t)} x{i} = p{i}[0];" for i, t in enumerate(operands))
        text = function.cuda(operands, result).format(*names)
        functions.append(
            f"// {function.name}\n"
            f'extern "C" __global__ void k{number}({parameters}, {cpp_type(result)}* out) {{\n'
            f"  {loads}\n"
            f"  static_assert(same<decltype({text}), {cpp_type(result)}>::value, "
            f'"{function.name}: {cpp_type(operands[0])}");\n'
            f"  out[0] = {text};\n}}\n"
        )
    same = (
        "template <class T> struct bare { using type = T; };\n"
        "template <class T> struct bare<T&> { using type = T; };\n"
        "template <class T, class U> struct equal { static const bool value = false; };\n"
        "template <class T> struct equal<T, T> { static const bool value = true; };\n"
        "template <class T, class U> struct same : equal<typename bare<T>::type, U> {};\n"
    )
    return ELEMENT_TYPES + prelude(functions) + same + "".join(functions)


@pytest.mark.parametrize("part", range(4))
def test_every_text_compiles_and_has_its_type(part: int) -> None:
    """NVRTC accepts each function for each legal combination; the text has the result's type."""
    assert compile_cuda(program(sorted(FUNCTIONS)[part::4]))


def test_prelude_prints_each_definition_once_after_what_it_needs() -> None:
    text = prelude(["sigmoid(x) + sigmoid(y)"])
    assert text.count("f32 sigmoid") == 1
    assert text.index("ex2_approx(f32") < text.index("exp_approx(f32") < text.index("f32 sigmoid")
    assert "from_float" not in text
    assert prelude(["a + b"]) == ""
    assert set(PRELUDE) >= {"to_float", "from_float", "bit_cast"}


@pytest.mark.parametrize("name", NAMES)
def test_constants_compile(name: str) -> None:
    values = {"i1": [0, 1], "i8": [-128, 127]}.get(name, [0, 1, 100])
    if name in ("i32", "i64"):
        values += [-(2 ** (int(name[1:]) - 1)), 2 ** (int(name[1:]) - 1) - 1]
    if name[0] in "fbe":
        values = [0.0, -1.5, float("inf"), float("-inf"), float("nan"), 1e-3, 100.0]
    texts = [cpp_constant(value, NAMES[name]) for value in values]
    body = "".join(
        f"  out[{i}] = {text};\n  static_assert(sizeof({text}) == sizeof({name}));\n"
        for i, text in enumerate(texts)
    )
    kernel = f'extern "C" __global__ void k({name}* out) {{\n{body}}}\n'
    assert compile_cuda(ELEMENT_TYPES + prelude(texts) + kernel)


def test_quotients_by_reciprocals_are_exact() -> None:
    """Whatever the divisor: the ends of its range, powers of two and their neighbours, and others."""
    i32, i64, last = NAMES["i32"], NAMES["i64"], 2**31 - 1
    random = np.random.default_rng(0)
    divisors = {1, last, *random.integers(1, 2**31, 50).tolist()}
    divisors |= {(1 << k) + near for k in range(1, 31) for near in (-1, 0, 1)} - {0}
    for divisor in divisors:
        near = [k * divisor + off for k in (1, 2, last // divisor) for off in (-1, 0, 1)]
        numbers = [n for n in [0, last, *near, *random.integers(0, 2**31, 20)] if 0 <= n <= last]
        found = FUNCTIONS["quotient"].evaluate(
            [i32, i64], i32, np.array(numbers, np.int32), np.array(reciprocal(divisor), np.int64)
        )
        assert found.tolist() == [n // divisor for n in numbers], divisor


def test_special_functions_mean_what_scipy_says() -> None:
    """At normal numbers, poles and halves; Python's `math` is what some of them are made of."""
    scipy = pytest.importorskip("scipy.special")
    references = {
        "erfc": scipy.erfc, "erfinv": scipy.erfinv, "lgamma": scipy.gammaln, "normcdf": scipy.ndtr,
        "tgamma": scipy.gamma, "exp10": scipy.exp10, "j0": scipy.j0, "j1": scipy.j1,
        "cyl_bessel_i0": scipy.i0, "cyl_bessel_i1": scipy.i1,
        "sinpi": lambda x: np.sin(np.pi * x), "cospi": lambda x: np.cos(np.pi * x),
        "rcbrt": lambda x: 1 / np.cbrt(x), "logb": lambda x: np.floor(np.log2(np.abs(x))),
        "y0": scipy.y0, "y1": scipy.y1, "erfcx": scipy.erfcx, "erfcinv": scipy.erfcinv,
        "normcdfinv": scipy.ndtri,
    }  # fmt: skip
    assert references.keys() == UNARY.keys()
    f64, random = NAMES["f64"], np.random.default_rng(0)
    x = np.concatenate([random.standard_normal(50) * 3, random.uniform(-1, 1, 50), [1, -1, 2.5]])
    for name, reference in references.items():
        found = FUNCTIONS[name].evaluate([f64], f64, x)
        with np.errstate(all="ignore"):
            expected = reference(x)
        np.testing.assert_allclose(found, expected, 1e-9, 1e-12, err_msg=name)


@pytest.mark.parametrize(("name", "fused"), [("mulf", 1), ("mulf_rn", 0)])
def test_rounded_products_are_not_fused(name: str, fused: int) -> None:
    f32 = NAMES["f32"]
    product = FUNCTIONS[name].cuda([f32, f32], f32).format("p[0]", "p[1]")
    text = f'extern "C" __global__ void k(f32* p) {{ p[0] = {product} + p[2]; }}\n'
    assert sass.disassemble(compile_cuda(ELEMENT_TYPES + text))["k"].count("FFMA") == fused


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("exp", -90.0, 0.0), ("exp", -87.0, np.exp(-87.0)), ("exp2", -127.0, 0.0),
        ("exp2", -126.0, 2.0**-126), ("sigmoid", -88.0, 0.0), ("recip", 2.0**-127, np.inf),
        ("recip", -(2.0**127), -0.0),
    ],
)  # fmt: skip
def test_fast_functions_take_denormals_for_zeros(name: str, value: float, expected: float) -> None:
    found = FUNCTIONS[name].evaluate([f32], f32, np.float32(value))
    assert found == pytest.approx(expected, rel=1e-6)
    assert np.signbit(found) == np.signbit(expected)


def test_exponentials_of_f64_keep_denormals() -> None:
    assert FUNCTIONS["exp"].evaluate([f64], f64, np.float64(-720.0)) == np.exp(-720.0)


def test_bits_of_words() -> None:
    i32, x = NAMES["i32"], np.array([0, 1, -1, 0xF0, -(2**31)], np.int32)
    found = {name: FUNCTIONS[name].evaluate([i32], i32, x).tolist() for name in ("clz", "ffs")}
    assert found == {"clz": [32, 31, 0, 24, 0], "ffs": [0, 1, 1, 5, 32]}
    assert FUNCTIONS["brev"].evaluate([i32], i32, x).tolist() == [0, -(2**31), -1, 15 << 24, 1]


def test_integer_division_truncates() -> None:
    i32 = NAMES["i32"]
    x = np.array([-7, 7, -7, 7, 5], dtype=np.int32)
    y = np.array([2, -2, -2, 2, 0], dtype=np.int32)
    quotient = FUNCTIONS["divsi"].evaluate([i32, i32], i32, x, y)
    remainder = FUNCTIONS["remsi"].evaluate([i32, i32], i32, x, y)
    assert quotient.tolist() == [-3, -3, 3, 3, -1]
    assert remainder.tolist() == [-1, 1, -1, 1, 5]
