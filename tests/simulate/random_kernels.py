"""Random tile kernels as Python source: loads, dots, elementwise, reductions, loops of all kinds."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import tawa

UNARY = (
    "tl.maximum({0}, 0.0)", "tl.exp({0} * 0.125)", "tl.abs({0})", "({0} * 0.5 + 1.0)",
    "tl.sqrt(tl.abs({0}))", "tl.where({0} > 0.0, {0}, {0} * 0.25)", "tl.sigmoid({0})", "-{0}",
    "tl.minimum({0}, 3.0)", "{0}.to(tl.float16).to(tl.float32)",
)  # fmt: skip
"""Functions of one f32 tile."""

ROWS = (
    "{0} - tl.max({0}, axis=1)[:, None]", "{0} / (1.0 + tl.sum(tl.abs({0}), axis=1))[:, None]",
    "{0} + tl.sum({0}, axis=0)[None, :] * 0.01", "{0} - tl.min({0}, axis=0)[None, :]",
)  # fmt: skip
"""Functions of one f32 tile that mix its elements."""


@dataclass
class RandomKernel:
    """A kernel's source, its options, and how to make its arguments."""

    source: str
    grid: tuple[int, ...]
    make: Callable[[np.random.Generator], dict[str, Any]]
    constants: dict[str, int]
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def load(self, folder: Path) -> Any:
        """The kernel as a module's function; the front end needs a file."""
        path = folder / f"kernel_{next(_NUMBERS)}.py"
        path.write_text(self.source)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.kernel


_NUMBERS = itertools.count()

_HEAD = "import tawa\nimport tawa.language as tl\n\n\n@tawa.jit\ndef kernel({parameters}):\n"


def _chain(draw: Any, name: str, depth: int) -> list[str]:
    """Lines that change an f32 tile in place."""
    forms = st.sampled_from([*UNARY, *ROWS])
    return [f"{name} = {draw(forms).format(name)}" for _ in range(draw(st.integers(0, depth)))]


def _body(lines: list[str]) -> str:
    return "".join(f"    {line}\n" for line in lines)


@st.composite
def options(draw: Any) -> dict[str, Any]:
    """Launch options; what cannot be met is an error that the test allows."""
    found: dict[str, Any] = {}
    for name, values in (
        ("num_stages", (1, 2, 3)), ("mma_depth", (0, 1)), ("consumers", (1, 2)),
        ("persistent", (True,)), ("specialize", (False,)), ("staging", (1, 2)), ("cluster", (2,)),
    ):  # fmt: skip
        if draw(st.integers(0, 2)) == 0:
            found[name] = draw(st.sampled_from(values))
    if found.get("persistent") and found.get("consumers") == 2 and draw(st.booleans()):
        found["ping_pong"] = True
    return found


