"""Which loops load their tiles a turn ahead."""

from collections.abc import Iterator

import numpy as np
from simulation import Arrays, check, values
from xdsl.ir import Operation

import tawa
import tawa.language as tl
from tawa.ir.decisions.loops import LoadedIntoRegistersAhead

POINTERS = ["*f16:16"] * 2 + ["*f32:16", "i32:16"]
CONSTANTS = {"BM": 64, "BK": 32, "specialize": False}


@tawa.jit
def product(
    a, b, c, K, BM: tl.constexpr, BK: tl.constexpr, WRITES: tl.constexpr,
    FOLLOWS: tl.constexpr = False,
):  # fmt: skip
    """What is masked off is not zero, so the tiles can't go through a ring.

    Where the next tile of `a` lies may follow from this turn's product.
    """
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    at = a + m[:, None] * K + k[None, :]
    bt = b + m[None, :] * K + k[:, None]
    acc = tl.zeros((BM, BM), tl.float32)
    for left in range(K, 0, -BK):
        x = tl.load(at, mask=k[None, :] < left, other=1.0)
        acc = tl.dot(x, tl.load(bt, mask=k[:, None] < left, other=1.0), acc)
        if WRITES:
            tl.store(at, x * 2, mask=k[None, :] < left)
        at += BK * (1 + (tl.max(acc) > 1e30).to(tl.int32)) if FOLLOWS else BK
        bt += BK
    tl.store(c + m[:, None] * BM + m[None, :], acc)


def ahead(**more: object) -> list[int]:
    """Tiles of each loop that are loaded ahead."""
    compiled = product.compile(*POINTERS, **{**CONSTANTS, "WRITES": False, **more})
    return [found.tiles for found in compiled.decided(LoadedIntoRegistersAhead)]


def test_both_tiles_are_loaded_ahead():
    compiled = product.compile(*POINTERS, **CONSTANTS, WRITES=False)
    assert [found.tiles for found in compiled.decided(LoadedIntoRegistersAhead)] == [2]
    loads = [op for op in compiled.module("aref").walk() if op.name == "tile.load"]
    assert all(op.parent_op().name == "scf.if" for op in loads)


def test_loads_of_what_the_loop_writes_stay():
    assert ahead(WRITES=True) == []


def test_carried_pointers_and_masks_keep_their_multiples():
    text = product.compile(*POINTERS, **CONSTANTS, WRITES=False).stages["cu"]
    assert isinstance(text, str)
    assert "Vector<u32, 4>*>" in text
    assert "Vector<f16, 1>*>" not in text


def test_columns_in_memory_are_staged_as_rows():
    module = product.compile(*POINTERS, **CONSTANTS, WRITES=False).module("aref")
    names = [op.name for op in module.walk()]
    assert names.count("aref.stage") == 2
    assert names.count("aref.view_trans") == 1


@tawa.jit
def decayed(q, k, gates, out, T, D: tl.constexpr, C: tl.constexpr, WRITES: tl.constexpr):
    """Gates are of 16 bits and lie apart: too little to be copied by itself."""
    i, d = tl.arange(0, C), tl.arange(0, D)
    at = i[:, None] * D + d[None, :]
    state = tl.zeros((D, D), tl.float32)
    for start in range(0, T, C):
        x, y = tl.load(q + start * D + at), tl.load(k + start * D + at)
        last = tl.load(gates + 2 * (start + C - 1)).to(tl.float32)
        gate = tl.load(gates + 2 * (start + i)).to(tl.float32)
        o = tl.dot(x, state.to(x.dtype)) * gate[:, None]
        tl.store(out + start * D + at, o)
        if WRITES:
            tl.store(gates + 2 * (start + C + i), gate.to(gates.dtype.element_ty))
        state = tl.dot(y.T, (y * tl.exp2(last - gate)[:, None]).to(y.dtype), state * last)


TYPES = ["*f16:16", "*f16:16", "*f16:16", "*f32:16", "i32:16"]


def small(**more: object) -> list[int]:
    compiled = decayed.compile(*TYPES, D=64, C=64, **{"WRITES": False, "num_warps": 4, **more})
    return [found.tiles for found in compiled.decided(LoadedIntoRegistersAhead)]


def test_gates_of_a_chunk_are_loaded_ahead():
    assert small() == [2]
    assert small(WRITES=True) == []


def test_what_is_loaded_ahead_lies_as_its_users_have_it():
    """No exchange: each thread loads the gates of the rows that it has of the product."""
    compiled = decayed.compile(*TYPES, D=64, C=64, WRITES=False)
    text = str(compiled.module("hopper"))
    loads = [line for line in text.splitlines() if "hopper.global_load" in line]
    assert len(loads) == 2
    assert all("64: 2@0*8 | 4* 8@0*1 | 4@0*16" in line for line in loads)


def test_a_little_is_loaded_with_the_iteration_before():
    """Not only with its products: the latency of memory is longer than those of small tiles."""
    module = decayed.compile(*TYPES, D=64, C=64, WRITES=False).module("aref")
    (load,) = {
        op.parent_op() for op in module.walk()
        if op.name == "tile.load" and "scf.for" in [p.name for p in _around(op)]
    }  # fmt: skip
    before = [op.name for op in load.parent.ops][: load.parent.get_operation_index(load)]
    assert "aref.dot_issue" not in before
    assert "aref.get_enter" not in before


def _around(op: Operation | None) -> Iterator[Operation]:
    while op is not None:
        yield op
        op = op.parent_op()


