"""What attention takes: shapes, element types, descriptors of its arrays, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import tawa

MOST_CAPTURED = 6
"""Extra arguments that a score modification may have."""

MOST_D = 256
"""Largest head dimension: a row of accumulators has to fit the registers of a warp group."""

ELEMENT_TYPES = {"f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1}
"""Element types of queries, keys and values, and their bytes."""


class AttentionSizesDoNotMatch(tawa.TawaError):
    """The arrays given to `attention` do not fit each other."""

    explanation = (
        "`attention(q, k, v)` takes [batch, heads, queries, D], [batch, kv_heads, keys, D] and "
        "[batch, kv_heads, keys, DV] arrays. `heads` is a multiple of `kv_heads`. All three may "
        "lack the first dimension. `out` is [batch, heads, queries, DV], `lse` [batch, heads, "
        "queries], and factors of fp8 arrays are [batch, kv_heads]."
    )
    example = """
import numpy as np
from tawa.kernels.attention import attention

q, k = np.ones((1, 4, 16, 64), np.float16), np.ones((1, 3, 16, 64), np.float16)
attention(q, k, k)
"""


class AttentionTypeNotSupported(tawa.TawaError):
    """`attention` was given an element type or a head dimension that its kernel does not take."""

    explanation = (
        "Queries, keys and values are all fp16, all bf16, or all of one fp8 type. Head dimensions "
        "go up to 256. Rows are a multiple of 16 bytes (8 elements of 16 bits, 16 of 8 bits), as "
        "the copy engine asks. Pad D with zeros, and pass `scale` for the original D. Outputs are "
        "of 16 or 32 bits, with rows of a multiple of 16 bytes."
    )
    example = """
import numpy as np
from tawa.kernels.attention import attention

q = np.ones((1, 2, 16, 64), np.float32)
attention(q, q, q)
"""


class AttentionOptionNotSupported(tawa.TawaError):
    """An option of `attention` has a value that means nothing."""

    explanation = (
        "`window` is two integers or Nones. `softcap` and `scale` are finite numbers. `score_mod` "
        "is a jitted function of (score, batch, head, q_idx, k_idx, *captured). `descale` is "
        "three factors for fp8 arrays."
    )
    example = """
import numpy as np
from tawa.kernels.attention import attention

q = np.ones((1, 2, 16, 64), np.float16)
attention(q, q, q, score_mod=lambda score, batch, head, q_idx, k_idx: score - q_idx)
"""


@dataclass(frozen=True)
class Problem:
    """Sizes of an attention; `element_type` is that of queries, keys and values."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    d: int
    dv: int
    element_type: str
    batched: bool
    """Whether the arrays have a dimension for the batch."""

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of queries, keys and values."""
        return ELEMENT_TYPES[self.element_type]

    def widens(self, asked: bool | None) -> bool:
        """Whether 8-bit values are weighted in fp16: as asked, or if they are e5m2.

        Weights are as exact as values, and 2 bits of mantissa are too few for them.
        """
        wanted = self.element_type == "e5m2" if asked is None else asked
        return wanted and self.element_bytes == 1

    @property
    def rows(self) -> int:
        """Rows of the output."""
        return self.batch * self.heads * self.queries

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the output."""
        shape = (self.batch, self.heads, self.queries, self.dv)
        return shape if self.batched else shape[1:]


def problem_of(q: Any, k: Any, v: Any, *, symbolic: bool = False) -> Problem:
    """The sizes of `attention(q, k, v)`, once they are checked.

    `symbolic` says that sizes may be PyTorch's symbols, which no cache can hold.
    """
    types = element_type(q), element_type(k), element_type(v)
    shapes = tuple(q.shape), tuple(k.shape), tuple(v.shape)
    return _problem(shapes, types) if symbolic else _known_problem(shapes, types)


def _problem(shapes: tuple[tuple[int, ...], ...], types: tuple[str, ...]) -> Problem:
    ranks = {len(shape) for shape in shapes}
    if not (ranks == {3} or ranks == {4}):
        raise _sizes("arrays of rank 4 (or all of rank 3)", shapes)
    batched = ranks == {4}
    (bq, hq, sq, d), (bk, hk, sk, dk), (bv, hv, sv, dv) = (
        shape if batched else (1, *shape) for shape in shapes
    )
    if not (bq == bk == bv and hk == hv and sk == sv and d == dk):
        raise _sizes("q [batch, heads, queries, D], k and v [batch, kv_heads, keys, D]", shapes)
    if hk == 0 or hq % hk:
        raise _sizes(f"a multiple of {hk} query heads, as there are {hk} of keys", shapes)
    problem = Problem(bq, hq, hk, sq, sk, d, dv, types[0], batched)
    _check_types(problem, types)
    return problem


