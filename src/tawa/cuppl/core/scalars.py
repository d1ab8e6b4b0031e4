"""Scalar operations of the core: operand types, LLVM text and CUDA C++ text in one table.

Every float operation here is correctly rounded in IEEE 754 (or exact), and nothing may be
contracted into a fused multiply-add but where `fma` is written, so a program gives the same bits
on every machine.
Transcendental functions are not operations: they are defined once, in `numeric/`, on top of these.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.cuppl.core.ir import Type

__all__ = ["SCALARS", "Scalar"]

F, I, B, R = Type.F64, Type.I64, Type.BOOL, Type.REF  # noqa: E741


@dataclass(frozen=True, slots=True)
class Scalar:
    """One operation.

    `llvm` is a template over `{d}` (the result) and `{0}`, `{1}`, ... (the operands), one
    instruction a line; names that start with `{d}.` are temporaries. `cuda` is an expression.
    """

    operands: tuple[Type, ...]
    result: Type
    llvm: str
    cuda: str


def _float(name: str, symbol: str) -> Scalar:
    return Scalar((F, F), F, f"{{d}} = {name} double {{0}}, {{1}}", f"({{0}} {symbol} {{1}})")


def _integer(name: str, symbol: str) -> Scalar:
    # Unsigned in C++, so that overflow wraps as it does in LLVM.
    text = f"(i64)((u64){{0}} {symbol} (u64){{1}})"
    return Scalar((I, I), I, f"{{d}} = {name} i64 {{0}}, {{1}}", text)


def _compare_float(name: str, symbol: str) -> Scalar:
    return Scalar((F, F), B, f"{{d}} = fcmp {name} double {{0}}, {{1}}", f"({{0}} {symbol} {{1}})")


def _compare_integer(name: str, symbol: str) -> Scalar:
    return Scalar((I, I), B, f"{{d}} = icmp {name} i64 {{0}}, {{1}}", f"({{0}} {symbol} {{1}})")


def _intrinsic(name: str, cuda: str) -> Scalar:
    return Scalar((F,), F, f"{{d}} = call double @llvm.{name}.f64(double {{0}})", cuda + "({0})")


_FLOOR_DIVIDE = """{d}.q = sdiv i64 {0}, {1}
{d}.r = srem i64 {0}, {1}
{d}.x = xor i64 {d}.r, {1}
{d}.n = icmp slt i64 {d}.x, 0
{d}.z = icmp ne i64 {d}.r, 0
{d}.b = and i1 {d}.n, {d}.z
{d}.c = sext i1 {d}.b to i64
{d} = add i64 {d}.q, {d}.c"""

_FLOOR_MODULO = """{d}.r = srem i64 {0}, {1}
{d}.x = xor i64 {d}.r, {1}
{d}.n = icmp slt i64 {d}.x, 0
{d}.z = icmp ne i64 {d}.r, 0
{d}.b = and i1 {d}.n, {d}.z
{d}.c = select i1 {d}.b, i64 {1}, i64 0
{d} = add i64 {d}.r, {d}.c"""

_ADD_OVERFLOWS = """{d}.s = add i64 {0}, {1}
{d}.x = xor i64 {d}.s, {0}
{d}.y = xor i64 {d}.s, {1}
{d}.z = and i64 {d}.x, {d}.y
{d} = icmp slt i64 {d}.z, 0"""

_SUB_OVERFLOWS = """{d}.s = sub i64 {0}, {1}
{d}.x = xor i64 {d}.s, {0}
{d}.y = xor i64 {0}, {1}
{d}.z = and i64 {d}.x, {d}.y
{d} = icmp slt i64 {d}.z, 0"""

# The product of 64 bits is off by a multiple of 2^64, that of floats by less than 2^62 unless it is
# above 2^113, which is far from all products of 64 bits.
_MUL_OVERFLOWS = """{d}.p = mul i64 {0}, {1}
{d}.a = sitofp i64 {0} to double
{d}.b = sitofp i64 {1} to double
{d}.f = fmul double {d}.a, {d}.b
{d}.q = sitofp i64 {d}.p to double
{d}.e = fsub double {d}.f, {d}.q
{d}.m = call double @llvm.fabs.f64(double {d}.e)
{d} = fcmp oge double {d}.m, 4611686018427387904.0"""

SCALARS: dict[str, Scalar] = {
    "addf": _float("fadd", "+"),
    "subf": _float("fsub", "-"),
    "mulf": _float("fmul", "*"),
    "divf": _float("fdiv", "/"),
    "negf": Scalar((F,), F, "{d} = fneg double {0}", "(-{0})"),
    "fma": Scalar(
        (F, F, F),
        F,
        "{d} = call double @llvm.fma.f64(double {0}, double {1}, double {2})",
        "fma({0}, {1}, {2})",
    ),
    "sqrt": _intrinsic("sqrt", "sqrt"),
    "floor": _intrinsic("floor", "floor"),
    "absf": _intrinsic("fabs", "fabs"),
    "addi": _integer("add", "+"),
    "subi": _integer("sub", "-"),
    "muli": _integer("mul", "*"),
    "divi": Scalar((I, I), I, _FLOOR_DIVIDE, "floor_divide({0}, {1})"),
    "modi": Scalar((I, I), I, _FLOOR_MODULO, "floor_modulo({0}, {1})"),
    "add_overflows": Scalar((I, I), B, _ADD_OVERFLOWS, "add_overflows({0}, {1})"),
    "sub_overflows": Scalar((I, I), B, _SUB_OVERFLOWS, "sub_overflows({0}, {1})"),
    "mul_overflows": Scalar((I, I), B, _MUL_OVERFLOWS, "mul_overflows({0}, {1})"),
    "negi": Scalar((I,), I, "{d} = sub i64 0, {0}", "(i64)(-(u64){0})"),
    "andi": _integer("and", "&"),
    "ori": _integer("or", "|"),
    "xori": _integer("xor", "^"),
    "shl": _integer("shl", "<<"),
    "shru": _integer("lshr", ">>"),
    "swap_halves": Scalar(
        (I,),
        I,
        "{d} = call i64 @llvm.fshl.i64(i64 {0}, i64 {0}, i64 32)",
        "(i64)((u64){0} << 32 | (u64){0} >> 32)",
    ),
    "shr": Scalar((I, I), I, "{d} = ashr i64 {0}, {1}", "({0} >> {1})"),
    "eqf": _compare_float("oeq", "=="),
    "nef": _compare_float("une", "!="),
    "ltf": _compare_float("olt", "<"),
    "lef": _compare_float("ole", "<="),
    "gtf": _compare_float("ogt", ">"),
    "gef": _compare_float("oge", ">="),
    "eqi": _compare_integer("eq", "=="),
    "nei": _compare_integer("ne", "!="),
    "lti": _compare_integer("slt", "<"),
    "lei": _compare_integer("sle", "<="),
    "gti": _compare_integer("sgt", ">"),
    "gei": _compare_integer("sge", ">="),
    "not": Scalar((B,), B, "{d} = xor i1 {0}, true", "(!{0})"),
    "and": Scalar((B, B), B, "{d} = and i1 {0}, {1}", "({0} & {1})"),
    "or": Scalar((B, B), B, "{d} = or i1 {0}, {1}", "({0} | {1})"),
    "eqb": Scalar((B, B), B, "{d} = icmp eq i1 {0}, {1}", "({0} == {1})"),
    "float": Scalar((I,), F, "{d} = sitofp i64 {0} to double", "(double){0}"),
    # Saturating, and 0 for NaN: a plain fptosi would be undefined out of range.
    "int": Scalar((F,), I, "{d} = call i64 @llvm.fptosi.sat.i64.f64(double {0})", "truncate({0})"),
    "int_in_range": Scalar((F,), I, "{d} = fptosi double {0} to i64", "(i64){0}"),
    "bits_of": Scalar((F,), I, "{d} = bitcast double {0} to i64", "bits_of({0})"),
    "float_of_bits": Scalar((I,), F, "{d} = bitcast i64 {0} to double", "float_of_bits({0})"),
    "int_of_bool": Scalar((B,), I, "{d} = zext i1 {0} to i64", "(i64){0}"),
    "selectf": Scalar(
        (B, F, F), F, "{d} = select i1 {0}, double {1}, double {2}", "({0} ? {1} : {2})"
    ),
    "selecti": Scalar((B, I, I), I, "{d} = select i1 {0}, i64 {1}, i64 {2}", "({0} ? {1} : {2})"),
}
"""The operations by name."""