def test_what_is_loaded_ahead_is_right():
    rng = np.random.default_rng(0)
    T, D = 192, 64
    q, k = (rng.standard_normal((T, D)).astype(np.float16) * 0.1 for _ in range(2))
    gates = rng.uniform(0.5, 1, (T, 2)).astype(np.float16)
    out = np.zeros((T, D), np.float32)
    decayed[(1,)](q, k, gates, out, T, D=D, C=64, WRITES=False)
    state, expected = np.zeros((D, D)), np.zeros((T, D))
    for start in range(0, T, 64):
        rows = slice(start, start + 64)
        x, y, g = (v[rows].astype(np.float64) for v in (q, k, gates[:, 0]))
        expected[rows] = x @ state * g[:, None]
        state = state * g[-1] + y.T @ (y * np.exp2(g[-1] - g)[:, None])
    assert np.abs(out - expected).max() < 2e-2 * np.abs(expected).max()


@tawa.jit
def twice(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    y = tl.load(b + m[:, None] * N + n[None, :])
    first, second = tl.zeros((M, N), tl.float32), tl.zeros((M, N), tl.float32)
    for k in range(0, K, M):
        z = (y * (1 + k)).to(tl.float16)
        x = tl.load(a + m[:, None] * K + (k + m)[None, :])
        w = tl.load(a + (M + m)[:, None] * K + (k + m)[None, :])
        first = tl.dot(x, z, first)
        second = tl.dot(w, z, second)
    tl.store(c + m[:, None] * N + n[None, :], first + second)


def test_a_tile_that_two_products_read_is_copied_once():
    compiled = twice.compile("*f16:16", "*f16:16", "*f32:16", "i32:16", 64, 64)
    names = [op.name for op in compiled.module("aref").walk()]
    assert names.count("aref.dot_issue") == 2
    assert names.count("aref.stage") == 1
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((128, 128), (64, 64)))
    c = np.zeros((64, 64), np.float32)
    twice[(1,)](a, b, c, 128, 64, 64)
    both = (a[:64] + a[64:]).astype(np.float64)
    assert np.array_equal(c, both[:, :64] @ b + both[:, 64:] @ (b * 65.0))


@tawa.jit
def rows_with_all(q, k, out, R: tl.constexpr, D: tl.constexpr, WRITES: tl.constexpr):
    """Products of each row of K with all rows of Q, one after the other."""
    r, d = tl.arange(0, R), tl.arange(0, D)
    x = tl.load(q + r[:, None] * D + d[None, :]).to(tl.float32)
    for j in range(R):
        y = tl.load(k + j * D + d).to(tl.float32)
        tl.store(out + r * R + j, tl.sum(x * tl.exp2(y)[None, :], 1))
        if WRITES:
            tl.store(k + (j + 1) * D + d, y.to(k.dtype.element_ty))


def rows_ahead(warps: int, *, writes: bool = False) -> list[int]:
    constants = {"R": 16, "D": 64, "WRITES": writes, "num_warps": warps}
    compiled = rows_with_all.compile("*bf16:16", "*bf16:16", "*f32:16", **constants)
    return [found.tiles for found in compiled.decided(LoadedIntoRegistersAhead)]


def test_a_row_that_much_is_computed_with_is_loaded_ahead():
    assert rows_ahead(1) == [1]
    assert rows_ahead(4) == []  # a thread has eight elements of the block, and of the row
    assert rows_ahead(1, writes=True) == []


def test_rows_that_are_loaded_ahead_are_right():
    arrays = Arrays()
    q, k = arrays.random("bf16", 16, 64), arrays.random("bf16", 16, 64)
    out = arrays.output("f32", 16, 16)
    expected = values(q) @ np.exp2(values(k)).T
    check(
        rows_with_all, (1,), [q, k, out], {2: expected}, 1e-4, ("tile", "hopper", "ptx"),
        R=16, D=64, WRITES=False, num_warps=1,
    )  # fmt: skip


@tawa.jit
def sums_of_blocks(x, out, N, BLOCK: tl.constexpr):
    found = 0.0
    for start in range(0, N, BLOCK):
        found += tl.sum(tl.load(x + start + tl.arange(0, BLOCK)), 0)
    tl.store(out, found)


def test_what_is_only_combined_is_not_loaded_ahead():
    compiled = sums_of_blocks.compile("*f32:16", "*f32:16", "i32:16", BLOCK=512, num_warps=4)
    assert not list(compiled.decided(LoadedIntoRegistersAhead))


def test_what_follows_from_a_product_is_not_loaded_ahead_of_it():
    compiled = product.compile(*POINTERS, WRITES=False, FOLLOWS=True, **CONSTANTS)
    assert [found.tiles for found in compiled.decided(LoadedIntoRegistersAhead)] == []
    compiled.module("aref").verify()


@tawa.jit
def found_first(a, b, c, K, BM: tl.constexpr, BK: tl.constexpr):
    """Where both tiles of a turn begin is found in a loop of the same turn."""
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros((BM, BM), tl.float32)
    start = K * 0
    for left in range(K, 0, -BK):
        for i in range(3):
            start = (start + left + i) % 3
        x = tl.load(a + start * BK + m[:, None] * K + k[None, :], mask=k[None, :] < left, other=1.0)
        y = tl.load(b + start * BK + m[None, :] * K + k[:, None], mask=k[:, None] < left, other=1.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * BM + m[None, :], acc)


def test_what_a_loop_finds_is_not_known_a_turn_ahead():
    """Nor is it because it was asked for before: small tiles are looked at with others and alone."""
    compiled = found_first.compile(*POINTERS, BM=16, BK=16, specialize=False)
    assert not compiled.decided(LoadedIntoRegistersAhead)
    loops = [op for op in compiled.module("aref").walk() if op.name == "scf.for"]
    assert len(loops) == 2