_known_problem = lru_cache(maxsize=1024)(_problem)


def element_type(array: Any) -> str:
    """The element type by the compiler's name (`f16`, `bf16`, `e4m3`), else the library's."""
    return _element_type(array.dtype)


@lru_cache(maxsize=64)
def _element_type(dtype: Any) -> str:
    name = str(dtype).rpartition(".")[2]
    known = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
    known |= {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
    return known.get(name, name)


def _sizes(expected: str, shapes: Sequence[tuple[int, ...]]) -> AttentionSizesDoNotMatch:
    found = ", ".join("x".join(map(str, shape)) for shape in shapes)
    return AttentionSizesDoNotMatch(
        "these arrays do not fit each other", expected=expected, found=found
    )


def _check_types(problem: Problem, types: Sequence[str]) -> None:
    if len(set(types)) > 1 or types[0] not in ELEMENT_TYPES:
        raise AttentionTypeNotSupported(
            "attention of these element types",
            expected=f"q, k and v of one of {', '.join(ELEMENT_TYPES)}",
            found=", ".join(types),
            hint="convert them to one type",
        )
    for name, size in (("D", problem.d), ("DV", problem.dv)):
        if not 0 < size <= MOST_D or size * problem.element_bytes % 16:
            raise AttentionTypeNotSupported(
                f"a head dimension of {name} = {size}",
                expected=f"multiples of {16 // problem.element_bytes} up to {MOST_D}",
                found=f"{size} elements of {problem.element_type}",
                hint="pad with zeros and pass the original `scale`"
                if size < MOST_D
                else "split the heads",
            )


def edges(
    causal: bool, window: tuple[int | None, int | None] | None
) -> tuple[int | None, int | None]:
    """How many keys to the left and to the right of the diagonal are visible; None: all."""
    left, right = (None, None) if window is None else window
    for side in (left, right):
        if side is not None and (isinstance(side, bool) or int(side) != side or side < -1):
            raise _option("a window of this size", "(left, right), each at least 0, or None", side)
    left = None if left is None or left == -1 else int(left)
    right = None if right is None or right == -1 else int(right)
    return left, (0 if causal else right)


def _option(what: str, expected: str, found: Any) -> AttentionOptionNotSupported:
    return AttentionOptionNotSupported(what, expected=expected, found=repr(found))


def check_options(alignment: str, score_mod: Any, captured: Sequence[Any]) -> None:
    """Raise AttentionOptionNotSupported for values that mean nothing."""
    if alignment not in ("bottom-right", "top-left"):
        raise _option("this alignment", "'bottom-right' or 'top-left'", alignment)
    if score_mod is not None and not hasattr(score_mod, "fn"):
        raise AttentionOptionNotSupported(
            "a score modification has to be a jitted function",
            expected="a function decorated with `@tawa.jit`",
            found=f"`{getattr(score_mod, '__name__', type(score_mod).__name__)}`, which is not",
        )
    if len(captured) > MOST_CAPTURED or (captured and score_mod is None):
        raise _option(
            "captured arguments", f"up to {MOST_CAPTURED}, for a `score_mod`", len(captured)
        )


def check_sharing(problem: Problem, block_m: int, packed: int, splits: int, score_mod: Any) -> None:
    """Raise unless as many heads can share a tile, and as many programs its keys."""
    group = problem.heads // problem.kv_heads
    if splits < 1:
        raise _option("splits along the keys", "at least 1", splits)
    if packed < 1 or group % packed or block_m % packed:
        raise _option(
            "heads that share a tile",
            f"a divisor of the {group} heads of a group and of the {block_m} rows of a tile",
            packed,
        )
    if packed > 1 and score_mod is not None:
        raise _option("heads that share a tile", "1 beside a `score_mod`, which sees one", packed)


def check_number(name: str, value: float) -> float:
    """A finite number. Raises AttentionOptionNotSupported."""
    value = float(value)
    if not abs(value) < float("inf"):
        raise _option(f"this {name}", "a finite number", value)
    return value


def check_cap(softcap: float | None) -> float | None:
    """The soft cap; None for 0, which is how others say that there is none."""
    if not softcap:
        return None
    if not 0 < softcap < float("inf"):
        raise _option("this soft cap", "a finite number above 0, or None", softcap)
    return float(softcap)


def check_descale(descale: Any, problem: Problem) -> tuple[Any, Any, Any]:
    """The factors of q, k and v: each None, a number, or an array [batch, kv_heads] of fp32."""
    if descale is None:
        return None, None, None
    if problem.element_bytes != 1:
        raise _option("factors of q, k and v", "none for elements of 16 bits", descale)
    if not isinstance(descale, tuple | list) or len(cast(Sequence[Any], descale)) != 3:
        raise _option("these factors", "three: of q, k and v", descale)
    factors = cast(Sequence[Any], descale)
    shape = (problem.batch, problem.kv_heads)[0 if problem.batched else 1 :]
    found: list[Any] = []
    for name, factor in zip("qkv", factors, strict=True):
        if hasattr(factor, "shape") and factor.shape != ():
            check_rows(f"descale of {name}", factor, shape)
            found.append(factor)
        else:
            found.append(None if factor is None else check_number("factor", factor))
    q_scale, k_scale, v_scale = found
    return q_scale, k_scale, v_scale


def padded(size: int, element_bytes: int) -> int:
    """Elements of a tile's rows: what a matrix instruction and a swizzle need, zeros at the end."""
    row = size * element_bytes
    for swizzle in (32, 64, 128):
        if row <= swizzle:
            return swizzle // element_bytes
    return -(-row // 32) * 32 // element_bytes


def described(name: str, array: Any, block: Sequence[int]) -> tawa.TensorDescriptor:
    """The descriptor of a 4-dimensional block; an array without batch has one of size 1.

    A block of 5 dimensions, [1, 1, packed, rows, D], has rows of `packed` consecutive heads.
    """
    packed = 1 if len(block) == 4 else block[2]
    whole = (1, 1, *block[-2:])
    try:
        if len(array.shape) == 4:
            seen = tawa.TensorDescriptor.from_tensor(array, whole)
        else:
            plain = tawa.TensorDescriptor.from_tensor(array, whole[1:])
            seen = tawa.TensorDescriptor(array, (1, *plain.shape), (0, *plain.strides), whole)
        if len(block) == 4:
            return seen
        (batch, heads, rows, d), (a, b, c, one) = seen.shape, seen.strides
        shape = (batch, heads // packed, packed, rows, d)
        return tawa.TensorDescriptor(array, shape, (a, packed * b, b, c, one), block)
    except tawa.TawaError as error:
        error.with_note(f"this is argument `{name}` of attention")
        raise


def output_type(problem: Problem) -> str:
    """The dtype's name of the output if none is given: fp8 gives bf16."""
    return {"f16": "float16"}.get(problem.element_type, "bfloat16")


def make_output(q: Any, problem: Problem) -> Any:
    """An array for the result, of the library of `q`, with its dimensions in the order of q's."""
    shape, name = problem.out_shape, output_type(problem)
    if hasattr(q, "new_empty"):
        torch = sys.modules["torch"]
        if problem.d == problem.dv:
            return torch.empty_like(q, dtype=getattr(torch, name))
        return q.new_empty(shape, dtype=getattr(torch, name))
    return q.__array_namespace__().empty(shape, dtype=name)


def make_lse(q: Any, problem: Problem) -> Any:
    """An fp32 array for the log-sum-exp of every row, of the library of `q`."""
    return make_float32(q, problem.out_shape[:-1])


def make_float32(q: Any, shape: tuple[int, ...]) -> Any:
    """An fp32 array of this shape, of the library of `q` and where `q` is."""
    if hasattr(q, "new_empty"):
        return q.new_empty(shape, dtype=sys.modules["torch"].float32)
    return q.__array_namespace__().empty(shape, dtype="float32")


def check_output(out: Any, problem: Problem) -> None:
    """Raise unless the result can be written to `out`."""
    if tuple(out.shape) != problem.out_shape:
        raise _sizes(f"an output of {'x'.join(map(str, problem.out_shape))}", [tuple(out.shape)])
    kind, size = element_type(out), {"f16": 2, "bf16": 2, "f32": 4}
    if kind not in size or problem.dv * size[kind] % 16:
        raise AttentionTypeNotSupported(
            "an output of this element type",
            expected="f16, bf16 or f32, with rows of a multiple of 16 bytes",
            found=f"{problem.dv} elements of {kind}",
        )


def check_rows(name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Raise unless the array, which is reached by pointers, is contiguous fp32 of this shape."""
    if tuple(array.shape) != shape:
        raise _sizes(f"{name} of {'x'.join(map(str, shape))}", [tuple(array.shape)])
    kind = element_type(array)
    if kind != "f32" or not is_contiguous(array):
        raise AttentionTypeNotSupported(
            f"{name} of this type", expected="a contiguous array of f32", found=kind
        )


def is_contiguous(array: Any) -> bool:
    """Whether the elements lie one after the other, the last dimension innermost."""
    if callable(getattr(array, "is_contiguous", None)):
        return bool(array.is_contiguous())
    strides = getattr(array, "strides", None)
    if strides is None:
        return True
    expected = array.dtype.itemsize
    for size, stride in zip(reversed(array.shape), reversed(strides), strict=True):
        if size > 1 and stride != expected:
            return False
        expected *= max(1, size)
    return True
