"""Which result types Triton gives: writes `data/triton_types.json`.

Run with Triton installed (it needs no GPU): `python tests/frontend/triton_types.py`. Every
expression is compiled by Triton's own front end for every combination of element types; the table
holds the printed type of the result, or "error". `test_types.py` compares ours with it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent / "data" / "triton_types.json"

TYPES = ["int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
         "fp8e4nv", "fp8e5", "fp16", "bf16", "fp32", "fp64"]  # fmt: skip

TWO = ["a + b", "a - b", "a * b", "a / b", "a // b", "a % b", "a & b", "a | b", "a << b", "a >> b",
       "a < b", "a == b", "tl.maximum(a, b)", "tl.minimum(a, b)", "tl.where(a == a, a, b)",
       "a and b", "tl.fdiv(a, b)", "tl.div_rn(a, b)"]  # fmt: skip

ONE = ["-a", "~a", "not a", "a + 1", "a + 1.5", "1 - a", "a * True", "a / 2", "a / 2.0", "a // 2",
       "a % 3", "a % 2.5", "a & 1", "a >> 1", "a + 100000", "a + 5000000000", "a * -1", "a < 0",
       "a == 1.5", "tl.maximum(a, 0)", "tl.maximum(a, 0.0)", "tl.minimum(a, 1.5)",
       "tl.where(a == a, a, 0)", "tl.where(a == a, a, 0.0)", "tl.where(a == a, 1, 0)",
       "tl.clamp(a, 0.0, 1.0)", "tl.clamp(a, a, a)", "tl.sum(a, 0)", "tl.max(a, 0)", "tl.min(a, 0)",
       "tl.argmax(a, 0)", "tl.max(a, 0, return_indices=True)[0]", "tl.cumsum(a, 0)",
       "tl.cumprod(a, 0)", "tl.xor_sum(a, 0)", "tl.abs(a)", "tl.exp(a)", "tl.sqrt(a)", "tl.floor(a)",
       "tl.sigmoid(a)", "tl.softmax(a)", "tl.cdiv(a, 4)", "a.to(tl.float16)", "a.to(tl.int1)",
       "a.to(tl.float8e5)", "tl.umulhi(a, a)", "tl.full((4,), 1, a.dtype)", "tl.zeros_like(a)",
       "tl.fma(a, a, a)", "a + s", "a * s", "a / s", "tl.maximum(a, s)", "tl.where(a == a, a, s)",
       "s + 1.5", "s * 2", "min(s, 3)", "max(s, a)", "int(s)", "float(s)", "tl.join(a, a)",
       "tl.dot(a.reshape(16, 16), a.reshape(16, 16))",
       "tl.dot(a.reshape(16, 16), a.reshape(16, 16), out_dtype=tl.float16)",
       "tl.rsqrt(a)", "tl.erf(a)", "tl.cos(a)", "tl.log(a)", "tl.exp2(a)", "tl.ceil(a)",
       "tl.load(p)", "p + s", "a - p", "tl.atomic_add(p + tl.arange(0, 256), a)",
       "tl.atomic_max(p, s)", "tl.atomic_xchg(p, s)", "tl.atomic_and(p, s)"]  # fmt: skip

ALL_PAIRS = ("a + b", "a / b", "a // b", "a & b")
"""Expressions tried on all pairs of types; the other ones of two operands on every third."""

PAIRS: dict[str, list[tuple[str, ...]]] = {
    **{e: list(product(TYPES, TYPES))[:: 1 if e in ALL_PAIRS else 3] for e in TWO},
    **{e: [(t,) for t in TYPES] for e in ONE},
}
"""Expression -> the element types to try it on."""


def module_text(header: str) -> str:
    """A module with a kernel `k<i>` for the i-th expression."""
    parts = [header]
    for index, expression in enumerate(PAIRS):
        second = "    b = tl.load(q + tl.arange(0, 256))\n" if expression in TWO else ""
        parameters = "p, q" if expression in TWO else "p, s"
        parts.append(
            f"@jit\ndef k{index}({parameters}):\n    a = tl.load(p + tl.arange(0, 256))\n{second}"
            f"    tl.static_print(({expression}).dtype)\n"
        )
    return "\n\n".join(parts)


def load_module(text: str, folder: Path, name: str) -> Any:
    """Import a module from text, so that its functions have source."""
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def triton_compile(fn: Any, signature: dict[str, str]) -> None:
    """Run Triton's front end."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.compiler import make_backend

    target = GPUTarget("cuda", 90, 32)
    backend = make_backend(target)
    options = backend.parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = ASTSource(fn=fn, signature=signature, constexprs={})
    code = backend.get_codegen_implementation(options)
    source.make_ir(target, options, code, backend.get_module_map(), context)


def main() -> None:
    """Write the table."""
    with tempfile.TemporaryDirectory() as folder:
        header = "import triton.language as tl\nfrom triton import jit"
        module = load_module(module_text(header), Path(folder), "triton_kernels_for_types")
        table: dict[str, dict[str, str]] = {}
        for index, (expression, combinations) in enumerate(PAIRS.items()):
            row = table.setdefault(expression, {})
            for types in combinations:
                names = [t.replace("int", "i").replace("ui", "u") for t in types]
                second = {"q": f"*{names[-1]}"} if len(types) == 2 else {"s": names[0]}
                out = io.StringIO()
                try:
                    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                        triton_compile(
                            getattr(module, f"k{index}"), {"p": f"*{names[0]}", **second}
                        )
                    row[",".join(types)] = out.getvalue().strip()
                except Exception:
                    row[",".join(types)] = "error"
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(json.dumps(table, indent=0) + "\n")


if __name__ == "__main__":
    main()
