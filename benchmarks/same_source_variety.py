"""More forms of kernels that collections and engines have, at the sizes of models."""

from __future__ import annotations

from typing import Any

import torch
from same_source_case import Case, empty, random
from same_source_suite import (
    BF16,
    F32,
    Config,
    all_sizes,
    device,
    form,
    kernel_of,
    tiles,
    up,
    warps,
)

SQUARE = ((128, 128, 64, 8), (128, 128, 64, 4), (128, 64, 64, 4), (64, 64, 64, 4))


def _whole(size: int) -> torch.Tensor:
    return torch.zeros(size, dtype=torch.int32, device=device())


def implicit_gemm(images: int, c: int, side: int, k: int, stride: int) -> Case:
    """A convolution of 3 x 3, channels first, as a product whose addresses are computed."""
    x, w = random(images, c, side, side), random(k, c, 3, 3)
    conv = torch.nn.functional.conv2d
    out = side // stride
    y = empty(images, k, out, out)
    rows = images * out * out
    args = [x, w, y, images, c, side, side, k, out, out]
    configs = tiles((128, 64, 32, 4), (128, 64, 64, 4), (64, 64, 32, 4), (128, 128, 32, 8),
                    R=3, S=3, STRIDE=stride, PAD=1)  # fmt: skip
    return form("products.implicit_gemm", "products",
                {"images": images, "c": c, "side": side, "k": k, "stride": stride},
                lambda f: (*up(rows, f["BM"]), *up(k, f["BN"])), args, y[:1], configs,
                lambda: conv(x[:1].double(), w.double(), stride=stride, padding=1),
                flops=18 * rows * c * k)  # fmt: skip


def _of_descriptors(
    place: str, sizes: dict[str, int], matrices: tuple[torch.Tensor, ...],
    blocks: Any, configurations: list[Config], exact: Any, **more: Any,
) -> Case:  # fmt: skip
    """A case whose descriptors are made for each configuration; the last matrix is the output."""
    kernel, out = kernel_of(place), matrices[-1]
    m, n = out.shape

    def launch(function: Any, descriptor: Any, config: Config) -> Any:
        shapes = blocks(config)
        made = [descriptor.from_tensor(x, s) for x, s in zip(matrices, shapes, strict=True)]
        grid = (*up(m, config["BM"]), *up(n, config["BN"]))
        return lambda: function[grid](*made, sizes["k"], **config)

    return Case(kernel.__name__, "products", sizes, kernel, launch, configurations, out, exact,
                source="form", **more)  # fmt: skip


def dual_gemm_silu(m: int, n: int, k: int) -> Case:
    """Two products of one operand, gated, by descriptors."""
    x, w1, w3 = random(m, k, dtype=BF16), random(k, n, dtype=BF16), random(k, n, dtype=BF16)
    out = torch.empty(m, n, dtype=BF16, device=device())

    def exact() -> torch.Tensor:
        gate, up_ = x.double() @ w1.double(), x.double() @ w3.double()
        return torch.nn.functional.silu(gate) * up_

    def blocks(c: Config) -> tuple[list[int], ...]:
        wide = [c["BK"], c["BN"]]
        return [c["BM"], c["BK"]], wide, wide, [c["BM"], c["BN"]]

    configs = tiles((128, 128, 64, 8), (128, 64, 64, 4), (64, 128, 64, 4))
    return _of_descriptors("epilogues.dual_gemm_silu", {"m": m, "n": n, "k": k}, (x, w1, w3, out),
                           blocks, configs, exact, flops=4 * m * n * k)  # fmt: skip


def sums_in_halves(m: int, n: int, k: int) -> Case:
    """A product that adds up in f16."""
    a, b, out = random(m, k) / 8, random(k, n) / 8, empty(m, n)

    def blocks(c: Config) -> tuple[list[int], ...]:
        return [c["BM"], c["BK"]], [c["BK"], c["BN"]], [c["BM"], c["BN"]]

    configs = tiles((128, 128, 64, 4), (128, 256, 64, 8), (256, 128, 64, 8))
    return _of_descriptors("products.sums_in_halves", {"m": m, "n": n, "k": k}, (a, b, out),
                           blocks, configs, lambda: a.double() @ b.double(), flops=2 * m * n * k,
                           tolerance=5e-2)  # fmt: skip


