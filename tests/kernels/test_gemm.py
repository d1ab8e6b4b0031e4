"""The library's GEMM: its choice of configurations, and `matmul` on NumPy arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.kernels.gemm import (
    Configuration,
    OutputTypeUnknown,
    Product,
    SizesDoNotMatch,
    configuration,
    configurations,
    matmul,
    reference,
)
from tawa.kernels.gemm_configurations import HOPELESS, fastest, few_columns, ranked, splits
from tawa.runtime import sass


def matrix(rng: np.random.Generator, rows: int, columns: int, turned: bool, dtype=np.float16):
    if turned:
        return rng.standard_normal((columns, rows)).astype(dtype).T
    return rng.standard_normal((rows, columns)).astype(dtype)


def error(result: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    expected = reference(a.astype(np.float64), b.astype(np.float64))
    return float(np.linalg.norm(result - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("turned_a", [False, True])
@pytest.mark.parametrize("turned_b", [False, True])
def test_matrices_that_lie_either_way(turned_a: bool, turned_b: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = matrix(rng, 200, 136, turned_a), matrix(rng, 136, 328, turned_b)
    out = np.full((200, 328), np.nan, np.float16)
    assert matmul(a, b, out) is out
    assert error(out, a, b) < 1e-3


def test_result_has_the_inputs_type() -> None:
    rng = np.random.default_rng(0)
    a, b = (matrix(rng, 64, 64, False, np.float32) for _ in range(2))
    result = matmul(a, b.T.copy().T)
    assert result.dtype == np.float32
    assert error(result, a, b) < 1e-3


def test_integers() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (2, 64, 128)).astype(np.int8)
    out = np.zeros((64, 64), np.int32)
    matmul(a, b.T, out)
    assert (out == a.astype(int) @ b.T.astype(int)).all()
    with pytest.raises(OutputTypeUnknown):
        matmul(a, b.T)


def test_sizes_must_match() -> None:
    a = np.zeros((64, 32), np.float16)
    with pytest.raises(SizesDoNotMatch, match="64x32, 64x32"):
        matmul(a, a)
    with pytest.raises(SizesDoNotMatch):
        matmul(a, a.T, np.zeros((64, 32), np.float16))


@pytest.mark.parametrize(("turned_a", "turned_b"), [(False, True), (True, False)])
@pytest.mark.parametrize("split", [3, 8])
def test_parts_of_k_add_up(split: int, turned_a: bool, turned_b: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = matrix(rng, 72, 520, turned_a), matrix(rng, 520, 136, turned_b)
    wide = np.full((72, 160), np.nan, np.float16)
    matmul(a, b, wide[:, 8:144], Configuration(64, 64, 64, split=split))
    assert error(wide[:, 8:144], a, b) < 1e-3
    assert np.isnan(wide[:, :8]).all()
    assert np.isnan(wide[:, 144:]).all()


def test_parts_of_integers_add_up_exactly() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (2, 64, 512)).astype(np.int8)
    out = np.zeros((64, 64), np.int32)
    matmul(a, b.T, out, Configuration(64, 32, 128, split=2))
    assert (out == a.astype(int) @ b.T.astype(int)).all()


def shape(config: Configuration) -> tuple[int, int, bool, bool]:
    ping_pong = bool(config.options.get("ping_pong"))
    return config.block_m, config.block_n, ping_pong, config.split > 1


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((8192, 8192, 256), (128, 192, True, False)),
        ((8192, 8192, 2048), (128, 192, True, False)),
        ((8192, 8192, 8192), (256, 200, False, False)),
        ((8192, 8192, 16384), (256, 200, False, False)),
        ((4096, 4096, 4096), (128, 256, False, False)),
        ((2048, 2048, 2048), (128, 256, False, False)),
        ((8192, 256, 8192), (128, 128, False, False)),
        ((16384, 256, 2048), (128, 256, False, False)),
        ((1024, 1024, 8192), (64, 128, False, False)),
        ((128, 8192, 8192), (64, 128, False, False)),
        ((512, 3072, 14336), (64, 192, False, False)),
        ((16, 12288, 4096), (16, 128, False, False)),
    ],
)
def test_choice(sizes: tuple[int, int, int], expected: tuple[int, int, bool, bool]) -> None:
    """Each was the fastest measured, or within 3% of it."""
    assert shape(configuration(*sizes)) == expected


@pytest.mark.parametrize("sizes", [(64, 64, 16384), (256, 256, 16384), (2048, 256, 16384)])
def test_few_tiles_share_k(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    chosen = configuration(m, n, k)
    assert chosen.split > 1
    steps = -(-k // chosen.block_k)
    assert (chosen.split - 1) * -(-steps // chosen.split) < steps  # the last part is not empty


def test_neighbours_read_the_same_blocks_of_the_larger_operand() -> None:
    for m, n in ((512, 3072), (3072, 512)):
        chosen = configuration(m, n, 14336)
        assert chosen.group_m == 0
        assert chosen.along_n == (m > n)


def test_large_operands_that_are_read_once_are_streamed() -> None:
    for sizes, streams in (
        ((16, 12288, 4096), (False, True)),
        ((12288, 16, 4096), (True, False)),
        ((16, 1024, 1024), (False, False)),
        ((8192, 8192, 8192), (False, False)),
    ):
        assert configuration(*sizes).streams(Product(*sizes)) == streams


def test_clusters_are_for_rows_that_do_not_start_with_lines() -> None:
    assert "cluster" not in configuration(5120, 5120, 5120).options
    unaligned = Product(7328, 1368, 1864, columns=64, aligned=(False, False))
    assert fastest(unaligned).options["cluster"] == 2


def test_operands_are_copied_where_that_takes_less_than_transposing_tiles() -> None:
    across = {"columns": 128, "transposed": (False, True)}
    large, small = (configuration(n, n, n, 1, **across) for n in (8192, 512))
    assert large.copied == (False, True)
    assert small.copied == (False, False)


@given(st.integers(1, 20000), st.integers(1, 20000), st.integers(1, 20000))
def test_tiles_that_lie_in_shared_memory_twice_may_have_fewer_slots(m: int, n: int, k: int) -> None:
    for aligned in (True, False):
        chosen = configuration(m, n, k, 1, aligned=(aligned, aligned), transposed=(True, False))
        assert chosen.copied[0] or "num_stages" not in chosen.options


def test_writes_are_streamed_where_they_take_the_time() -> None:
    assert configuration(8192, 8192, 512).options["stream_stores"]
    assert not configuration(8192, 8192, 1024).options["stream_stores"]


@given(
    st.integers(1, 20000), st.integers(1, 20000), st.integers(0, 20000), st.sampled_from([1, 2, 4])
)
def test_any_size_has_a_configuration(m: int, n: int, k: int, size: int) -> None:
    product = Product(m, n, k, size)
    chosen = configuration(m, n, k, size)
    assert chosen.block_k * size in (128, 256, 512)
    least = min(c.microseconds(product) for c in configurations(size) if "cluster" not in c.options)
    assert chosen.microseconds(product) <= least
    for config in splits(product):
        steps = -(-k // config.block_k)
        assert (config.split - 1) * -(-steps // config.split) < steps


@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 2048, 2048), (64, 4096, 4096), (512, 9216, 3072), (4096, 28672, 4096)]
)
def test_a_search_measures_the_best_of_each_kind_first(m: int, n: int, k: int) -> None:
    product = Product(m, n, k)
    found = ranked(product, 8)
    times = [config.microseconds(product) for config in found]
    assert fastest(product) == found[times.index(min(times))]
    assert max(times) <= HOPELESS * min(times)
    kinds = [(config.block_m, config.split > 1) for config in found]
    first = kinds[: len(set(kinds))]
    assert len(set(first)) == len(first)
    assert times[: len(first)] == sorted(times[: len(first)])


@given(st.integers(1, 9000), st.integers(1, 9000), st.integers(64, 9000))
def test_a_larger_product_takes_longer(m: int, n: int, k: int) -> None:
    for config in configurations():
        time = config.microseconds(Product(m, n, k))
        assert 0 < time <= config.microseconds(Product(2 * m, 2 * n, 2 * k))


@pytest.mark.parametrize(
    ("size", "number"),
    [(2, number) for number in range(len(configurations()))]
    + [(size, number) for size in (1, 4) for number in (0, 1, 2, 3, -1)],
)
def test_every_configuration_compiles_cleanly(number: int, size: int) -> None:
    from tawa import language as tl
    from tawa.kernels.gemm import gemm

    config = configurations(size)[number]
    element = {1: "e4m3", 2: "f16", 4: "f32"}[size]
    m, n, k = config.block_m, config.block_n, config.block_k
    compiled = gemm.compile(
        f"desc<{element},{m}x{k}>",
        f"desc<{element},{n}x{k}>",
        f"desc<f16,{m}x{n}>",
        *("i32", "i32", "i32"),
        TRANSPOSE_A=False,
        TRANSPOSE_B=True,
        BLOCK_M=m,
        BLOCK_N=n,
        BLOCK_K=k,
        GROUP_M=config.group_m,
        ACCUMULATOR=tl.float32,
        **config.options,
    )
    assert compiled.findings == ()
    (code,) = sass.disassemble(compiled.cubin).values()
    matrix_opcode = "QGMMA" if size == 1 else "HGMMA"
    assert code.in_loops(matrix_opcode)
    assert code.in_loops("UTMALDG")
    assert code.count("UTMASTG")
    assert code.in_loops("MEMBAR.ALL.GPU") == ()
    assert code.count("LDL") == code.count("STL") == 0


@pytest.mark.parametrize("columns", [16, 48, 64])
def test_tiles_are_as_narrow_as_a_result(columns: int) -> None:
    chosen = configuration(100352, columns, 256)
    assert chosen.block_n <= 64 < configuration(100352, 2 * 64, 256).block_n
    assert few_columns(Product(100352, 65, 256)) == []
    rng = np.random.default_rng(columns)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((520, 72), (72, columns)))
    assert np.array_equal(matmul(a, b, config=chosen), a.astype(np.float64) @ b)


def test_what_one_program_reads_leaves_the_cache_first() -> None:
    from tawa import language as tl
    from tawa.kernels.gemm import gemm

    def hints(**constants: bool) -> list[bool]:
        compiled = gemm.compile(
            *("desc<f16,64x64>", "desc<f16,128x64>", "desc<f16,64x128>", "i32", "i32", "i32"),
            BLOCK_M=64,
            BLOCK_N=128,
            BLOCK_K=64,
            GROUP_M=8,
            TRANSPOSE_A=False,
            TRANSPOSE_B=True,
            ACCUMULATOR=tl.float32,
            **constants,
        )
        (code,) = sass.disassemble(compiled.cubin).values()
        return ["desc[" in load.text for load in code.instructions if load.is_a("UTMALDG")]

    assert hints() == [False, False]
    assert sum(hints(STREAM_B=True)) == 1
    assert sum(hints(STREAM_A=True, STREAM_B=True)) == 2
