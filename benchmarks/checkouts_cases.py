"""The cases of `checkouts.py`: kernels of the library and of the suite at one size each.

They are made in the process of a checkout, with its `tawa`; a case whose kernel that checkout does
not have raises. Kernels of the suite are the checkout's own too, so a case is of one text as long
as that text has not changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
from same_source_case import compiled_by, descriptors_of, random
from same_source_suite import BF16, F32, device, kernel_of

CHECKED = 256
"""Rows of a product that are compared with float64."""


@dataclass(frozen=True)
class Timed:
    """What is timed, and how its result is looked at."""

    row: dict[str, Any]
    work: Callable[[], Any]
    output: Callable[[], torch.Tensor]
    exact: Callable[[], torch.Tensor] | None
    """In float64; None where only the checkouts are compared with each other."""
    tolerance: float
    poison: torch.Tensor | None
    """What is filled before the first execution; None where the work changes its own input."""
    flops: int | None = None
    bytes: int | None = None


@cache
def benchmark(name: str) -> Any:
    """A module of this folder, by its file: examples have modules of the same names."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = spec_from_file_location(f"benchmark_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    sys.modules[spec.name] = found  # where dataclasses look
    spec.loader.exec_module(found)
    return found


def product(m: int, n: int, k: int) -> Timed:
    """The library's product, fp16, both operands contiguous along K."""
    from tawa.kernels.gemm import matmul

    a, b = random(m, k), random(n, k)
    c = torch.empty(m, n, device=device(), dtype=torch.float16)
    part = c[:CHECKED]
    return Timed(
        {"kernel": "gemm", "dtype": "fp16", "m": m, "n": n, "k": k},
        lambda: matmul(a, b.T, out=c), lambda: part,
        lambda: a[:CHECKED].double() @ b.double().T, 2e-3, c, flops=2 * m * n * k,
    )  # fmt: skip


