"""The benchmarks' matrix multiplications, as plain functions in Triton's language.

The same functions are compiled by Triton and by Tawa. C[M, N] = A[M, K] B[N, K]^T; all three
matrices are given by tensor descriptors.
"""

try:
    import triton.language as tl
except ImportError:
    import tawa.language as tl


def gemm(
    a_desc,
    b_desc,
    c_desc,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """One tile of C a program; programs run down groups of GROUP_M rows of tiles."""
    pid = tl.program_id(0)
    rows = tl.cdiv(M, BLOCK_M)
    columns = tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * columns)
    first = group * GROUP_M
    height = min(rows - first, GROUP_M)
    inside = pid % (GROUP_M * columns)
    m = (first + inside % height) * BLOCK_M
    n = (inside // height) * BLOCK_N
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([m, k * BLOCK_K])
        b = b_desc.load([n, k * BLOCK_K])
        accumulator = tl.dot(a, b.T, accumulator)
    c_desc.store([m, n], accumulator.to(c_desc.dtype))


def gemm_persistent(
    a_desc,
    b_desc,
    c_desc,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    PROGRAMS: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    """The same with a tile loop of its own: PROGRAMS programs share the tiles."""
    rows = tl.cdiv(M, BLOCK_M)
    columns = tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), rows * columns, PROGRAMS, flatten=FLATTEN):
        group = tile // (GROUP_M * columns)
        first = group * GROUP_M
        height = min(rows - first, GROUP_M)
        inside = tile % (GROUP_M * columns)
        m = (first + inside % height) * BLOCK_M
        n = (inside // height) * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            a = a_desc.load([m, k * BLOCK_K])
            b = b_desc.load([n, k * BLOCK_K])
            accumulator = tl.dot(a, b.T, accumulator)
        c_desc.store([m, n], accumulator.to(c_desc.dtype))
