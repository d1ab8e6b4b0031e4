"""Statements that a kernel cannot have: each is refused, by what kind of error and in what words."""

from __future__ import annotations

import pytest

from tawa.base.errors import TawaError
from tawa.frontend import lower_to_tile, parse_argument

HEAD = """def kernel(p, h, n, m):
    i = tl.arange(0, 16)
    x = tl.load(p + i)
    t = tl.reshape(x, (4, 4))
"""
TYPES = ("*f32", "*f16", "i32", "i32")

REFUSED: dict[str, dict[str, str]] = {
    "BadArgument": {
        "for k in tl.range(0, n, row_ends=n):\n    pass": "for each row",
        "for k in tl.range(0, n, row_ends=3):\n    pass": "for each row",
        "for k in tl.range(0, n, row_ends=x):\n    pass": "for each row",
        "for k in tl.range(0, n, row_ends=tl.reshape(i, (4, 4))):\n    pass": "for each row",
        "for k in tl.range(n, 0, -1, row_ends=i):\n    pass": "grows",
        "for k in tl.range(0, n.to(tl.uint32), row_ends=i):\n    pass": "signed counter",
        "tl.zeros((0, 4), tl.float32)": "size",
        "tl.zeros((1 << 12, 1 << 12), tl.float32)": "elements",
        "tl.zeros((16,), 4)": "type",
        "tl.program_id(3)": "axis 0, 1 or 2",
        "tl.num_programs(-1)": "axis 0, 1 or 2",
        "tl.permute(t, (0, 0))": "order of 2 dimensions",
        "tl.histogram(i, 0)": "needs a bin",
        "tl.load(p + i, cache_modifier='.zz')": "is one of",
        "tl.load(p + i, eviction_policy='never')": "is one of",
        "tl.store(p + i, x, cache_modifier='.ca')": "is one of",
        "tl.dot(t, t, input_precision='ieee', allow_tf32=True)": "not both",
        "tl.dot(t, t, input_precision='luck')": "precision",
        "tl.atomic_add(p + i, x, sem='later')": "sem",
        "tl.atomic_add(p + i, x, scope='world')": "scope",
        "tl.cast(x, tl.float16, fp_downcast_rounding='up')": "rounding",
        "tl.inline_asm_elementwise(3, '=r,r', [i], tl.int32, True, 1)": "asm",
        "tl.inline_asm_elementwise('', 3, [i], tl.int32, True, 1)": "constraints",
        "tl.inline_asm_elementwise('', '=r,r', [i], tl.int32, True, 0)": "`pack` is 0",
        "tl.inline_asm_elementwise('', '=r', [i], tl.int32, True, 1)": "constraints",
        "tl.inline_asm_elementwise('', '=r,r', [i > 3], tl.int32, True, 1)": "bool",
        "tl.make_tensor_descriptor(p, [n, n], [n, 2], [8, 8])": "last stride",
        "tl.make_tensor_descriptor(p, [n, n], [n, 1], [8, 8], padding_option='one')": "'zero' or 'nan'",
        "tl.load(tl.make_block_ptr(p, (n,), (1,), (0,), (16,), (0,)), mask=x > 0)": "boundary_check",
        "tl.store(tl.make_block_ptr(p, (n,), (1,), (0,), (16,), (0,)), x, mask=x > 0)": "boundary_check",
        "tl.load(tl.make_block_ptr(p, (n,), (1,), (0,), (16,), (0,)), boundary_check=(0,), padding_option='one')": "'zero' or 'nan'",
        "tl.maximum(x, x, propagate_nan='some')": "",
        "for k in range(0, n, 0):\n    pass": "must not be 0",
        "y = 1 // 0": "",
        "y = 'a' - 1": "",
        "y = -'a'": "",
        "y = (1, 2)[2]": "index",
        "y = tl.zeros((4,), tl.dtype('int9'))": "",
        "y = tl.zeros(('a',), tl.float32)": "integer",
    },
    "TypeMismatch": {
        "p + p": "two pointers",
        "p - h": "two pointers",
        "p & 1": "",
        "p + x": "an integer offset",
        "p + 1.5": "an integer offset",
        "tl.where(x > 0, p + i, h + i)": "",
        "tl.sum(n, 0)": "a scalar can't be reduced",
        "tl.gather(x, x, 0)": "integer positions",
        "tl.histogram(x, 8)": "integers",
        "tl.histogram(tl.reshape(i, (4, 4)), 8)": "one-dimensional",
        "y = tl.advance(p, (1,))": "block pointers",
        "tl.load_tensor_descriptor(p, [n, n])": "descriptor",
        "tl.join(x, i)": "type",
        "tl.cat(x, i, can_reorder=True)": "type",
        "tl.sum('a', 0)": "needs a tensor",
        "x.to(tl.int32, fp_downcast_rounding='rtz')": "",
        "x.to(tl.float64, fp_downcast_rounding='rtz')": "",
        "x.to(tl.float16, bitcast=True)": "",
        "x.to(tl.int64, bitcast=True)": "",
        "p.to(tl.int32)": "64",
        "n.to(tl.pointer_type(tl.float32))": "64",
        "y = x if n > 0 else i": "",
        "for k in range(x):\n    pass": "scalar integer",
        "for k in range(0, 1.5):\n    pass": "",
        "return n": "returns nothing",
        "tl.math.fma(x, 'a', x)": "",
        "x + None": "it is None in this launch",
        "x + (1, 2)": "take an element of the tuple",
        "x + tl.make_tensor_descriptor(p, [n, n], [n, 1], [8, 8])": "load a block first",
        "x + 'a'": "a number or a tensor",
        "tl.make_tensor_descriptor(p + i, [n, n], [n, 1], [8, 8])": "pointer",
    },
    "TileShapeMismatch": {
        "tl.reshape(x, (4, 8))": "",
        "tl.split(t)": "last dimension of 2",
        "tl.split(n)": "last dimension of 2",
        "tl.trans(x)": "",
        "tl.cat(x, t, can_reorder=True)": "",
        "tl.full((4, 4), x, tl.float32)": "a scalar",
        "tl.gather(x, tl.reshape(i, (4, 4)), 0)": "",
        "tl.gather(t, tl.reshape(i, (2, 8)), 1)": "",
        "tl.broadcast_to(x, (8,))": "",
        "tl.broadcast_to(t, (16,))": "",
        "x + tl.arange(0, 8)": "",
        "tl.extract_slice(t, [0], [2, 2])": "",
        "tl.extract_slice(t, [0, 0], [2])": "",
        "tl.load(p, mask=x > 0)": "",
        "tl.store(p, n * 1.0, mask=x > 0)": "",
        "x[:, :, None]": "2 dimensions are indexed",
        "tl.make_block_ptr(p, (n, n), (n,), (0, 0), (4, 4), (1, 0))": "",
        "tl.make_block_ptr(p, (n,), (n, 1), (0, 0), (4, 4), (1, 0))": "",
        "tl.make_block_ptr(p, (n, n), (n, 1), (0,), (4, 4), (1, 0))": "",
        "tl.make_block_ptr(p, (n, n), (n, 1), (0, 0), (4,), (1, 0))": "",
        "tl.make_block_ptr(p + i, (n,), (1,), (0,), (4,), (0,))": "",
        "y = tl.advance(tl.make_block_ptr(p, (n,), (1,), (0,), (4,), (0,)), (1, 1))": "1 offsets",
        "tl.make_tensor_descriptor(p, [n], [n, 1], [8, 8])": "1 to 5",
        "tl.make_tensor_descriptor(p, [n, n], [1], [8, 8])": "1 to 5",
        "tl.make_tensor_descriptor(p, [n, n], [n, 1], [8])": "1 to 5",
        "tl.make_tensor_descriptor(p, [n, n], [n, 1], [8, 8]).load([n])": "",
    },
    "UnsupportedSyntax": {
        "y = 1j": "literal",
        "y = b'a'": "literal",
        "y = n[0]": "only `None` and `:`",
        "y = x ** 2": "multiply",
        "y = t @ t": "tl.dot",
        "for k in range(n):\n    pass\nelse:\n    y = 1": "`else` of a loop",
        "while n > 0:\n    n -= 1\nelse:\n    y = 1": "`else` of a loop",
        "while True:\n    n += 1": "never ends",
        "for a, b in range(n):\n    pass": "one counter",
        "for k in x:\n    pass": "",
        "for k in abs(n):\n    pass": "",
        "t[0] += 1": "only variables",
        "a, b = (1, 2, 3)": "2 values are needed",
        "a, b = n": "2 values are needed",
        "tl.sum(x, **{'axis': 0})": "`**`",
        "tl.range(0, n)": "",
    },
    "NotConstant": {
        "tl.zeros((n,), tl.float32)": "",
        "tl.static_assert(n > 0)": "",
        "y = n in (1, 2)": "",
        "y = 1 in (n, 2)": "",
    },
    "OutOfRange": {
        "x + (1 << 70)": "64 bits",
        "tl.store(p, 1 << 70)": "64 bits",
    },
    "UndefinedName": {"y = sorted(n)": ""},
    "WrongArguments": {
        "tl.sum()": "",
        "tl.arange(0, 16, 2)": "",
        "getattr(x)": "",
        "getattr(x, 3)": "",
        "str(x)": "",
        "int('a')": "",
    },
    "UnknownAttribute": {
        "x.luck": "no attribute",
        "x.zeros": "call it as a function: `tl.zeros(...)`",
        "p.luck": "load through the pointer first",
        "p.load()": "`tl.load(pointer + offsets, ...)`",
        "(1, 2).append(3)": "write `parts = parts + (x,)`",
        "getattr(x, 'luck')": "",
        "tl.luck": "has no `luck`",
        "tl.math.luck(x)": "has no `luck`",
    },
    "UnusedResult": {"tl.advance(p, (1,))": "is not being used"},
}


CASES = [(kind, body) for kind, rows in REFUSED.items() for body in rows]


@pytest.mark.parametrize(("kind", "body"), CASES, ids=[body for _, body in CASES])
def test_what_is_refused(define, kind: str, body: str):
    kernel = define(HEAD + "".join(f"    {line}\n" for line in body.split("\n")))
    with pytest.raises(TawaError) as caught:
        lower_to_tile(kernel, [parse_argument(text) for text in TYPES], {})
    assert type(caught.value).__name__ == kind
    assert REFUSED[kind][body] in caught.value.render()
    assert caught.value.span is not None, "the error is at a line"


@pytest.mark.parametrize("body", ["x.luck", "'a'.zeros"])
def test_no_function_is_named_that_there_is_not(define, body: str):
    kernel = define(HEAD + f"    {body}\n")
    with pytest.raises(TawaError) as caught:
        lower_to_tile(kernel, [parse_argument(text) for text in TYPES], {})
    assert "call it as a function" not in caught.value.render()