def attention_forward(
    d: int, rows: int, causal: bool, tile: tuple[int, int] | None = None
) -> Timed:
    """The library's attention, bf16; the first head is compared with float64.

    With a tile, checkouts have the same one and the same options; else each takes its own choice.
    """
    attention = benchmark("attention")
    case = attention.Case(d, rows, causal)
    data = attention.Inputs(case)
    out = data.out.transpose(1, 2)
    row, given = {"kernel": "attention", **case.row}, dict[str, Any]()
    if tile is not None:
        from tawa.kernels.attention import Configuration

        options = {"persistent": True, "consumers": tile[0] // 64, "alternate": tile[0] > 128}
        options |= {"deal": "even"} if causal else {}
        given["using"] = Configuration(*tile, options=options, ascending=causal)
        row["tile"] = list(tile)
    return Timed(
        row, lambda: attention.attention(*data.turned, out, causal=causal, **given),
        lambda: out[0, 0], lambda: data.exact, attention.MAX_ERROR["bf16"], out, flops=case.flops,
    )  # fmt: skip


def attention_backward(d: int, rows: int, causal: bool) -> Timed:
    """The library's gradients of attention; those of the first head's queries are compared."""
    backward = benchmark("attention_backward")
    case = backward.Case(d, rows, causal)
    data = backward.Inputs(case)
    q, k, v = data.operands
    out, lse = backward.attention(q, k, v, causal=causal, return_lse=True)
    into = tuple(torch.empty_like(x) for x in (q, k, v))
    work = partial(backward.attention_gradients, q, k, v, out, lse, data.gradient, into)
    return Timed(
        {"kernel": "attention_gradients", **case.row}, partial(work, causal=causal),
        lambda: into[0][0, 0], lambda: data.exact[0][0, 0], backward.MAX_ERROR, into[0],
        flops=case.flops,
    )  # fmt: skip


def convolution(n: int, c: int, size: int, k: int, taps: int, stride: int) -> Timed:
    """The library's convolution of images, fp16, channels last; one image is compared."""
    from tawa.kernels.conv import conv2d

    x, w = random(n, size, size, c), random(k, taps, taps, c) * (taps * taps * c) ** -0.5
    results = (size + 2 * (taps // 2) - taps) // stride + 1
    y = torch.empty(n, results, results, k, device=device(), dtype=torch.float16)
    same = {"stride": stride, "padding": taps // 2}
    row = {"kernel": "conv2d", "dtype": "fp16", "x": list(x.shape), "w": list(w.shape), **same}

    def exact() -> torch.Tensor:
        parts = (t.movedim(-1, 1).double() for t in (x[:1], w))
        return torch.nn.functional.conv2d(*parts, **same).movedim(1, -1)

    return Timed(row, lambda: conv2d(x, w, y, **same), lambda: y[:1], exact, 2e-3, y,
                 flops=2 * y.numel() * taps * taps * c)  # fmt: skip


def rotary(packed: bool, heads: int = 16, d: int = 128, tokens: int = 16384) -> Timed:
    """Queries and keys turned in place: in one array with the values, or in two of their own."""
    wide = heads * d
    if packed:
        qkv = random(tokens, 3 * wide, dtype=BF16)
        q, k = qkv[:, :wide], qkv[:, wide : 2 * wide]
    else:
        q, k = random(tokens, wide, dtype=BF16), random(tokens, wide, dtype=BF16)
    rows = tokens // 4
    angle = torch.rand(rows, d // 2, device=device(), dtype=F32)
    cos, sin = angle.cos(), angle.sin()
    kernel = compiled_by("tawa", kernel_of("training.rope_both"))
    constants = {"n_qh": heads, "n_kh": heads, "hd": d, "pad_qh": heads, "pad_kh": heads}
    work = partial(kernel[(tokens,)], q, q.stride(0), k, k.stride(0), cos, sin, d // 2, rows,
                   **constants, pad_hd=d)  # fmt: skip

    def exact() -> torch.Tensor:
        both = torch.stack([q, k])[:, :CHECKED].double().view(2, -1, heads, 2, d // 2)
        x, y = both[..., 0, :], both[..., 1, :]
        at = torch.arange(both.shape[1], device=device()) % rows
        c, s = (t[at].double()[None, :, None] for t in (cos, sin))
        return torch.stack([x * c - y * s, y * c + x * s], -2).view(2, -1, wide)

    name = "packed" if packed else "apart"
    return Timed(
        {"kernel": "rope_both", "arrays": name, "heads": heads, "d": d, "tokens": tokens}, work,
        lambda: torch.stack([q, k])[:, :CHECKED], exact, 1e-2, None, bytes=8 * tokens * wide,
    )  # fmt: skip


def recurrence(programs: int) -> Timed:
    """The suite's scan of a recurrence; all programs do the same."""
    decay, value = (random(64, 16, dtype=F32) for _ in range(2))
    decay.sigmoid_()
    out = torch.empty_like(value)
    kernel = compiled_by("tawa", kernel_of("rows.linear_recurrence"))
    work = partial(kernel[(programs,)], decay, value, out, T=64, D=16)

    def exact() -> torch.Tensor:
        rows = [value[0].double()]
        for a, b in zip(decay[1:].double(), value[1:].double(), strict=True):
            rows.append(a * rows[-1] + b)
        return torch.stack(rows)

    return Timed({"kernel": "linear_recurrence", "programs": programs}, work, lambda: out, exact,
                 1e-5, out)  # fmt: skip


def adam(n: int, block: int = 1024) -> Timed:
    """A step of Adam in place; checkouts are compared with each other after the first."""
    p, m = random(n, dtype=F32), random(n, dtype=F32)
    v, grad = random(n, dtype=F32).abs_(), random(n)
    step, inf = (torch.full((1,), x, device=device()) for x in (3.0, 0.0))
    kernel = compiled_by("tawa", kernel_of("updates.adam_step"))
    work = partial(kernel[(-(-n // block),)], p, grad, m, v, n, 1e-3, 0.9, 0.95, 1e-8, 0.01, step,
                   inf, BLOCK=block, MAXIMIZE=False)  # fmt: skip
    return Timed({"kernel": "adam_step", "n": n}, work, lambda: p, None, 1e-5, None, bytes=26 * n)


def of_suite(module: str, name: str, *sizes: Any, config: int = 0) -> Timed:
    """A case of `same_source.py` with one of its configurations."""
    from importlib import import_module

    case = getattr(import_module(module), name)(*sizes)
    chosen = case.configurations[config]
    work = case.launch(compiled_by("tawa", case.function), descriptors_of("tawa"), dict(chosen))
    return Timed({**case.row, "config": str(chosen)}, work, lambda: case.output, case.exact,
                 case.tolerance, case.output, case.flops, case.bytes)  # fmt: skip


SHAPES = (
    *((8192, 8192, 512), (8192, 8192, 4096), (4096, 4096, 4096), (2048, 7168, 18432)),
    *((2048, 5120, 5120), (256, 7168, 2048), (512, 4096, 11008), (64, 4096, 4096)),
    *((16, 4096, 4096), (1000, 1000, 1000)),
)
LAYERS = ((32, 64, 56, 64, 3, 1), (32, 128, 28, 512, 1, 1), (32, 256, 14, 256, 3, 1))
MEMORY = {
    "rms_norm_rows": (16384, 4096), "quantise_rows_int8": (16384, 4096),
    "quantise_groups_fp8": (16384, 4096), "softmax_of_columns": (4096, 16384),
    "tanh_gelu": (8192, 8192),
    "transpose_tiles": (8192, 8192), "matrix_vector": (16384, 8192), "cumulate": (8192, 4096),
}  # fmt: skip
PLAIN = {
    "softmax": (16384, 4096), "layer_norm": (16384, 4096), "swiglu": (2**26,),
    "cross_entropy": (4096, 32000), "gemm_pointers": (8192, 8192, 512),
    "linear_attention": (64, 4096, 512),
}  # fmt: skip
PRODUCTS = {
    "int8_matmul": (4096, 4096, 4096), "fp8_block_scaled": (4096, 4096, 4096),
    "ssd_chunk_scan": (65536, 64, 64),
}  # fmt: skip


def _named(*words: object) -> str:
    return " ".join(map(str, words))


CASES: dict[str, Callable[[], Timed]] = {
    "rotary packed": partial(rotary, True),
    "rotary apart": partial(rotary, False),
    **{f"gemm {m}x{n}x{k}": partial(product, m, n, k) for m, n, k in SHAPES},
    **{
        f"attention D={d} {'causal' if causal else 'full'} {rows}":
        partial(attention_forward, d, rows, causal)
        for d in (64, 128) for causal in (False, True) for rows in (1024, 4096, 16384)
    },
    **{
        f"attention of tiles {tile[0]}x{tile[1]} D={d} {'causal' if causal else 'full'} {rows}":
        partial(attention_forward, d, rows, causal, tile)
        for d, tile in ((64, (192, 128)), (128, (128, 128)))
        for causal in (False, True) for rows in (4096, 16384)
    },
    "recurrence": partial(recurrence, 4096),
    "adam": partial(adam, 2**24),
    **{
        _named(name, *sizes): partial(of_suite, module, name, *sizes)
        for module, cases in (
            ("same_source", PLAIN), ("same_source_products", PRODUCTS),
            ("same_source_memory", MEMORY),
        )
        for name, sizes in cases.items()
    },
    **{_named("conv2d", *s): partial(convolution, *s) for s in LAYERS},
    "attention backward D=64 full 2048": partial(attention_backward, 64, 2048, False),
    "attention backward D=128 causal 2048": partial(attention_backward, 128, 2048, True),
}  # fmt: skip
