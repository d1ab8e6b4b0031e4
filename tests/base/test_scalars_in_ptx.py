"""Scalar functions' C++ texts, compiled to PTX and interpreted, compute what NumPy says they mean.

They are those of `tawa.ir.scalars.table`, and of conversions in `tawa.ir.scalars.casts`.

Functions that the hardware computes exactly are taken here; all are compared on a device elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.ir import Attribute

from tawa.base.kernel_spec import KernelSpec, PointerParam
from tawa.base.numerics import Array, decode, encode, round_to, storage_dtype
from tawa.base.types import PtrType, bits, i1, is_float, short_name
from tawa.ir.scalars.prelude import ELEMENT_TYPES, prelude
from tawa.ir.scalars.scalar_function import ScalarFunction
from tawa.ir.scalars.table import cases, cpp_type
from tawa.runtime.nvrtc import compile_cuda
from tawa.simulate.ptx.launch import run

THREADS = 64

GROUPS = {
    "from floats": "fptosi fptoui bitcast",
    "from integers": "uitofp sitofp extsi extui trunci",
    "between floats": "truncf extf",
    "integers": "addi subi muli minsi minui maxsi maxui absi andi ori xori mulhui popcount clz ffs "
                "brev select divsi remsi divui remui shli shrsi shrui",
    "orders of integers": "cmpi_eq cmpi_ne cmpi_slt cmpi_ult cmpi_sle cmpi_ule cmpi_sgt cmpi_ugt "
                          "cmpi_sge cmpi_uge",
    "orders of floats": "cmpf_oeq cmpf_une cmpf_one cmpf_ueq cmpf_ord cmpf_uno cmpf_olt cmpf_ult "
                        "cmpf_ole cmpf_ule cmpf_ogt cmpf_ugt cmpf_oge cmpf_uge",
    "floats": "addf subf mulf negf absf maxnumf minnumf maximumf minimumf floor ceil trunc rint",
}  # fmt: skip
FLOATS = [0.0, -0.0, 0.49, 0.5, 1.0, -1.0, 1.5, 2.5, -2.5, -127.9, 128.0, 255.5, -32769.0, 65504.0,
          2.0**31 - 1, 2.0**31, -(2.0**31), 2.0**32, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e30,
          -1e30, np.inf, -np.inf, np.nan, 448.0, 57344.0, 1e-3, -1e-6, 3e-8]  # fmt: skip
INTEGERS = [0, 1, 2, 3, 7, 127, 128, 255, 32767, 32768, 65535, 2**24 + 1, 2**31 - 1, 2**31,
            2**32 - 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]  # fmt: skip


Case = tuple[ScalarFunction, tuple[Attribute, ...], Attribute]


def name(kind: Attribute, function: ScalarFunction, position: int) -> str:
    """Of an array of operands."""
    least = function.name[:3] if position and function.name[:2] in ("sh", "di", "re") else ""
    return f"{short_name(kind)}_{position}{least}"


def operand(kind: Attribute, function: ScalarFunction, position: int) -> Array:
    """Edges, each beside different ones of the operand before it."""
    if kind == i1:
        return (np.arange(THREADS) >> position & 1).astype(np.bool_)
    if is_float(kind):
        found = np.array(FLOATS + [np.nextafter(v, 0) for v in FLOATS])
        return round_to(np.roll(found, 5 * position), kind)
    dtype = storage_dtype(kind)
    found = np.array((INTEGERS + [2**64 - v for v in INTEGERS[1:]]) * 2, object)[:THREADS]
    values = np.array([int(v) % 2 ** bits(kind) for v in np.roll(found, 5 * position)], object)
    if position and function.name.startswith("sh"):
        values = values % bits(kind)
    if position and function.name.startswith(("div", "rem")):
        values = np.array([3 if v in (0, 2 ** bits(kind) - 1) else v for v in values], object)
    return values.astype(f"u{dtype.itemsize}").view(dtype)


def source(chosen: Sequence[Case], inputs: Sequence[tuple[str, Attribute]]) -> str:
    """A kernel that computes an element of every case in every thread."""
    parameters = [f"const {cpp_type(kind)}* {name}" for name, kind in inputs]
    parameters += [f"{cpp_type(result)}* out{n}" for n, (_, _, result) in enumerate(chosen)]
    lines: list[str] = []
    for number, (function, kinds, result) in enumerate(chosen):
        named = (f"{name(kind, function, i)}[threadIdx.x]" for i, kind in enumerate(kinds))
        lines.append(f"out{number}[threadIdx.x] = {function.cuda(kinds, result).format(*named)};")
    body = "\n".join(lines)
    return (
        f'{ELEMENT_TYPES}{prelude([body])}extern "C" __global__ void all({", ".join(parameters)}) '
        f"{{\n{body}\n}}\n"
    )


@pytest.mark.parametrize("group", GROUPS)
def test_ptx_and_numpy_agree(group: str) -> None:
    functions = GROUPS[group].split()
    chosen = [case for case in cases() if case[0].name in functions
              and not any(isinstance(t, PtrType) for t in (*case[1], case[2]))]  # fmt: skip
    values = {name(kind, function, i): (kind, operand(kind, function, i))
              for function, kinds, _ in chosen for i, kind in enumerate(kinds)}  # fmt: skip
    program = source(chosen, [(key, kind) for key, (kind, _) in values.items()])
    ptx = compile_cuda(program, "sm_90a", options=("--device-as-default-execution-space",)).ptx
    memory = [np.ascontiguousarray(encode(value, kind)) for kind, value in values.values()]
    results = [np.zeros(THREADS, storage_dtype(result)) for _, _, result in chosen]
    memory += results
    parameters = tuple(PointerParam(i) for i in range(len(memory)))
    named = tuple(f"x{i}" for i in range(len(memory)))
    run(ptx, KernelSpec("all", THREADS, 0, parameters=parameters, arguments=named), (1,), memory)
    wrong: list[str] = []
    for (function, kinds, result), stored in zip(chosen, results, strict=True):
        arrays = [values[name(kind, function, i)][1] for i, kind in enumerate(kinds)]
        with np.errstate(all="ignore"):
            expected = np.asarray(function.evaluate(kinds, result, *arrays))
        found = decode(stored, result)
        same = (found == expected) | ((found != found) & (expected != expected))
        types = [str(kind) for kind in kinds]
        wrong += [f"{function.name} {types} -> {result}: {[a[at] for a in arrays]}: {found[at]}, "
                  f"not {expected[at]}" for at in np.flatnonzero(~same)]  # fmt: skip
    assert wrong == []
