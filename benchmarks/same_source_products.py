"""Products in the forms of engines: attention, experts, few bits, recurrences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from same_source_case import Case, empty, random
from same_source_suite import BF16, F32, Config, all_sizes, device, form, tiles, up, warps

WIDE = ((128, 128, 64, 8), (128, 128, 64, 4), (64, 128, 64, 4), (128, 64, 64, 4))
NARROW = ((16, 64, 128, 4), (16, 128, 64, 4), (32, 64, 64, 4))


def _tiled(m: int, n: int) -> Callable[[Config], tuple[int, ...]]:
    return lambda c: (*up(m, c["BM"]), *up(n, c["BN"]))


def _backward_inputs(rows: int, heads: int, d: int) -> tuple[list[torch.Tensor], Any]:
    q, k, v, do = (random(heads, rows, d) for _ in range(4))
    s = (q[0].float() @ k[0].float().T) * d**-0.5
    s.masked_fill_(torch.ones_like(s, dtype=torch.bool).triu_(1), -torch.inf)
    first = torch.logsumexp(s, -1)
    lse = first.expand(heads, rows).contiguous()
    p = torch.exp(s - first[:, None])
    delta = ((p @ v[0].float()) * do[0].float()).sum(-1).expand(heads, rows).contiguous()
    ds = p * (do[0].float() @ v[0].float().T - delta[0][:, None])
    return [q, k, v, do, lse, delta], (p, ds)


def attention_dkdv(d: int, rows: int, heads: int) -> Case:
    """Backward of causal attention for keys and values; checked on the first head."""
    args, (_, ds) = _backward_inputs(rows, heads, d)
    dk, dv = (empty(heads, rows, d, dtype=F32) for _ in range(2))
    configs = [{"BM": m, "BN": n, "D": d, "num_warps": w}
               for m, n, w in ((64, 128, 8), (64, 64, 4), (32, 128, 4))]  # fmt: skip
    return form("sequences.attention_dkdv", "products", {"d": d, "rows": rows, "heads": heads},
                lambda c: (*up(rows, c["BN"]), heads), [*args, dk, dv, d**-0.5, rows], dk[0],
                configs, lambda: (ds.T @ args[0][0].float() * d**-0.5).double(), tolerance=2e-2,
                flops=4 * heads * rows * rows * d)  # fmt: skip


def attention_dq(d: int, rows: int, heads: int) -> Case:
    """Backward of causal attention for queries."""
    args, (_, ds) = _backward_inputs(rows, heads, d)
    dq = empty(heads, rows, d, dtype=F32)
    configs = [{"BM": m, "BN": n, "D": d, "num_warps": w}
               for m, n, w in ((128, 64, 8), (64, 64, 4), (128, 32, 4))]  # fmt: skip
    return form("sequences.attention_dq", "products", {"d": d, "rows": rows, "heads": heads},
                lambda c: (*up(rows, c["BM"]), heads), [*args, dq, d**-0.5, rows], dq[0], configs,
                lambda: (ds @ args[1][0].float() * d**-0.5).double(), tolerance=2e-2,
                flops=3 * heads * rows * rows * d)  # fmt: skip


def grouped_by_offsets(rows: int, n: int, k: int, groups: int) -> Case:
    """Rows of experts follow each other; persistent programs."""
    x, w, out = random(rows, k, dtype=BF16), random(groups, n, k, dtype=BF16), empty(rows, n)
    out = out.to(BF16)
    cuts = torch.linspace(0, rows, groups + 1, device=x.device).int()
    ends = (cuts[1:] - torch.arange(groups, device=x.device).int() % 7).clamp(0, rows)
    ends[-1] = rows
    first = int(ends[0])
    return form("groups.grouped_by_offsets", "products",
                {"rows": rows, "n": n, "k": k, "groups": groups}, lambda c: (132,),
                [x, w, out, ends, n, k], out[:first],
                tiles(*WIDE, G=groups, PROGRAMS=132),
                lambda: x[:first].double() @ w[0].double().T, flops=2 * rows * n * k)  # fmt: skip


def paged_decode(sequences: int, length: int, heads: int) -> Case:
    """One token a sequence, keys in pages of 16; 8 heads of keys."""
    d, page, kv = 128, 16, 8
    each = -(-length // page)
    q = random(sequences, heads, d, dtype=BF16)
    keys, vals = (random(sequences * each, page, kv, d, dtype=BF16) for _ in range(2))
    table = torch.randperm(sequences * each, device=q.device).int().view(sequences, each)
    lens = torch.full((sequences,), length, device=q.device).int()
    o, group = torch.empty_like(q), heads // kv

    def exact() -> torch.Tensor:
        k, v = (x[table[0].long()].reshape(-1, kv, d)[:length].double() for x in (keys, vals))
        s = torch.einsum("hgd,nhd->hgn", q[0].double().view(kv, group, d), k) * d**-0.5
        return torch.einsum("hgn,nhd->hgd", torch.softmax(s, -1), v).reshape(heads, d)

    return form("sequences.paged_decode", "products",
                {"sequences": sequences, "length": length, "heads": heads},
                lambda c: (sequences, kv),
                [q, keys, vals, table, lens, o, d**-0.5, heads * d, each], o[0],
                warps(1, 2, 4, HEADS_KV=kv, G=group, GP=16, D=d, PAGE=page), exact, tolerance=2e-2,
                bytes=4 * sequences * length * kv * d)  # fmt: skip


def decode_split(length: int, splits: int, d: int) -> Case:
    """Flash decoding of one group of heads: each part of the keys a program, a multiple of 128."""
    q, k, v = (
        random(16, d, dtype=BF16),
        random(length, d, dtype=BF16),
        random(length, d, dtype=BF16),
    )
    o, lse = empty(splits, 16, d, dtype=F32), empty(splits, 16, dtype=F32)
    configs = [{"SPLITS": splits, "G": 16, "D": d, "BN": n, "num_warps": w}
               for n, w in ((32, 4), (64, 4), (128, 4))]  # fmt: skip

    def exact() -> torch.Tensor:
        s = q.double() @ k.double().T * d**-0.5
        return torch.logsumexp(s[:, : -(-length // splits)], -1)

    return form("attention.decode_split", "products",
                {"length": length, "splits": splits, "d": d}, lambda c: (splits,),
                [q, k, v, o, lse, length, d**-0.5], lse[0], configs, exact, tolerance=2e-2,
                bytes=4 * length * d)  # fmt: skip


def varlen_attention(sequences: int, length: int, heads: int) -> Case:
    """Packed sequences, causal; all of one length here, which the kernel does not know."""
    d, total = 128, sequences * length
    q, k, v = (random(total, heads, d, dtype=BF16) for _ in range(3))
    o = torch.empty_like(q)
    starts = (torch.arange(sequences + 1, device=q.device) * length).int()
    configs = [{"HEADS": heads, "D": d, "BM": m, "BN": n, "CAUSAL": True, "num_warps": w}
               for m, n, w in ((128, 64, 8), (64, 64, 4), (128, 64, 4))]  # fmt: skip

    def exact() -> torch.Tensor:
        a, b, c = (x[:length, 0].double() for x in (q, k, v))
        s = a @ b.T * d**-0.5
        s.masked_fill_(torch.ones_like(s, dtype=torch.bool).triu_(1), -torch.inf)
        return torch.softmax(s, -1) @ c

    return form("recurrences.varlen_attention", "products",
                {"sequences": sequences, "length": length, "heads": heads},
                lambda c: (*up(length, c["BM"]), sequences * heads),
                [q, k, v, o, starts, d**-0.5], o[:length, 0], configs, exact, tolerance=2e-2,
                flops=2 * total * length * heads * d)  # fmt: skip


def window_attention(rows: int, window: int, heads: int) -> Case:
    """A sliding window with sinks."""
    d = 64
    q, k, v = (random(heads, rows, d, dtype=BF16) for _ in range(3))
    sink, o = random(heads, dtype=F32), torch.empty_like(q)
    same = {"WINDOW": window, "HAS_SINK": True, "D": d, "STAGE": 1}
    configs = [{"BM": m, "BN": n, "num_warps": w, **same}
               for m, n, w in ((128, 64, 8), (64, 64, 4), (128, 64, 4))]  # fmt: skip
    return form("sequences.window_attention", "products",
                {"rows": rows, "window": window, "heads": heads},
                lambda c: (*up(rows, c["BM"]), heads), [q, k, v, sink, o, d**-0.5, rows], o,
                configs, tolerance=2e-2, flops=4 * rows * window * heads * d)  # fmt: skip


def _sorted(
    valid: int, experts: int, block: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """An expert for each of some rows; the rows by expert, padded to blocks; each block's."""
    pick = (torch.arange(valid) * 7919 // 3) % experts
    ids, of = list[int](), list[int]()
    for expert in range(experts):
        mine = torch.nonzero(pick == expert).flatten().tolist()
        mine += [valid] * (-len(mine) % block)
        ids += mine
        of += [expert] * (len(mine) // block)
    return pick, *(torch.tensor(v, dtype=torch.int32, device=device()) for v in (ids, of))


def moe_int4(tokens: int, n: int, k: int, experts: int) -> Case:
    """W4A16 weights of experts, two a byte along K, groups of 128; two experts a token."""
    group, valid, block = 128, 2 * tokens, 16 if tokens < 1024 else 64
    x = random(tokens, k, dtype=BF16)
    packed = torch.randint(-128, 128, (experts, n, k // 2), device=device()).to(torch.int8)
    scales = (torch.rand(experts, n, k // group, device=device()) * 0.02).to(BF16)
    pick, ids, of = _sorted(valid, experts, block)
    out = empty(valid, n).to(BF16)

    def exact() -> torch.Tensor:
        one = int(pick[0])
        byte = packed[one].int() & 255
        q = torch.stack([byte & 15, byte >> 4], -1).reshape(n, k).double() - 8
        return x[:1].double() @ (q * scales[one].double().repeat_interleave(group, 1)).T

    args = [x, packed, scales, out, ids, of, n, k, valid]
    constants = {"BM": block, "TOP": 2, "GROUP": group}
    shapes = (64, 64, 4), (64, 128, 4), (32, 64, 4), (128, 128, 8)
    configs = [{"BN": bn, "BK": bk, "num_warps": w, **constants} for bn, bk, w in shapes]
    return form("weights.moe_int4", "products",
                {"tokens": tokens, "n": n, "k": k, "experts": experts},
                lambda c: (len(of) * -(-n // c["BN"]),), args, out[:1], configs, exact,
                tolerance=1e-2, flops=2 * valid * n * k)  # fmt: skip


def moe_gather(tokens: int, n: int, k: int, experts: int) -> Case:
    """Tokens sorted by expert, two experts a token, padded to blocks of 64."""
    block, top_k, valid = 64, 2, 2 * tokens
    x, w = random(tokens, k, dtype=BF16), random(experts, n, k, dtype=BF16)
    out = empty(valid, n).to(BF16)
    pick, sorted_ids, expert_ids = _sorted(valid, experts, block)
    padded = torch.tensor([len(sorted_ids)], dtype=torch.int32, device=x.device)
    of, weight = expert_ids, torch.rand(valid, device=x.device)
    chosen = w[int(pick[0])].double()
    args = [x, w, out, weight, sorted_ids, expert_ids, padded, n, k, valid, k, 1, n * k, 1, k, n, 1]
    import tawa.language as tl

    constants = {"BM": block, "GROUP": 8, "MUL": True, "top_k": top_k, "compute_type": tl.bfloat16}
    configs = [{"BN": bn, "BK": bk, "num_warps": w_, **constants}
               for bn, bk, w_ in ((128, 64, 4), (64, 64, 4), (256, 64, 8))]  # fmt: skip
    return form("groups.moe_gather", "products",
                {"tokens": tokens, "n": n, "k": k, "experts": experts},
                lambda c: (len(of) * -(-n // c["BN"]),), args, out[:1], configs,
                lambda: x[:1].double() @ chosen.T * weight[0].double(), tolerance=1e-2,
                flops=2 * valid * n * k)  # fmt: skip


def int8_matmul(m: int, n: int, k: int) -> Case:
    """W8A8: int8 times int8 with scales of rows and columns."""
    x, w = (torch.randint(-128, 128, shape, device=device()).to(torch.int8)
            for shape in ((m, k), (n, k)))  # fmt: skip
    xs, ws, out = torch.rand(m, device=device()), torch.rand(n, device=device()), empty(m, n)
    out = out.to(BF16)
    return form("quantised.int8_matmul", "products", {"m": m, "n": n, "k": k}, _tiled(m, n),
                [x, w, xs, ws, out, m, n, k], out[:16],
                tiles((128, 128, 128, 8), (128, 128, 64, 4), (64, 128, 128, 4)),
                lambda: x[:16].double() @ w.double().T * xs[:16, None].double() * ws.double(),
                tolerance=1e-2, flops=2 * m * n * k)  # fmt: skip


def int4_matmul(m: int, n: int, k: int) -> Case:
    """W4A16: eight weights a word along K, groups of 128."""
    group = 128
    words = torch.randint(-(2**31), 2**31, (k // 8, n), device=device()).int()
    x, scales = random(m, k), torch.rand(k // group, n, device=device()) * 0.1
    zeros = torch.randint(4, 12, (k // group, n), device=device()).float()
    out = empty(m, n)

    def exact() -> torch.Tensor:
        shifts = torch.arange(8, device=words.device)[None, :, None] * 4
        q = ((words.long()[:, None] >> shifts) & 15).reshape(k, n).double()
        wide = q - zeros.double().repeat_interleave(group, 0)
        return x[:16].double() @ (wide * scales.double().repeat_interleave(group, 0))

    shapes = NARROW if m <= 32 else WIDE
    return form("quantised.int4_matmul", "products", {"m": m, "n": n, "k": k}, _tiled(m, n),
                [x, words, scales, zeros, out, m, n, k], out[:16],
                tiles(*((a, b, 64, d) for a, b, _, d in shapes), GROUP=group), exact,
                tolerance=1e-2, flops=2 * m * n * k)  # fmt: skip


def int8_weights(m: int, n: int, k: int) -> Case:
    """W8A16: int8 weights, scales of columns, a bias."""
    w = torch.randint(-128, 128, (n, k), device=device()).to(torch.int8)
    x, bias, s = random(m, k, dtype=BF16), random(n, dtype=BF16), torch.rand(n, device=device())
    y = empty(m, n).to(BF16)
    shapes = NARROW if m <= 32 else WIDE
    return form("weights.int8_weights", "products", {"m": m, "n": n, "k": k}, _tiled(m, n),
                [x, w, s, bias, y, m, n, k], y[:16], tiles(*shapes, HAS_BIAS=True),
                lambda: x[:16].double() @ w.double().T * s.double() + bias.double(),
                tolerance=1e-2, flops=2 * m * n * k)  # fmt: skip


def fp8_block_scaled(m: int, n: int, k: int) -> Case:
    """fp8 with scales of 128 columns of K."""
    x, w = (random(*s, dtype=F32).clamp(-4, 4).to(torch.float8_e4m3fn) for s in ((m, k), (n, k)))
    xs, ws = torch.rand(m, k // 128, device=device()), torch.rand(n // 128, k // 128,
                                                                   device=device())  # fmt: skip
    out = empty(m, n).to(BF16)

    def exact() -> torch.Tensor:
        a = x[:16].double() * xs[:16].double().repeat_interleave(128, 1)
        b = w.double() * ws.double().repeat_interleave(128, 0).repeat_interleave(128, 1)
        return a @ b.T

    return form("quantised.fp8_block_scaled", "products", {"m": m, "n": n, "k": k}, _tiled(m, n),
                [x, w, xs, ws, out, m, n, k], out[:16],
                tiles((128, 128, 128, 8), (64, 128, 128, 4), (128, 64, 128, 4)), exact,
                tolerance=1e-2, flops=2 * m * n * k)  # fmt: skip


def block_scaled_fp8(m: int, n: int, k: int) -> Case:
    """The same as engines write it: tiles in groups of rows, rows and columns modulo."""
    x, w = (random(*s, dtype=F32).clamp(-4, 4).to(torch.float8_e4m3fn) for s in ((m, k), (n, k)))
    xs, ws = (torch.rand(rows, k // 128, device=device()) for rows in (m, n // 128))
    out = empty(m, n).to(BF16)

    def exact() -> torch.Tensor:
        a = x[:16].double() * xs[:16].double().repeat_interleave(128, 1)
        b = w.double() * ws.double().repeat_interleave(128, 0).repeat_interleave(128, 1)
        return a @ b.T

    return form("weights.block_scaled_fp8", "products", {"m": m, "n": n, "k": k},
                lambda c: (-(-m // c["BM"]) * -(-n // c["BN"]),), [x, w, out, xs, ws, m, n, k],
                out[:16], tiles((128, 128, 128, 8), (64, 128, 128, 4), GROUP_M=8), exact,
                tolerance=1e-2, flops=2 * m * n * k)  # fmt: skip


def int4_gemm_tall_packed(m: int, n: int, k: int) -> Case:
    """W4A16 in GPTQ's form: zeros are packed too; the compilers are compared with each other."""
    group = 128
    words, zeros = (torch.randint(-(2**31), 2**31, s, device=device()).int()
                    for s in ((k // 8, n), (k // group, n // 8)))  # fmt: skip
    x, scales, y = random(m, k), random(k // group, n) * 0.1, empty(m, n)
    shapes = NARROW if m <= 32 else WIDE
    return form("weights.int4_gemm_tall_packed", "products", {"m": m, "n": n, "k": k},
                _tiled(m, n), [x, words, scales, zeros, y, m, n, k], y[:16],
                tiles(*((a, b, 64, d) for a, b, _, d in shapes), G=group), tolerance=1e-2,
                flops=2 * m * n * k)  # fmt: skip


def lora(m: int, n: int, k: int) -> Case:
    """A product with an update of rank 16."""
    x, w, down, high = (random(*s) for s in ((m, k), (k, n), (k, 16), (16, n)))
    out = empty(m, n)

    def exact() -> torch.Tensor:
        a = x[:16].double()
        return a @ w.double() + 0.5 * (a @ down.double() @ high.double())

    return form("products.lora", "products", {"m": m, "n": n, "k": k}, _tiled(m, n),
                [x, w, down, high, out, 0.5, m, n, k], out[:16], tiles(*WIDE, RANK=16), exact,
                flops=2 * m * k * (n + 16))  # fmt: skip


def matmul(m: int, n: int, k: int) -> Case:
    """f32 through tf32 products, both operands in rows."""
    x, w, out = random(m, k, dtype=F32), random(k, n, dtype=F32), empty(m, n, dtype=F32)
    return form("products.matmul", "products", {"m": m, "n": n, "k": k},
                lambda c: (-(-m // c["BM"]) * -(-n // c["BN"]),),
                [x, w, out, m, n, k, k, 1, n, 1, n, 1], out[:16],
                tiles((128, 128, 32, 8), (128, 64, 32, 4), (64, 128, 32, 4), ACTIVATION=None,
                      PRECISION="tf32"),
                lambda: x[:16].double() @ w.double(), flops=2 * m * n * k)  # fmt: skip


def ssd_chunk_scan(rows: int, n: int, p: int) -> Case:
    """Inside a chunk of a state-space model."""
    x, b, c = random(rows, p, dtype=BF16), random(rows, n, dtype=BF16), random(rows, n, dtype=BF16)
    dt, a = torch.rand(rows, device=device()) / 4, torch.full((1,), -0.5, device=device())
    y = torch.empty_like(x)
    configs = [{"N": n, "P": p, "BT": t, "num_warps": w} for t, w in ((64, 4), (128, 8), (128, 4))]
    return form("attention.ssd_chunk_scan", "products", {"rows": rows, "n": n, "p": p},
                lambda cfg: up(rows, cfg["BT"]), [x, dt, a, b, c, y, rows], y[:64], configs,
                tolerance=2e-2)  # fmt: skip


def gated_state(rows: int, d: int) -> Case:
    """States of a gated recurrence, chunk by chunk, in one program."""
    k, v, g = random(rows, d, dtype=BF16), random(rows, d, dtype=BF16), -torch.rand(
        rows, device=device()) * 0.1  # fmt: skip
    configs = [{"D": d, "BT": t, "num_warps": w} for t, w in ((64, 4), (64, 8), (32, 4))]
    h = empty(-(-rows // 32), d, d, dtype=F32)
    return form("attention.gated_state", "products", {"rows": rows, "d": d}, lambda c: (1,),
                [k, v, g, h, rows], h[1], configs[:2], tolerance=2e-2)  # fmt: skip


LINEAR = (4096, 4096, 4096), (1024, 8192, 2048), (2048, 5120, 5120)
DECODED = (16, 4096, 4096), (256, 4096, 4096), (2048, 8192, 4096)
CASES: list[Callable[[], Case]] = [
    *all_sizes(attention_dkdv, (64, 1024, 128), (64, 4096, 32), (128, 2048, 32)),
    *all_sizes(attention_dq, (64, 1024, 128), (64, 4096, 32), (128, 2048, 32)),
    *all_sizes(grouped_by_offsets, (4096, 4096, 2048, 8), (8192, 2048, 4096, 16),
          (2048, 7168, 2048, 32)),
    *all_sizes(paged_decode, (64, 1024, 32), (16, 8192, 32), (256, 512, 64)),
    *all_sizes(decode_split, (131072, 128, 128), (65536, 128, 64), (524288, 256, 128)),
    *all_sizes(varlen_attention, (16, 1024, 16), (4, 4096, 16), (64, 512, 16)),
    *all_sizes(window_attention, (4096, 128, 64), (8192, 1024, 64), (2048, 256, 256)),
    *all_sizes(moe_int4, (16, 4096, 4096, 8), (128, 4096, 4096, 8), (1024, 4096, 4096, 8)),
    *all_sizes(moe_gather, (1024, 4096, 2048, 8), (4096, 2048, 4096, 16), (512, 7168, 2048, 64)),
    *(size for make in (int8_matmul, fp8_block_scaled, block_scaled_fp8, lora, matmul)
      for size in all_sizes(make, *LINEAR)),
    *(size for make in (int4_matmul, int8_weights, int4_gemm_tall_packed)
      for size in all_sizes(make, *DECODED)),
    *all_sizes(ssd_chunk_scan, (65536, 64, 64), (131072, 128, 64), (32768, 128, 128)),
    *all_sizes(gated_state, (4096, 64), (16384, 64), (4096, 128)),
]  # fmt: skip
