"""What functions of scalars are in the tile language.

16-bit floats are computed in f32 from load to store; a `cast` in between rounds as it does
elsewhere. Where NumPy lets NaN through (`maximum`, `max`), so do these.
"""

from __future__ import annotations

TYPES = {
    "f16": "tl.float16", "bf16": "tl.bfloat16", "f32": "tl.float32", "f64": "tl.float64",
    "bool": "tl.int1", "i8": "tl.int8", "i16": "tl.int16", "i32": "tl.int32", "i64": "tl.int64",
    "u8": "tl.uint8", "u16": "tl.uint16", "u32": "tl.uint32", "u64": "tl.uint64",
}  # fmt: skip
"""Types of the tile language, by element type."""

FLOATS = ("f16", "bf16", "f32", "f64")

NAN = "propagate_nan=tl.PropagateNan.ALL"
SIGN = "tl.where({0} > 0, 1, tl.where({0} < 0, -1, {0}))"
TF32_HIGH = "(({0}.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)"
ROUNDED_DOWN = "({0} // {1} - ((({0} % {1}) != 0) & (({0} < 0) != ({1} < 0))).to(TYPE))"

PLAIN = {
    "copy": "{0}", "+": "({0} + {1})", "-": "({0} - {1})", "*": "({0} * {1})",
    ".+": "({0} + {1})", ".-": "({0} - {1})", ".*": "({0} * {1})",
    "==": "({0} == {1})", "!=": "({0} != {1})", "<": "({0} < {1})", "<=": "({0} <= {1})",
    ">": "({0} > {1})", ">=": "({0} >= {1})", "both": "({0} & {1})", "either": "({0} | {1})",
    "not": "(~{0})", "negate": "(-{0})", "abs": "tl.abs({0})", "where": "tl.where({0}, {1}, {2})",
}  # fmt: skip
"""The same for all types."""

OF_FLOATS = {
    "/": "({0} / {1})", "./": "({0} / {1})", "//": "tl.floor({0} / {1})",
    "%": "({0} - tl.floor({0} / {1}) * {1})", "**": "libdevice.pow({0}, {1})",
    "maximum": f"tl.maximum({{0}}, {{1}}, {NAN})", "minimum": f"tl.minimum({{0}}, {{1}}, {NAN})",
    "sign": SIGN, "exp": "tl.exp({0})", "log": "tl.log({0})", "sqrt": "tl.sqrt({0})",
    "rsqrt": "tl.rsqrt({0})", "sin": "tl.sin({0})", "cos": "tl.cos({0})",
    "tanh": "libdevice.tanh({0})", "erf": "tl.erf({0})", "floor": "tl.floor({0})",
    "ceil": "tl.ceil({0})", "sigmoid": "tl.sigmoid({0})",
    "relu": f"tl.maximum({{0}}, 0.0, {NAN})",
    "gelu": "(0.5 * {0} * (1.0 + tl.erf({0} * 0.7071067811865476)))",
    "silu": "({0} * tl.sigmoid({0}))",
    "softplus": f"(tl.maximum({{0}}, 0.0, {NAN}) + tl.log(1.0 + tl.exp(-tl.abs({{0}}))))",
    "tf32_high": TF32_HIGH,
    "tf32_low": f"tl.where(tl.abs({TF32_HIGH}) > 3.4e38, 0.0, {{0}} - {TF32_HIGH})",
}  # fmt: skip

OF_INTEGERS = {
    "/": "({0} // {1})", "./": "({0} // {1})", "//": ROUNDED_DOWN,
    "%": f"({{0}} - {ROUNDED_DOWN} * {{1}})",
    "maximum": "tl.maximum({0}, {1})", "minimum": "tl.minimum({0}, {1})", "sign": SIGN,
    "relu": "tl.maximum({0}, tl.cast(0, TYPE))",
}  # fmt: skip

IDENTITIES = {"sum": "0", "prod": "1", "max": "-INF", "peak": "-INF", "min": "INF"}
EXTREMES = {
    "i8": 2**7, "i16": 2**15, "i32": 2**31, "i64": 2**63, "u8": 2**8, "u16": 2**16, "u32": 2**32,
    "u64": 2**64,
}  # fmt: skip


def computed_in(element: str) -> str:
    """The type in which an element type is computed."""
    return "tl.float32" if element in ("f16", "bf16") else TYPES[element]


def expression(function: str, element: str, operands: list[str]) -> str | None:
    """A function of scalars on operands of an element type; None if there is none."""
    table = PLAIN | (OF_FLOATS if element in FLOATS else OF_INTEGERS)
    template = table.get(function)
    if template is None:
        return None
    return template.replace("TYPE", computed_in(element)).format(*operands)


def cast(operand: str, source: str, target: str) -> str:
    """A number of one element type in another, ready to be computed with."""
    if source == "bool":
        return f"{operand}.to({computed_in(target)})"
    if target == "bool":
        return f"({operand} != 0)"
    rounded = operand if target in ("f32", "f64") else f"{operand}.to({TYPES[target]})"
    return f"{rounded}.to({computed_in(target)})"


def identity(function: str, element: str) -> str:
    """What leaves a reduction as it is."""
    text = IDENTITIES[function]
    if element in FLOATS:
        return {"0": "0.0", "1": "1.0"}.get(text, text.replace("INF", 'float("inf")'))
    if "INF" not in text:
        return text
    top = EXTREMES[element]
    low = 0 if element.startswith("u") else -top
    return str(low if text == "-INF" else top - 1)
