"""The scalar functions' C++ texts compute on the GPU what their NumPy meanings say."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from cuda.bindings import driver
from cuda.core import Program, ProgramOptions

from tawa.base.numerics import decode, encode, round_to, storage_dtype
from tawa.base.types import PtrType, f32, f64, i1, is_float
from tawa.ir.scalars.prelude import ELEMENT_TYPES, prelude
from tawa.ir.scalars.special_functions import UNARY
from tawa.ir.scalars.table import cases, cpp_type

# Functions that the hardware approximates, with the relative error that is allowed in f32. In
# f64 all but these are held to 1e-12, and types below 32 bits to one unit in the last place.
OF_ORDER = {"jn", "yn"}  # of small ones: recurrences take as many steps
APPROXIMATE = {
    "divf", "fma", "exp", "exp2", "exp_gradual", "exp2_gradual", "sqrt", "rsqrt", "sigmoid",
    "tanh_approx", "erf", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "cbrt", "pow", "atan2", "hypot", *UNARY, "rhypot",
    *OF_ORDER,
}  # fmt: skip
LOOSE = {"tanh_approx": 1e-3}
# A gross approximation, of the upper words alone (PTX ISA: rcp.approx.ftz.f64).
GROSS = {"rcp64h": 2.0**-19}
# Functions of which the hardware's result is at most one unit in the last place off, whatever the
# operand, and zero below the least normal number of f32 (PTX ISA: rcp.approx.ftz). In f64 exact.
ONE_UNIT = {"recip"}
LEAST_NORMAL = 2.0**-126
DIGITS = {"f8E4M3FN": 2**-3, "f8E5M2": 2**-2, "bf16": 2**-7, "f16": 2**-10}
DIVISIONS = {"divsi", "divui", "remsi", "remui"}  # by zero: undefined in C++
SHIFTS = {"shli", "shrsi", "shrui"}  # by the width or more: undefined in C++
PARTS = 4
N = 1024

CASES = [case for case in cases() if not any(isinstance(t, PtrType) for t in case[1])]


def inputs(function, operands, seed):
    """Values of the operands: edges and random ones; moderate ones for approximations."""
    generator = np.random.default_rng(seed)
    arrays = []
    for position, kind in enumerate(operands):
        if kind == i1:
            arrays.append(generator.integers(0, 2, N).astype(np.bool_))
        elif is_float(kind):
            values = generator.standard_normal(N) * generator.choice([0.01, 1, 100], N)
            if function.name in APPROXIMATE:
                values = generator.uniform(0.05, 0.95, N) + (function.name == "acosh")
            else:
                edges = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 448, 65504, 3e9, -3e9, 0.5, 1.5]
                if function.name in ONE_UNIT:
                    values *= 2.0 ** generator.uniform(-110, 110, N)
                    edges += [LEAST_NORMAL, 2.0**126, 2.0**127, -3e38]
                values = np.where(generator.random(N) < 0.3, generator.choice(edges, N), values)
            arrays.append(round_to(values, kind))
        else:
            arrays.append(_integers(function, position, kind, generator))
    return arrays


def _integers(function, position, kind, generator):
    dtype = storage_dtype(kind)
    limits = np.iinfo(dtype)
    if position == 1 and function.name in SHIFTS:
        return generator.integers(0, dtype.itemsize * 8, N).astype(dtype)
    values = generator.integers(limits.min, limits.max, N, dtype, endpoint=True)
    small = generator.integers(-9, 10, N).astype(dtype)
    values = np.where(generator.random(N) < 0.5, small, values)
    if function.name in OF_ORDER:
        return abs(small)
    if position == 1 and function.name in DIVISIONS:
        values = np.where((values == 0) | (values == -1), 3, values).astype(dtype)
    return values


def program(numbered) -> str:
    kernels = []
    for number, (function, operands, result) in numbered:
        types = [cpp_type(t) for t in operands]
        parameters = ", ".join(f"const {t}* p{i}" for i, t in enumerate(types))
        text = function.cuda(operands, result).format(*(f"x{i}" for i in range(len(types))))
        loads = " ".join(f"{t} x{i} = p{i}[at];" for i, t in enumerate(types))
        kernels.append(
            f'extern "C" __global__ void k{number}({parameters}, {cpp_type(result)}* out) {{\n'
            f"  u32 at = blockIdx.x * blockDim.x + threadIdx.x;\n  {loads}\n"
            f"  out[at] = {text};\n}}\n"
        )
    return ELEMENT_TYPES + prelude(kernels) + "".join(kernels)


def compile_part(part: int) -> bytes:
    numbered = list(enumerate(CASES))[part::PARTS]
    options = ProgramOptions(arch="sm_90a", std="c++17", device_as_default_execution_space=True)
    return Program(program(numbered), "c++", options).compile("cubin").code


def check(result):
    status, *values = result
    assert status == driver.CUresult.CUDA_SUCCESS, status
    return values[0] if len(values) == 1 else values


def launch(module, number: int, arrays, out):
    """Run kernel `k<number>` over N elements."""
    function = check(driver.cuModuleGetFunction(module, f"k{number}".encode()))
    buffers = [*arrays, out]
    pointers = [check(driver.cuMemAlloc(a.nbytes)) for a in buffers]
    try:
        for pointer, array in zip(pointers, buffers, strict=True):
            check(driver.cuMemcpyHtoD(pointer, array.ctypes.data, array.nbytes))
        types = (ctypes.c_void_p,) * len(pointers)
        arguments = (tuple(int(p) for p in pointers), types)
        check(driver.cuLaunchKernel(function, N // 128, 1, 1, 128, 1, 1, 0, 0, arguments, 0))
        check(driver.cuCtxSynchronize())
        check(driver.cuMemcpyDtoH(out.ctypes.data, pointers[-1], out.nbytes))
    finally:
        for pointer in pointers:
            check(driver.cuMemFree(pointer))


def agrees(function, result, found, expected) -> bool:
    """Whether values agree: exactly, or within the function's error."""
    if function.name in GROSS:
        exact = (found == expected) | (np.isnan(found) & np.isnan(expected))
        with np.errstate(invalid="ignore"):
            near = np.abs(found - expected) <= GROSS[function.name] * np.abs(expected)
        return bool(np.all(exact | (near & np.isfinite(expected))))
    if function.name in ONE_UNIT and result != f64:
        return _within_one_unit(DIGITS.get(str(result), 2**-23), found, expected)
    if function.name not in APPROXIMATE:
        equal_nan = is_float(result)
        return bool(np.array_equal(found, expected, equal_nan=equal_nan))
    tolerance = DIGITS.get(str(result), LOOSE.get(function.name, 4e-6))
    if result == f64:
        tolerance = 1e-12
    wide = expected.astype(np.float64)
    error = np.abs(found.astype(np.float64) - wide)
    return bool(np.all(error <= tolerance * np.abs(wide) + tolerance * 1e-2))


