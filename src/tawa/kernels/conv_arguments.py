"""Arrays as convolutions take them: what they may be, and how their pictures lie in memory.

Those whose channels the hardware can't read in blocks are copied.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportIndexIssue=false

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any

import tawa
import tawa.language as tl
from tawa.kernels.conv_copies import padded
from tawa.kernels.convolution.activations import ACTIVATIONS
from tawa.kernels.convolution.shapes import Convolution, ConvolutionNotPossible, require_array
from tawa.kernels.gemm_operands import PIECE, address, empty, strides, type_name

TYPES = "float16", "bfloat16"
"""Element types of images and filters, and of their results."""
NARROW_TYPES = "float8_e4m3fn", "float8_e5m2"
"""Element types of images and filters alone: results are of a wider one."""
RESULTS = (*TYPES, "float32")
"""Element types of results."""
TURNED = 32
"""Filters, and channels, that one program exchanges."""


@dataclass(frozen=True)
class Finish:
    """What becomes of the sums: act(sum * scale + bias + residual).

    `scale` and `bias` have a number for each filter, `residual` is an array like the result, and
    `activation` a function of the tile language.
    """

    scale: Any = None
    bias: Any = None
    residual: Any = None
    activation: Any = None

    @property
    def plain(self) -> bool:
        """Whether at most a bias is added."""
        return self.scale is None and self.residual is None and self.activation is None

    def bytes_of(self, out: Any) -> int:
        """Of an element of `out`, and of the one that is added to it."""
        residual = 0 if self.residual is None else self.residual.dtype.itemsize
        return out.dtype.itemsize + residual


def activation_of(relu: bool, activation: Any) -> Any:
    """The function that is meant by `relu` and `activation`; raises ConvolutionNotPossible."""
    if activation is None:
        return ACTIVATIONS["relu"] if relu else None
    found = ACTIVATIONS.get(activation) if isinstance(activation, str) else activation
    if relu or not isinstance(found, type(ACTIVATIONS["relu"])):
        named = "is no known function" if not callable(found) else "is no function of a tile"
        raise ConvolutionNotPossible(
            "two activations were given" if relu else f"`activation` {named}",
            expected=f"one of {', '.join(ACTIVATIONS)}, or a `@tawa.jit` function of a tile",
            found=f"activation={activation!r}" + (" and relu=True" if relu else ""),
        )
    return found


def result_type(x: Any, w: Any, dtype: str | None) -> str | None:
    """The element type of a result that is made; raises ConvolutionNotPossible."""
    kinds = type_name(x.dtype), type_name(w.dtype)
    if kinds[0] != kinds[1] or kinds[0] not in TYPES + NARROW_TYPES:
        raise ConvolutionNotPossible(
            "images and filters are of other element types",
            expected=f"one of {', '.join(TYPES + NARROW_TYPES)}, both the same",
            found=f"x of {kinds[0]} and w of {kinds[1]}",
        )
    check_result_type(dtype)
    return dtype or ("bfloat16" if kinds[0] in NARROW_TYPES else None)


def check_result_type(dtype: Any) -> None:
    """Raise ConvolutionNotPossible unless results may be of the type of this name, or of none."""
    if dtype is not None and dtype not in RESULTS:
        raise ConvolutionNotPossible(
            f"`dtype` of {dtype!r} is not possible",
            expected=f"one of {', '.join(map(repr, RESULTS))}, or None for that of the images",
        )


def check_output(conv_shape: tuple[int, ...], out: Any, read: dict[str, Any]) -> None:
    """Raise ConvolutionNotPossible unless `out` has room for a result, apart from what is read."""
    require_array("out", out)
    steps = strides(out)
    if tuple(out.shape) != conv_shape or (steps[-1] != 1 and out.shape[-1] > 1):
        raise ConvolutionNotPossible(
            "`out` has no room for the result",
            expected=f"{list(conv_shape)}, channels together",
            found=f"{list(out.shape)} with strides {list(steps)}",
        )
    if type_name(out.dtype) not in RESULTS:
        raise ConvolutionNotPossible(
            "`out` is of an element type that results can't have",
            expected=f"one of {', '.join(RESULTS)}", found=type_name(out.dtype),
        )  # fmt: skip
    if not _apart(out):
        raise ConvolutionNotPossible(
            "elements of `out` overlap each other",
            expected="strides that lead to an element of its own for each index",
            found=f"{list(out.shape)} with strides {list(steps)}",
            hint="pass an array of its own, and copy what is to be repeated",
        )
    if not getattr(getattr(out, "flags", None), "writeable", True):
        raise ConvolutionNotPossible(
            "`out` is read-only", expected="an array that may be written", found="a read-only one"
        )
    for name, array in read.items():
        if array is not None and meet(out, array):
            raise ConvolutionNotPossible(
                f"`out` overlaps `{name}`, which is read while `out` is written",
                expected=f"memory that `{name}` does not use",
                found=f"`out` {list(out.shape)} within the bytes of `{name}` {list(array.shape)}",
                hint="leave `out` away, or pass another array",
            )


def _apart(array: Any) -> bool:
    """Whether all indices lead to elements of their own."""
    reach = 1
    pairs = zip(strides(array), array.shape, strict=True)
    for step, extent in sorted((abs(step), extent) for step, extent in pairs if extent > 1):
        if step < reach:
            return False
        reach = step * extent
    return True


@dataclass(frozen=True)
class _Bytes:
    """Those that an array may touch: runs of `run` bytes, multiples of `step` bytes apart."""

    begin: int
    end: int
    run: int
    step: int


def _bytes(array: Any) -> _Bytes:
    size, begin = array.dtype.itemsize, address(array, host=True)
    last, run, step = begin, size, 0
    pairs = zip(strides(array), array.shape, strict=True)
    for stride, extent in sorted(pairs, key=lambda d: abs(d[0])):
        far = (extent - 1) * stride * size
        begin, last = begin + min(far, 0), last + max(far, 0)
        if abs(stride) * size <= run and not step:
            run += abs(far)
        elif extent > 1:
            step = gcd(step, abs(stride) * size)
    return _Bytes(begin, last + size, run, step)


def meet(one: Any, other: Any) -> bool:
    """Whether two arrays may have bytes in common; channels side by side do not."""
    if 0 in one.shape or 0 in other.shape:
        return False
    a, b = _bytes(one), _bytes(other)
    if a.end <= b.begin or b.end <= a.begin:
        return False
    step = gcd(a.step, b.step)
    ahead = (b.begin - a.begin) % step if step else 0
    return not step or not (a.run <= ahead and ahead + b.run <= step)


def check_finish(finish: Finish, k: int, shape: tuple[int, ...]) -> None:
    """Raise ConvolutionNotPossible unless vectors are of the filters, a residual of the result."""
    for name, vector in (("scale", finish.scale), ("bias", finish.bias)):
        if vector is not None:
            require_array(name, vector, f"[{k}], a number for each filter")
        if vector is not None and (
            tuple(vector.shape) != (k,) or type_name(vector.dtype) not in RESULTS
        ):
            raise ConvolutionNotPossible(
                f"`{name}` is not of the filters", expected=f"[{k}] of {', '.join(RESULTS)}",
                found=f"{list(vector.shape)} of {type_name(vector.dtype)}",
            )  # fmt: skip
    residual = finish.residual
    if residual is not None:
        require_array("residual", residual, f"{list(shape)}")
    if residual is not None and (
        tuple(residual.shape) != shape or type_name(residual.dtype) not in RESULTS
    ):
        raise ConvolutionNotPossible(
            "`residual` is not like the result",
            expected=f"{list(shape)} of {', '.join(RESULTS)}",
            found=f"{list(residual.shape)} of {type_name(residual.dtype)}",
        )


def pictures(array: Any) -> Any:
    """[N, ..., C] as [pictures, H, W, C]: a view, or a copy where images lie too far apart."""
    shape = tuple(array.shape)
    if len(shape) == 3:
        return array[:, None]
    return array if len(shape) == 4 else array.reshape(-1, *shape[2:])


def pictures_of(out: Any) -> Any:
    """As `pictures`, of an array that is written: None where there is no such view."""
    if len(out.shape) < 5:
        return pictures(out)
    n, d = out.shape[:2]
    steps = strides(out)
    mergeable = n == 1 or d == 1 or steps[0] == d * steps[1]
    return out.reshape(-1, *out.shape[2:]) if mergeable else None


def filters_of(w: Any) -> Any:
    """[K, ..., C / groups] as [K, rows, S, C / groups]; the rows of a depth follow each other."""
    shape = tuple(w.shape)
    if len(shape) == 3:
        return w[:, None]
    return w if len(shape) == 4 else w.reshape(shape[0], -1, *shape[3:])


def steps_of(x: Any) -> tuple[int, ...]:
    """Strides; those of dimensions of one element as if it were dense, since they say nothing."""
    found: list[int] = []
    dense = 1
    for extent, step in zip(reversed(x.shape), reversed(strides(x)), strict=True):
        found.append(step if extent != 1 else dense)
        dense = max(found[-1] * extent, dense)
    return tuple(reversed(found))


def describable(x: Any) -> bool:
    """Whether the hardware copies blocks of [N, H, W, C] where they lie."""
    unit, steps = PIECE // x.dtype.itemsize, steps_of(x)
    whole = all(step > 0 and step % unit == 0 for step in steps[:3])
    return whole and steps[3] == 1 and address(x) % PIECE == 0


def readable(x: Any, channels: int) -> Any:
    """`x` [N, H, W, C] if the hardware copies blocks of it where it lies, else a copy."""
    unit = PIECE // x.dtype.itemsize
    pitch = -(-channels // unit) * unit
    return x if pitch == channels and describable(x) else padded(x, pitch)


def with_room(finish: Finish, conv: Convolution) -> tuple[Finish, tuple[int, ...], int]:
    """A residual that the hardware copies blocks of, its strides and its channels."""
    if finish.residual is None:
        return finish, (0, 0, 0), 0
    residual = readable(finish.residual, conv.k)
    return replace(finish, residual=residual), steps_of(residual)[:3], residual.shape[3]


def made_like(x: Any, shape: tuple[int, ...], dtype: str | None) -> Any:
    """An array for results."""
    return empty(x, shape, dtype)


def by_groups(x: Any, groups: int) -> tuple[Any, int]:
    """`x` [N, H, W, C], or a copy, whose groups begin at whole pieces of 16 bytes, and how far."""
    n, h, w, c = x.shape
    own, unit = c // groups, PIECE // x.dtype.itemsize
    if groups == 1 or own % unit == 0:
        return readable(x, c), own
    pitch = -(-own // unit) * unit
    return padded(x.reshape(n, h, w * groups, own), pitch).reshape(n, h, w, groups * pitch), pitch


@tawa.jit
def exchange_filters(
    w: Any, to: Any, K: Any, C: Any, w_k: Any, w_t: Any, w_r: Any, w_s: Any, w_c: Any, T0: Any,
    T_STEP: Any, R0: Any, R_STEP: Any, S0: Any, S_STEP: Any, PICTURES: Any, ROWS: Any,
    COLUMNS: Any, BK: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """`to` [groups * C, PICTURES, ROWS, COLUMNS, K]: some taps of `w` [groups * K, T, R, S, C].

    Tap (h, i, j) is tap (T0 + h T_STEP, R0 + i R_STEP, S0 + j S_STEP) of `w`.
    """
    count = PICTURES * ROWS * COLUMNS
    tap = tl.program_id(0) % count
    group = tl.program_id(0) // count
    h = tap // (ROWS * COLUMNS)
    i, j = tap // COLUMNS % ROWS, tap % COLUMNS
    across = tl.cdiv(K, BK)
    k = tl.program_id(1) % across * BK + tl.arange(0, BK)
    c = tl.program_id(1) // across * BC + tl.arange(0, BC)
    inside = (c < C)[:, None] & (k < K)[None, :]
    w += (T0 + h * T_STEP) * w_t + (R0 + i * R_STEP) * w_r + (S0 + j * S_STEP) * w_s
    found = tl.load(w + group * K * w_k + (c * w_c)[:, None] + (k * w_k)[None, :], mask=inside)
    at = (group * C + c) * count + tap
    tl.store(to + (at * K)[:, None] + k[None, :], found, mask=inside)


def exchanged(w: Any, taps: tuple[list[int], list[int], list[int]], groups: int) -> Any:
    """Some taps of filters [K, T, R, S, C / groups], as [C, taps, K / groups].

    `taps` are those of each dimension, at one distance from each other.
    """
    k, own = w.shape[0], w.shape[-1]
    counts = [len(some) for some in taps]
    ours, made = k // groups, empty(w, (groups * own, *counts, k // groups))
    places: list[int] = []
    for some in taps:
        places += [some[0], some[1] - some[0] if len(some) > 1 else 1]
    blocks = tawa.cdiv(ours, TURNED) * tawa.cdiv(own, TURNED)
    exchange_filters[(prod(counts) * groups, blocks)](
        w, made, ours, own, *strides(w), *places, *counts, TURNED, TURNED
    )
    return made