@st.composite
def products(draw: Any) -> RandomKernel:
    """Sums of products of descriptor loads, one or two loops deep, with an epilogue."""
    bm, bn = draw(st.sampled_from([(64, 64), (128, 64), (64, 128), (128, 128)]))
    bk = draw(st.sampled_from([32, 64]))
    m, n = draw(st.integers(1, 2 * bm)), 8 * draw(st.integers(1, 2 * bn // 8))
    k = 8 * draw(st.integers(1, 4 * bk // 8))
    inner = draw(st.sampled_from(["plain", "nested", "counted"]))
    lines = [
        "m = tl.program_id(0) * BM",
        "n = tl.program_id(1) * BN",
        "acc = tl.zeros((BM, BN), tl.float32)",
    ]
    loop = "for k in range(tl.cdiv(K, BK)):"
    indent = "    "
    if inner == "nested":
        lines.append("for j in range(2):")
        loop, indent = f"    {loop}", "        "
    elif inner == "counted":
        lines.append("tiles = tl.load(count_ptr + tl.program_id(0))")
        loop = "for k in range(tiles):"
    lines += [
        loop,
        f"{indent}a = a_desc.load([m, k * BK])",
        f"{indent}b = b_desc.load([n, k * BK])",
    ]
    if draw(st.integers(0, 3)) == 0:
        lines.append(f"{indent}a = (a.to(tl.float32) * 0.5 + 0.25).to(tl.float16)")
    lines.append(f"{indent}acc = tl.dot(a, b.T, acc)")
    if draw(st.integers(0, 3)) == 0:
        lines.append(f"{indent}acc = acc * 0.75")
    lines += _chain(draw, "acc", 3)
    lines.append("c_desc.store([m, n], acc.to(tl.float16))")
    parameters = "a_desc, b_desc, c_desc, count_ptr, K, BM: tl.constexpr, BN: tl.constexpr, "
    grid = (-(-m // bm), -(-n // bn))

    def make(random: np.random.Generator) -> dict[str, Any]:
        a, b = (random.standard_normal((rows, k)).astype(np.float16) for rows in (m, n))
        c = np.full((m, n), np.nan, np.float16)
        counts = random.integers(0, -(-k // bk) + 1, grid[0]).astype(np.int32)
        describe = tawa.TensorDescriptor.from_tensor
        return {"a_desc": describe(a, [bm, bk]), "b_desc": describe(b, [bn, bk]),
                "c_desc": describe(c, [bm, bn]), "count_ptr": counts, "K": k}  # fmt: skip

    source = _HEAD.format(parameters=parameters + "BK: tl.constexpr") + _body(lines)
    return RandomKernel(source, grid, make, {"BM": bm, "BN": bn, "BK": bk}, draw(options()))


@st.composite
def pointwise(draw: Any) -> RandomKernel:
    """Masked pointer loads, elementwise and row operations, loops that depend on data."""
    rows, columns = draw(st.sampled_from([(4, 64), (16, 32), (32, 128), (1, 256)]))
    height, width = draw(st.integers(1, 2 * rows)), draw(st.integers(1, columns))
    lines = [
        "row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]",
        "column = tl.arange(0, COLUMNS)[None, :]",
        "mask = (row < height) & (column < width)",
        "x = tl.load(x_ptr + row * width + column, mask=mask, other=0.0)",
        "y = x",
    ]
    kind = draw(st.sampled_from(["none", "while", "if", "for"]))
    inside = _chain(draw, "y", 2) or ["y = y * 0.5"]
    if kind == "while":
        lines += ["turns = 0", "while (turns < 3) & (tl.sum(tl.sum(tl.abs(y), 1), 0) > 1.0):"]
        lines += [f"    {line}" for line in (*inside, "y = y * 0.5", "turns += 1")]
    elif kind == "if":
        lines += ["if tl.program_id(0) % 2 == 0:", *(f"    {line}" for line in inside)]
    elif kind == "for":
        lines += ["for i in range(2):", *(f"    {line}" for line in inside)]
    lines += _chain(draw, "y", 3)
    lines.append("tl.store(y_ptr + row * width + column, y, mask=mask)")
    parameters = "x_ptr, y_ptr, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr"

    def make(random: np.random.Generator) -> dict[str, Any]:
        x = random.standard_normal((height, width)).astype(np.float32)
        y = np.full((height, width), np.nan, np.float32)
        return {"x_ptr": x, "y_ptr": y, "height": height, "width": width}

    source = _HEAD.format(parameters=parameters) + _body(lines)
    warps = draw(st.sampled_from([1, 2, 4, 8]))
    grid = (-(-height // rows),)
    constants = {"ROWS": rows, "COLUMNS": columns}
    return RandomKernel(source, grid, make, constants, {"num_warps": warps})


ELEMENTS = {"f32": np.float32, "f16": np.float16, "i32": np.int32}

STEPS = (
    "y = y * 0.5 + 1.0",
    "y = tl.maximum(y, -1.0)",
    "y = tl.where(y > 0.5, y - 0.5, y)",
    "y = y + tl.sum(y, axis=1)[:, None] * 0.01",
    "y = y - tl.max(y, axis=0)[None, :]",
    "y = tl.exp(tl.minimum(y, 2.0) * 0.25)",
    "y = y.to(tl.float16).to(tl.float32)",
    "y = y.to(tl.bfloat16).to(tl.float32)",
    "y = y.to(tl.float8e4nv).to(tl.float32)",
    "y = y.to(tl.float8e5).to(tl.float32)",
    "z = tl.maximum(z, y)",
    "z = z * 0.5 + y",
    "s = s + tl.sum(tl.sum(y, 1), 0) * 0.001",
    "r = r + tl.sum(y, axis=1)",
    "y = y + r[:, None] * 0.01",
    "y = y + s",
    "n = n + 1",
    "y = tl.where(n > 1, y, y + 1.0)",
)
"""Statements on two tiles, a row of sums, a scalar and a counter."""


def _statements(draw: Any, depth: int, indent: str) -> list[str]:
    """Some statements; loops and branches down to a depth."""
    lines: list[str] = []
    kinds = ("step", "step", "step", "for", "while", "if", "masked")
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(kinds if depth else ("step",)))
        if kind == "step":
            lines.append(indent + draw(st.sampled_from(STEPS)))
            continue
        name = f"i{depth}_{len(lines)}"
        inside = _statements(draw, depth - 1, indent + "    ")
        if kind == "for":
            end = draw(st.sampled_from(("2", "count", "3, 0, -1", "pid, 3")))
            lines += [f"{indent}for {name} in range({end}):", *inside]
        elif kind == "while":
            lines += [f"{indent}{name} = 0", f"{indent}while {name} < count:", *inside,
                      f"{indent}    {name} += 1"]  # fmt: skip
        elif kind == "if":
            lines += [f"{indent}if n + pid > 1:", *inside]
            if draw(st.booleans()):
                lines += [f"{indent}else:", *_statements(draw, depth - 1, indent + "    ")]
        else:
            lines += [f"{indent}y = y + tl.load(x_ptr + place, mask=inside & (y > 0.0), other=0.5)"]
    return lines


@st.composite
def programs(draw: Any) -> RandomKernel:
    """Tiles, rows, scalars and counters through any nest of loops and branches."""
    rows, columns = draw(st.sampled_from([(4, 64), (16, 32), (32, 64), (2, 128)]))
    height, width = draw(st.integers(1, 2 * rows)), draw(st.integers(1, columns))
    element = draw(st.sampled_from(sorted(ELEMENTS)))
    lines = [
        "pid = tl.program_id(0)",
        "row = pid * ROWS + tl.arange(0, ROWS)[:, None]",
        "column = tl.arange(0, COLUMNS)[None, :]",
        "inside = (row < height) & (column < width)",
        "place = row * width + column",
        "count = tl.load(count_ptr + pid)",
        "y = tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)",
        "z = y * 0.0", "r = tl.sum(y, axis=1)", "s = pid * 0.5", "n = pid - pid",
        *_statements(draw, 2, ""),
        "out = y + z + r[:, None] * 0.1 + s + n",
        "tl.store(y_ptr + place, out, mask=inside)",
    ]  # fmt: skip
    parameters = "x_ptr, y_ptr, count_ptr, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr"
    grid = (-(-height // rows),)

    def make(random: np.random.Generator) -> dict[str, Any]:
        x = (random.standard_normal((height, width)) * 3).astype(ELEMENTS[element])
        y = np.full((height, width), np.nan, np.float32)
        counts = random.integers(0, 3, grid).astype(np.int32)
        return {"x_ptr": x, "y_ptr": y, "count_ptr": counts, "height": height, "width": width}

    source = _HEAD.format(parameters=parameters) + _body(lines)
    warps = draw(st.sampled_from([1, 2, 4, 8]))
    constants = {"ROWS": rows, "COLUMNS": columns}
    return RandomKernel(source, grid, make, constants, {"num_warps": warps})


@st.composite
def pipelines(draw: Any) -> RandomKernel:
    """Two loops of products in sequence, for and while, whose accumulators meet; fp16 or bf16 out."""
    bm, bn, bk = 64, draw(st.sampled_from([32, 64])), 32
    k = 8 * draw(st.integers(1, 14))
    lines = ["m = tl.program_id(0) * BM", "acc = tl.zeros((BM, BN), tl.float32)"]
    for number in range(draw(st.integers(1, 2))):
        name = f"k{number}"
        loads = [f"a = a_desc.load([m, {name}])", f"b = b_desc.load([0, {name}])"]
        if draw(st.integers(0, 3)) == 0:
            loads.append("a = (a.to(tl.float32) * 0.5).to(tl.float16)")
        loads.append("acc = tl.dot(a, b.T, acc)")
        if draw(st.integers(0, 2)) == 0:
            loads.append(f"acc = {draw(st.sampled_from(UNARY)).format('acc')}")
        if draw(st.booleans()):
            lines.append(f"for {name} in range(0, K, BK):")
        else:
            lines += [f"{name} = 0", f"while {name} < K:"]
            loads.append(f"{name} += BK")
        lines += [f"    {line}" for line in loads]
        lines += _chain(draw, "acc", 1)
    lines.append("c_desc.store([m, 0], acc.to(tl.float16))")
    rows = draw(st.integers(1, 130))

    def make(random: np.random.Generator) -> dict[str, Any]:
        a, b = (random.standard_normal((n, k)).astype(np.float16) for n in (rows, bn))
        c = np.full((rows, bn), np.nan, np.float16)
        describe = tawa.TensorDescriptor.from_tensor
        return {"a_desc": describe(a, [bm, bk]), "b_desc": describe(b, [bn, bk]),
                "c_desc": describe(c, [bm, bn]), "K": k}  # fmt: skip

    parameters = "a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr"
    source = _HEAD.format(parameters=parameters) + _body(lines)
    constants = {"BM": bm, "BN": bn, "BK": bk}
    return RandomKernel(source, (-(-rows // bm),), make, constants, draw(options()))
