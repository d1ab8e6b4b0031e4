"""The library's GEMM: its choice of configurations, and `matmul` on NumPy arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tawa.kernels.gemm import (
    MULTIPROCESSORS,
    Configuration,
    OutputTypeUnknown,
    SizesDoNotMatch,
    configuration,
    configurations,
    matmul,
    reference,
)
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


def shape(config: Configuration) -> tuple[int, int, bool]:
    return config.block_m, config.block_n, bool(config.options.get("ping_pong"))


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((8192, 8192, 256), (128, 192, True)),
        ((8192, 8192, 2048), (128, 192, True)),
        ((8192, 8192, 4096), (256, 200, False)),
        ((8192, 8192, 16384), (256, 200, False)),
        ((4096, 4096, 4096), (128, 256, False)),
        ((2048, 2048, 2048), (128, 128, False)),
        ((64, 64, 4096), (64, 32, False)),
    ],
)
def test_choice(sizes: tuple[int, int, int], expected: tuple[int, int, bool]) -> None:
    assert shape(configuration(*sizes)) == expected


def test_writes_are_streamed_where_they_take_the_time() -> None:
    assert configuration(8192, 8192, 512).options["stream_stores"]
    assert not configuration(8192, 8192, 1024).options["stream_stores"]
    assert not configuration(2048, 4096, 256).options["stream_stores"]


@given(
    st.integers(1, 20000), st.integers(1, 20000), st.integers(0, 20000), st.sampled_from([1, 2, 4])
)
def test_any_size_has_a_configuration(m: int, n: int, k: int, size: int) -> None:
    chosen = configuration(m, n, k, size)
    assert chosen.block_k * size == 128
    assert 0 < chosen.fit(m, n) <= 1
    assert chosen.tiles(m, n) >= MULTIPROCESSORS or chosen.block_m * chosen.block_n == 64 * 32


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("number", range(len(configurations())))
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