def batched_broadcast(batch: int, m: int, n: int, k: int) -> Case:
    """A batch with one weight, by block pointers."""
    x, w, out = random(batch, m, k, dtype=BF16), random(n, k, dtype=BF16), empty(batch, m, n)
    out = out.to(BF16)
    return form("epilogues.batched_broadcast", "products",
                {"batch": batch, "m": m, "n": n, "k": k},
                lambda c: (*up(m, c["BM"]), *up(n, c["BN"]), batch),
                [x, w, out, m, n, k, m * k, 0], out[0], tiles(*SQUARE),
                lambda: x[0].double() @ w.double().T, flops=2 * batch * m * n * k)  # fmt: skip


def residual_bias_act(m: int, n: int, k: int) -> Case:
    """A linear layer with bias, residual and ReLU, by pointers."""
    x, w, bias, res = random(m, k), random(k, n), random(n), random(m, n)
    out = empty(m, n)

    def exact() -> torch.Tensor:
        return (x.double() @ w.double() + bias.double() + res.double()).relu()

    return form("epilogues.residual_bias_act", "products", {"m": m, "n": n, "k": k},
                lambda c: (*up(m, c["BM"]), *up(n, c["BN"])),
                [x, w, bias, res, out, m, n, k, k, 1, n, 1], out,
                tiles(*SQUARE, ACT="relu", EVEN_K=k % 64 == 0), exact,
                flops=2 * m * n * k)  # fmt: skip


def split_k_lock(m: int, n: int, k: int, split: int) -> Case:
    """Parts of K add up in order, each waiting for the one before."""
    a, b, out = random(m, k), random(k, n), empty(m, n, dtype=F32)
    return form("groups.split_k_lock", "products", {"m": m, "n": n, "k": k, "split": split},
                lambda c: (up(m, c["BM"])[0] * up(n, c["BN"])[0], split),
                [a, b, out, _whole(4096), m, n, k], out,
                tiles((64, 128, 64, 4), (64, 64, 64, 4), (128, 128, 64, 8), SPLIT=split),
                lambda: a.double() @ b.double(), flops=2 * m * n * k)  # fmt: skip


def ternary_weights(m: int, n: int, k: int) -> Case:
    """Weights of two bits, unpacked by joins, times int8."""
    x = torch.randint(-128, 128, (m, k), device=device()).to(torch.int8)
    q = torch.randint(0, 3, (n, k), device=device())
    packed = (q[:, ::4] | q[:, 1::4] << 2 | q[:, 2::4] << 4 | q[:, 3::4] << 6).to(torch.uint8)
    scale, out = torch.full((1,), 0.5, device=device()), empty(m, n, dtype=F32)
    return form("weights.ternary_weights", "products", {"m": m, "n": n, "k": k},
                lambda c: (*up(m, c["BM"]), *up(n, c["BN"])),
                [x, packed.view(torch.int8), scale, out, m, n, k], out,
                tiles((64, 64, 128, 4), (128, 64, 128, 4), (128, 128, 128, 8)),
                lambda: x.double() @ (q - 1).double().T / 2, flops=2 * m * n * k)  # fmt: skip


