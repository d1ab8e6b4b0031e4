"""Frequent mistakes in Axon programs, and what to write instead."""

from __future__ import annotations

from tawa.functional.slips import Slip

KEPT = "a reduction drops its axis; `expand{-1}` adds one of size 1 behind"
"""What to write in the place of `keepdims`."""

AXON_SLIPS = (
    Slip(r"\bkeepdims?\s*=\s*", r"true\b", KEPT),
    Slip(
        r"\A", r"[\w./\\-]+\.ax\s*\Z",
        "this is a path, not a program: pass it as a `pathlib.Path`",
    ),
    Slip(
        r"\b\w+\s*\(\s*\w+\s*", r"=(?!=)",
        "static arguments stand in braces, right behind the function: `sum{axis = 1} x`",
    ),
    Slip(
        r"\b(axis|keepdims|dim|stride|pad|dilation)\s*", r"=(?!=)",
        "static arguments stand in braces, right behind the function: `sum{axis = 1} x`",
    ),
    Slip(
        r"\blet\s+\w+\s*", r"\{",
        "only a `def` has static parameters; a local function may use those around it",
    ),
    Slip(r"\{\s*\w+\s*", r":", "static arguments are written `{axis = 1}`"),
    Slip(
        r"\{[^}\n]*\b(dim|shape|len|size)\s*", r"[\[{(\w]",
        "a static argument is a size or a number: name sizes, `(x: f32[b, n])`, and write `n`",
    ),
    Slip(
        r"\b(einsum|rearrange)\s*\{[^}\n]*", r"[\w']",
        'a pattern is a string: `einsum{"a b -> b a"}`',
    ),
    Slip(
        r"\[[^\]\n]*", r":",
        "parts are taken by `slice{start, stop, axis = 0} x`, rows by `x.[i]`",
    ),
    Slip(r"\{[^}\n]*", r"\w", "a comma stands between static arguments, `}` behind the last"),
    Slip(r"\[[^\]\n]*", r";", "commas stand between sizes"),
    Slip(r"\bwhere\b[^\n]*", r"=(?!=)", "names are bound before their use: `let w = 3 in value`"),
    Slip(r"@", r"@", "the product of matrices is one `@`"),
)  # fmt: skip
