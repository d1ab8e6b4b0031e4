"""What an access asks of the caches is in its instruction, for all widths, scalars too."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate.ptx.launch import run

WIDTHS = ("i8", "i16", "f16", "f32", "i64", "f64")


@tawa.jit
def copies(
    x8, x16, xh, x32, x64, xd, y8, y16, yh, y32, y64, yd, n,
    N: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr, EVICT: tl.constexpr,
):  # fmt: skip
    at = tl.arange(0, N)
    xs, ys = (x8, x16, xh, x32, x64, xd), (y8, y16, yh, y32, y64, yd)
    for i in tl.static_range(6):
        m = at < n
        v = tl.load(xs[i] + at, mask=m, cache_modifier=LOAD, eviction_policy=EVICT)
        tl.store(ys[i] + at, v, mask=m, cache_modifier=STORE, eviction_policy=EVICT)
        last = tl.load(xs[i] + n, cache_modifier=LOAD, eviction_policy=EVICT)
        tl.store(ys[i] + n, last, cache_modifier=STORE, eviction_policy=EVICT)


@pytest.mark.parametrize(
    ("load", "store", "evict", "read", "written"),
    [
        (".cg", ".cs", "", "ld.global.cg", "st.global.cs"),
        (".ca", ".wt", "evict_last", "ld.global.ca", "st.global.wt"),
        ("", "", "evict_first", "ld.global.L1::evict_first", "st.global.L1::evict_first"),
        ("", "", "evict_normal", "ld.global.", "st.global."),
    ],
)
def test_hints_are_in_the_instructions(
    load: str, store: str, evict: str, read: str, written: str
) -> None:
    types = [f"*{width}:16" for width in WIDTHS] * 2
    compiled = copies.compile(*types, "i32:16", 256, load, store, evict, num_warps=1)
    text = str(compiled.stages["ptx"])
    for start, opcode in ((read, r"ld\.global"), (written, r"st\.global")):
        found = re.findall(rf"\b{opcode}[\w.:]*", text)
        assert len(found) >= 12
        assert all(name.startswith(start) for name in found)
    assert ("cache_hint" in text) == (evict == "evict_first")
    arrays: list[Any] = [np.arange(256).astype(_dtype(w)) for w in WIDTHS]
    results = [np.zeros(256, a.dtype) for a in arrays]
    run(text, compiled.spec, (1,), [*arrays, *results, 240])
    for array, result in zip(arrays, results, strict=True):
        np.testing.assert_array_equal(result[:241], array[:241])
        assert not result[241:].any()


def _dtype(width: str) -> str:
    return {"i": "int", "f": "float"}[width[0]] + width[1:]