def block_sparse_sdd(size: int, k: int, block: int) -> Case:
    """A third of a product's blocks, from a list."""
    a, b = random(size, k), random(k, size)
    side = size // block
    places = torch.randperm(side * side, device=device())[: side * side // 3]
    lut = torch.stack((places // side, places % side), 1).int().contiguous()
    out = empty(len(places), block, block)

    def exact() -> torch.Tensor:
        i, j = (int(v) * block for v in lut[0])
        return a[i : i + block].double() @ b[:, j : j + block].double()

    configs = [{"BLOCK": block, "BK": bk, "num_warps": w} for bk, w in ((32, 4), (64, 4), (64, 8))]
    return form("windows.block_sparse_sdd", "products", {"size": size, "k": k, "block": block},
                lambda c: (len(places),), [a, b, out, lut, size, size, k], out[0], configs, exact,
                flops=2 * len(places) * block * block * k)  # fmt: skip


def linear_cross_entropy_rows(rows: int, vocabulary: int, d: int) -> Case:
    """Logits that are never stored: an online softmax over the vocabulary."""
    x, w = random(rows, d, dtype=BF16) / 8, random(vocabulary, d, dtype=BF16) / 8
    target = torch.randint(0, vocabulary, (rows,), device=device())
    loss, lse = empty(rows, dtype=F32), empty(rows, dtype=F32)

    def exact() -> torch.Tensor:
        logits = x[:256].double() @ w.double().T
        return torch.logsumexp(logits, -1) - logits.gather(1, target[:256, None])[:, 0]

    configs = [{"D": d, "BM": m, "BV": v, "BD": 64, "num_warps": n}
               for m, v, n in ((128, 128, 8), (64, 128, 4), (64, 64, 4))]  # fmt: skip
    return form("training.linear_cross_entropy_rows", "products",
                {"rows": rows, "vocabulary": vocabulary, "d": d}, lambda c: up(rows, c["BM"]),
                [x, w, target, loss, lse, rows, vocabulary], loss[:256], configs, exact,
                flops=2 * rows * vocabulary * d)  # fmt: skip


def retention_chunks(heads: int, rows: int, d: int) -> Case:
    """A recurrence by chunks, one program a head, by block pointers."""
    q, k, v = random(heads, rows, d) / 8, random(heads, rows, d) / 8, random(heads, rows, d)
    out = torch.empty_like(v)
    decay = torch.linspace(0.02, 0.2, heads, device=device())

    def exact() -> torch.Tensor:
        at = torch.arange(rows, device=device()).double()
        apart = at[:, None] - at[None, :]
        weights = ((1 - decay[0].double()) ** apart).tril()
        return (q[0].double() @ k[0].double().T * weights) @ v[0].double()

    configs = [{"D": d, "DV": d, "BT": t, "num_warps": w} for t, w in ((64, 4), (64, 8), (128, 8))]
    return form("attention.retention_chunks", "products", {"heads": heads, "rows": rows, "d": d},
                lambda c: (heads,), [q, k, v, out, decay, rows], out[0], configs, exact,
                tolerance=2e-2, flops=8 * heads * rows * d * 64)  # fmt: skip


def chunk_linear_attention(heads: int, rows: int, d: int) -> Case:
    """Chunks of linear attention from states that are known."""
    q, k, v = (random(heads, rows, d, dtype=BF16) for _ in range(3))
    h = random(heads, rows // 64, d, d, dtype=BF16)
    out = torch.empty_like(v)

    def exact() -> torch.Tensor:
        one = q[0, :64].double() * d**-0.5
        return one @ h[0, 0].double() + (one @ k[0, :64].double().T).tril() @ v[0, :64].double()

    configs = [{"K": d, "V": d, "BT": 64, "BK": b, "BV": b, "num_warps": w}
               for b, w in ((64, 4), (64, 2), (32, 2))]  # fmt: skip
    return form("recurrences.chunk_linear_attention", "products",
                {"heads": heads, "rows": rows, "d": d},
                lambda c: (d // c["BV"], rows // 64, heads), [q, k, v, h, out, d**-0.5, rows],
                out[0, :64], configs, exact, tolerance=2e-2,
                flops=heads * rows * d * (2 * d + 4 * 64))  # fmt: skip


def swiglu_rows(rows: int, n: int) -> Case:
    """Gates of a row, bf16."""
    gate, up_ = random(rows, n, dtype=BF16), random(rows, n, dtype=BF16)
    out = torch.empty_like(gate)
    configs = warps(4, 8, 16, n_cols=n, BLOCK=1 << (n - 1).bit_length())
    return form("pointwise.swiglu_rows", "memory", {"rows": rows, "n": n}, lambda c: (rows,),
                [gate, up_, out, n], out, configs,
                lambda: torch.nn.functional.silu(gate.double()) * up_.double(), tolerance=1e-2,
                bytes=6 * rows * n)  # fmt: skip


def running_sums_of_columns(rows: int, n: int) -> Case:
    """Running sums down the columns."""
    x, y = random(rows, n), empty(rows, n, dtype=F32)
    configs = [{"BM": m, "BN": b, "num_warps": w} for m, b, w in ((32, 64, 4), (64, 32, 4))]
    return form("reorderings.running_sums_of_columns", "memory", {"rows": rows, "n": n},
                lambda c: up(n, c["BN"]), [x, y, rows, n], y, configs,
                lambda: x.double().cumsum(0), bytes=6 * rows * n)  # fmt: skip


def largest_with_places(rows: int, n: int, k: int) -> Case:
    """The largest of a row by sorting words of 64 bits."""
    x, out = random(rows, n, dtype=F32), empty(rows, k, dtype=F32)
    where = torch.empty(rows, k, dtype=torch.int32, device=device())
    configs = warps(2, 4, 8, BLOCK=1 << (n - 1).bit_length(), K=k)
    return form("reorderings.largest_with_places", "memory", {"rows": rows, "n": n, "k": k},
                lambda c: (rows,), [x, out, where, n], out, configs,
                lambda: x.double().topk(k).values, bytes=4 * rows * n)  # fmt: skip


def max_pool(images: int, side: int, c: int) -> Case:
    """Maxima of 3 x 3 pixels, every other one, channels last."""
    x, half = random(images, side, side, c), side // 2
    y = empty(images, half, half, c)
    configs = [{"K": 3, "STRIDE": 2, "PAD": 1, "BW": w, "BC": min(c, b), "num_warps": 4}
               for w, b in ((8, 64), (16, 64), (4, 128))]  # fmt: skip
    pool = torch.nn.functional.max_pool2d
    return form("norms.max_pool", "memory", {"images": images, "side": side, "c": c},
                lambda f: (images * half, *up(half, f["BW"]), *up(c, f["BC"])),
                [x, y, side, side, c, half, half], y[:1], configs,
                lambda: pool(x[:1].permute(0, 3, 1, 2).double(), 3, 2, 1).permute(0, 2, 3, 1),
                bytes=2 * (x.numel() + y.numel()))  # fmt: skip


def combine_splits(rows: int, splits: int, d: int) -> Case:
    """The second kernel of flash decoding."""
    parts, lse = random(rows, splits, d, dtype=F32), random(rows, splits, dtype=F32)
    out = torch.empty(rows, d, dtype=BF16, device=device())
    return form("sequences.combine_splits", "memory", {"rows": rows, "splits": splits, "d": d},
                lambda c: (rows,), [parts, lse, out, splits], out,
                warps(1, 2, 4, D=d, SPLITS=splits),
                lambda: (parts.double() * lse.double().softmax(-1)[..., None]).sum(1),
                tolerance=1e-2, bytes=4 * parts.numel())  # fmt: skip


def dropout_add(n: int) -> Case:
    """Random numbers, dropout and a residual; compared with Triton's."""
    x, residual, out = random(n), random(n), empty(n)
    configs = [{"BLOCK": b, "num_warps": w} for b, w in ((1024, 4), (2048, 8), (512, 4))]
    return form("training.dropout_add", "memory", {"n": n}, lambda c: up(n, c["BLOCK"]),
                [x, residual, out, n, 0.25, 1234567890123], out, configs, bytes=6 * n)  # fmt: skip


def quantise_transposed(rows: int, n: int) -> Case:
    """e4m3 as it is and transposed, from one read."""
    x = random(rows, n, dtype=BF16)
    q = torch.empty(rows, n, dtype=torch.float8_e4m3fn, device=device())
    turned = torch.empty(n, rows, dtype=torch.float8_e4m3fn, device=device())
    scale = torch.full((1,), 2.0, device=device())
    configs = [{"BM": m, "BN": b, "num_warps": w}
               for m, b, w in ((64, 64, 4), (128, 64, 4), (32, 128, 4))]  # fmt: skip
    return form("transforms.quantise_transposed", "memory", {"rows": rows, "n": n},
                lambda c: (*up(rows, c["BM"]), *up(n, c["BN"])),
                [x, q, turned, scale, rows, n], turned, configs,
                lambda: (x.float() * 2).to(torch.float8_e4m3fn).T.double(), tolerance=1e-2,
                bytes=4 * rows * n)  # fmt: skip


CASES = [
    *all_sizes(implicit_gemm, (32, 64, 56, 64, 1), (32, 256, 14, 256, 1), (32, 128, 56, 128, 2)),
    *all_sizes(dual_gemm_silu, (4096, 14336, 4096), (512, 4096, 4096)),
    *all_sizes(sums_in_halves, (4096, 4096, 4096), (8192, 8192, 1024)),
    *all_sizes(batched_broadcast, (16, 1024, 1024, 1024), (64, 256, 2048, 512)),
    *all_sizes(residual_bias_act, (4096, 4096, 4096), (1024, 4096, 1000)),
    *all_sizes(split_k_lock, (64, 4096, 8192, 8), (256, 2048, 8192, 4)),
    *all_sizes(ternary_weights, (1024, 4096, 4096), (128, 8192, 4096)),
    *all_sizes(block_sparse_sdd, (4096, 2048, 64), (8192, 1024, 128)),
    *all_sizes(linear_cross_entropy_rows, (4096, 32000, 1024), (8192, 8192, 512)),
    *all_sizes(retention_chunks, (128, 4096, 64), (256, 2048, 64)),
    *all_sizes(chunk_linear_attention, (64, 4096, 128), (128, 2048, 64)),
    *all_sizes(swiglu_rows, (8192, 11008), (4096, 14336)),
    *all_sizes(running_sums_of_columns, (4096, 8192), (16384, 8448)),
    *all_sizes(largest_with_places, (8192, 1024, 8), (16384, 256, 8)),
    *all_sizes(max_pool, (32, 112, 64), (32, 56, 256)),
    *all_sizes(combine_splits, (16384, 16, 128), (65536, 8, 64)),
    *all_sizes(dropout_add, (1 << 24,), (1 << 26,)),
    *all_sizes(quantise_transposed, (8192, 8192), (4096, 14336)),
]
"""Kernels at sizes of models."""
