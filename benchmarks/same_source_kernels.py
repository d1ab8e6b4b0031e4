"""Ordinary kernels, as plain functions in Triton's language, compiled by Triton and by Tawa.

Each is written as its author would who knows neither compiler's options: scales stand where the
formula has them, masks where the elements are.
"""

try:
    import triton.language as tl
except ImportError:
    import tawa.language as tl


def attention(
    q_desc, k_desc, v_desc, o_desc, S, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1) * S
    q = q_desc.load([base + start, 0])
    top = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    rows = start + tl.arange(0, BLOCK_M)
    end = start + BLOCK_M if CAUSAL else S
    for n in range(0, end, BLOCK_N):
        k = k_desc.load([base + n, 0])
        scores = tl.dot(q, k.T) * scale
        if CAUSAL:
            columns = n + tl.arange(0, BLOCK_N)
            scores = tl.where(rows[:, None] >= columns[None, :], scores, -float("inf"))
        new = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp(scores - new[:, None])
        factor = tl.exp(top - new)
        total = total * factor + tl.sum(p, 1)
        v = v_desc.load([base + n, 0])
        acc = acc * factor[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = new
    o_desc.store([base + start, 0], (acc / total[:, None]).to(o_desc.dtype))


def matmul_pointers(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * columns)
    first = group * GROUP_M
    height = min(rows - first, GROUP_M)
    tile_m = first + pid % (GROUP_M * columns) % height
    tile_n = pid % (GROUP_M * columns) // height
    m = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    n = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    at_a = a + m[:, None] * stride_am + k[None, :] * stride_ak
    at_b = b + k[:, None] * stride_bk + n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for i in range(tl.cdiv(K, BLOCK_K)):
        left = K - i * BLOCK_K
        x = tl.load(at_a, mask=k[None, :] < left, other=0.0)
        y = tl.load(at_b, mask=k[:, None] < left, other=0.0)
        acc = tl.dot(x, y, acc)
        at_a += BLOCK_K * stride_ak
        at_b += BLOCK_K * stride_bk
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    at_c = c + m[:, None] * stride_cm + n[None, :] * stride_cn
    tl.store(at_c, acc.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


def softmax(x, y, stride, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + columns, mask=columns < N, other=-float("inf"))
    shifted = values.to(tl.float32) - tl.max(values.to(tl.float32), 0)
    p = tl.exp(shifted)
    tl.store(y + row * stride + columns, (p / tl.sum(p, 0)).to(y.dtype.element_ty),
             mask=columns < N)  # fmt: skip


def layer_norm(x, y, weight, bias, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    values = tl.load(x + row * stride + columns, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(values, 0) / N
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / N + eps)
    w = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * stride + columns, (centred * scale * w + b).to(y.dtype.element_ty),
             mask=inside)  # fmt: skip


def swiglu(gate, up, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(gate + at, mask=at < n, other=0.0).to(tl.float32)
    u = tl.load(up + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out + at, (g * tl.sigmoid(g) * u).to(out.dtype.element_ty), mask=at < n)


def cross_entropy(logits, targets, loss, stride, V, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    total = 0.0
    for start in range(0, V, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(logits + row * stride + columns, mask=columns < V, other=-float("inf"))
        x = x.to(tl.float32)
        new = tl.maximum(top, tl.max(x, 0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), 0)
        top = new
    target = tl.load(targets + row)
    chosen = tl.load(logits + row * stride + target).to(tl.float32)
    tl.store(loss + row, top + tl.log(total) - chosen)


def linear_attention(
    q_desc, k_desc, v_desc, o_desc, S,
    D: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    base = tl.program_id(0) * S
    state = tl.zeros((D, D), tl.float32)
    row = tl.arange(0, C)
    for start in range(0, S, C):
        q = q_desc.load([base + start, 0])
        k = k_desc.load([base + start, 0])
        v = v_desc.load([base + start, 0])
        scores = tl.where(row[:, None] >= row[None, :], tl.dot(q, k.T), 0.0)
        out = tl.dot(scores.to(v.dtype), v)
        out = tl.dot(q, state.to(q.dtype), out)
        state = tl.dot(k.T, v, state)
        o_desc.store([base + start, 0], out.to(o_desc.dtype))