def _within_one_unit(unit, found, expected) -> bool:
    """Whether all values are those expected but for `unit` of them, or zero instead of tiny."""
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    exact = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        near = np.abs(found - expected) <= unit * np.abs(expected)
    flushed = (np.abs(expected) < LEAST_NORMAL) & (found == 0)
    return bool(np.all(exact | (near & np.isfinite(expected)) | flushed))


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(PARTS))
def test_device_and_numpy_agree(part):
    check(driver.cuInit(0))
    context = check(driver.cuDevicePrimaryCtxRetain(0))
    check(driver.cuCtxSetCurrent(context))
    module = check(driver.cuModuleLoadData(compile_part(part)))
    wrong = []
    for number, (function, operands, result) in list(enumerate(CASES))[part::PARTS]:
        arrays = inputs(function, operands, number)
        expected = function.evaluate(operands, result, *arrays)
        stored = [np.ascontiguousarray(encode(a, t)) for a, t in zip(arrays, operands, strict=True)]
        out = np.zeros(N, storage_dtype(result))
        launch(module, number, stored, out)
        if not agrees(function, result, decode(out, result), expected):
            wrong.append(f"{function.name} {[str(t) for t in operands]} -> {result}")
    check(driver.cuModuleUnload(module))
    assert wrong == []


def test_the_programs_compile():
    """Without a GPU: the kernels of one part, and the inputs of all cases."""
    assert compile_part(0)
    for number, (function, operands, result) in enumerate(CASES):
        arrays = inputs(function, operands, number)
        expected = function.evaluate(operands, result, *arrays)
        assert agrees(function, result, expected, expected)


@pytest.mark.parametrize("name", sorted(ONE_UNIT))
def test_one_unit_is_no_more_than_that(name):
    """Without a GPU: errors of one unit pass, of two, of infinities and of signs don't."""
    function, operands, result = next(c for c in CASES if c[0].name == name and c[2] == f32)
    (values,) = inputs(function, operands, 0)
    expected = function.evaluate(operands, result, values)
    finite = np.flatnonzero(np.isfinite(expected) & (np.abs(expected) > LEAST_NORMAL))[0]
    infinite = np.flatnonzero(np.isinf(expected))[0]

    def with_value(at, value):
        changed = expected.copy()
        changed[at] = value
        return agrees(function, result, changed, expected)

    assert with_value(finite, np.nextafter(expected[finite], np.float32(np.inf)))
    assert not with_value(finite, expected[finite] * np.float32(1 + 2**-21))
    assert not with_value(finite, 0)
    assert not with_value(infinite, np.finfo(np.float32).max)
    assert not with_value(infinite, -expected[infinite])
