"""Functions of the tile language that are written in the tile language."""


# Kernel code: what types mean here is the front end's matter.
# pyright: basic, reportArgumentType=false, reportAssignmentType=false

from __future__ import annotations

from importlib import import_module
from typing import Any

from tawa.language import core, math
from tawa.language.builtin import composite, composite_method
from tawa.language.dtypes import constexpr, int32, int64, uint32, uint64
from tawa.language.host import constexpr_function


def __getattr__(name: str) -> Any:
    """Reductions, scans and sorting, too: `triton.language.standard` has them."""
    for place in (core, import_module("tawa.language.sorting")):
        if not name.startswith("_") and hasattr(place, name):
            return getattr(place, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@constexpr_function
def without(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """A shape without one of its dimensions."""
    dim %= len(shape)
    return (*shape[:dim], *shape[dim + 1 :])


@constexpr_function
def _log2(i: int) -> int:
    """The logarithm of a power of two."""
    return i.bit_length() - 1


@composite
def cdiv(x: Any, div: Any) -> Any:
    """`x / div` rounded up, of integers; wraps like their type."""
    return (x + (div - 1)) // div


@composite_method
def sigmoid(x: Any) -> Any:
    """`1 / (1 + exp(-x))`."""
    return 1 / (1 + math.exp(-x))


@composite_method
def softmax(x: Any, dim: Any = None, keep_dims: Any = False, ieee_rounding: Any = False) -> Any:
    """`exp(x)` normalised along `dim` (the first dimension by default)."""
    axis: constexpr = 0 if dim is None else dim
    largest = core.max(x, axis, keep_dims=True)
    numerator = math.exp(x - largest)
    denominator = core.sum(numerator, axis, keep_dims=True)
    return math.fdiv(numerator, denominator, ieee_rounding)


@composite
def towards_zero(x: Any, dtype: constexpr, word: constexpr) -> Any:
    """A float in a smaller type, rounded towards zero; `word` is an integer of that type's size."""
    nearest = core.to(x, dtype)
    bits = core.to(nearest, word, bitcast=True)
    beyond = math.abs(core.to(nearest, x.dtype)) > math.abs(x)
    return core.to(core.where(beyond, bits - 1, bits), dtype, bitcast=True)


@composite
def zeros_like(input: Any) -> Any:
    """Zeros of the shape and type of `input`."""
    return core.zeros(input.shape, input.dtype)


@composite
def squeeze(x: Any, dim: constexpr) -> Any:
    """Without dimension `dim`, whose size is 1."""
    core.static_assert(x.shape[dim] == 1, "`tl.squeeze` removes a dimension of size 1")
    return core.reshape(x, without(x.shape, dim))


@composite
def unsqueeze(x: Any, dim: constexpr) -> Any:
    """With a dimension of size 1 before `dim`."""
    return core.expand_dims(x, dim)


@composite
def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> Any:
    """Indices of a row-major `size_i` x `size_j` grid in groups of `size_g` rows."""
    ij = i * size_j + j
    size_gj = size_g * size_j
    group = ij // size_gj
    offset = group * size_g
    rows = core.minimum(size_i - offset, size_g)
    local = ij % size_gj
    return offset + local % rows, local // rows


@composite
def interleave(a: Any, b: Any) -> Any:
    """Elements of `a` and `b` in turns along the last dimension."""
    c = core.join(a, b)
    if len(c.shape) == 1:  # of scalars
        return c
    return core.reshape(c, c.shape[:-2] + [2 * c.shape[-2]])


@composite
def philox_rounds(
    seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: constexpr, word: constexpr,
    keys: constexpr, factors: constexpr,
) -> Any:  # fmt: skip
    """Rounds of Philox with counters and keys of type `word`, by the constants of its width."""
    if word == uint32:
        k0 = seed.to(uint32)
        k1 = (seed >> 32).to(uint32)
    else:
        k0 = seed
        k1 = seed * 0
    c0 = core.to(core.to_tensor(c0), word)
    c1 = core.to(core.to_tensor(c1), word)
    c2 = core.to(core.to_tensor(c2), word)
    c3 = core.to(core.to_tensor(c3), word)
    for _ in core.static_range(n_rounds):
        a = c0
        b = c2
        c0 = math.umulhi(b, factors[1]) ^ c1 ^ k0
        c2 = math.umulhi(a, factors[0]) ^ c3 ^ k1
        c1 = b * factors[1]
        c3 = a * factors[0]
        k0 = k0 + keys[0]
        k1 = k1 + keys[1]
    return c0, c1, c2, c3


@composite
def philox(seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: constexpr = 10) -> Any:
    """The Philox counter-based generators (Salmon et al., SC 2011).

    Counters of 32 bits give 4x32, those of 64 bits 4x64; the results are unsigned.
    """
    seed = core.to_tensor(seed)
    core.static_assert(seed.dtype.is_int(), "the seed of random numbers is an integer")
    seed = core.to(seed, uint64)
    if core.to_tensor(c0).dtype.primitive_bitwidth == 64:
        return philox_rounds(
            seed, c0, c1, c2, c3, n_rounds, uint64,
            (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B), (0xD2E7470EE14C6C93, 0xCA5A826395121157),
        )  # fmt: skip
    return philox_rounds(
        seed, c0, c1, c2, c3, n_rounds, uint32,
        (0x9E3779B9, 0xBB67AE85), (0xD2511F53, 0xCD9E8D57),
    )  # fmt: skip


@composite
def randint4x(seed: Any, offset: Any, n_rounds: constexpr = 10) -> Any:
    """Four blocks of random uint32 for each offset, whose 64 bits are two counters."""
    offset = core.to_tensor(offset)
    low = offset.to(uint32)
    zero = low * 0
    if offset.dtype.primitive_bitwidth > 32:
        return philox(seed, low, (offset >> 32).to(uint32), zero, zero, n_rounds)
    return philox(seed, low, zero, zero, zero, n_rounds)


@composite
def randint(seed: Any, offset: Any, n_rounds: constexpr = 10) -> Any:
    """Random uint32 for each offset."""
    first, _a, _b, _c = randint4x(seed, offset, n_rounds)
    return first


@composite
def uint_to_uniform_float(x: Any) -> Any:
    """A random uint32 or uint64 as a float32 in [0, 1)."""
    if x.dtype.primitive_bitwidth == 64:
        signed = x.to(int64, bitcast=True)
        scale: constexpr = 1.0842020432385337e-19
    else:
        signed = x.to(int32, bitcast=True)
        scale: constexpr = 4.6566127342e-10
    positive = core.where(signed < 0, -signed - 1, signed)
    return positive * scale


@composite
def rand(seed: Any, offset: Any, n_rounds: constexpr = 10) -> Any:
    """Uniform float32 in [0, 1) for each offset."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@composite
def rand4x(seed: Any, offsets: Any, n_rounds: constexpr = 10) -> Any:
    """Four blocks of uniform float32 in [0, 1)."""
    a, b, c, d = randint4x(seed, offsets, n_rounds)
    return (
        uint_to_uniform_float(a),
        uint_to_uniform_float(b),
        uint_to_uniform_float(c),
        uint_to_uniform_float(d),
    )


@composite
def pair_uniform_to_normal(u1: Any, u2: Any) -> Any:
    """Two normal samples of two uniform ones (Box and Muller)."""
    u1 = core.maximum(1.0e-7, u1)
    theta = 6.283185307179586 * u2
    radius = math.sqrt(-2.0 * math.log(u1))
    return radius * math.cos(theta), radius * math.sin(theta)


@composite
def randn4x(seed: Any, offset: Any, n_rounds: constexpr = 10) -> Any:
    """Four blocks of standard normal float32."""
    a, b, c, d = rand4x(seed, offset, n_rounds)
    first, second = pair_uniform_to_normal(a, b)
    third, fourth = pair_uniform_to_normal(c, d)
    return first, second, third, fourth


@composite
def randn(seed: Any, offset: Any, n_rounds: constexpr = 10) -> Any:
    """Standard normal float32 for each offset."""
    a, b, _c, _d = randint4x(seed, offset, n_rounds)
    first, _second = pair_uniform_to_normal(uint_to_uniform_float(a), uint_to_uniform_float(b))
    return first
