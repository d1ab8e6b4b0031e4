"""Windows of tiles: read by products where they lie, copied elsewhere, and right at all levels."""

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate import run as run_hopper
from tawa.simulate.interpret.errors import Misaligned
from tawa.simulate.interpret.memory import WindowOutside


@tawa.jit
def shifted_products(
    x, w, y, at, H: tl.constexpr, W: tl.constexpr, TH: tl.constexpr, K: tl.constexpr
):
    """The sum over three shifts of a window of x, each times its own matrix."""
    tile = x.load([0, 0, 0])
    acc = tl.zeros((TH * 8, 32), tl.float32)
    for t in range(3):
        part = tl.extract_slice(tile, [t, at + t, 0], [TH, 8, K]).reshape([TH * 8, K])
        acc = tl.dot(part, w.load([t, 0, 0]).reshape([K, 32]), acc)
    y.store([0, 0], acc)


@pytest.mark.parametrize(
    ("K", "H", "W", "TH"), [(64, 10, 12, 8), (32, 18, 11, 16), (16, 10, 13, 8)]
)
def test_products_read_windows_in_place(K: int, H: int, W: int, TH: int):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float16) for s in ((H, W, K), (3, K, 32)))
    y = np.full((TH * 8, 32), np.nan, np.float32)
    types = f"desc<f16,{H}x{W}x{K}>", f"desc<f16,1x{K}x32>", f"desc<f32,{TH * 8}x32>"
    compiled = shifted_products.compile(*types, "i32", H, W, TH, K)
    text = str(compiled.stages["aref"])
    assert "aref.view_slice" in text
    assert "tile.extract_slice" not in text
    blocks = [H, W, K], [1, K, 32], [TH * 8, 32]
    given = [
        tawa.TensorDescriptor.from_tensor(a, b) for a, b in zip((x, w, y), blocks, strict=True)
    ]
    run_hopper(compiled.module("hopper"), (1,), [*given, 1])
    wide = x.astype(np.float64)
    expected = sum(
        wide[t : t + TH, 1 + t : 9 + t].reshape(-1, K) @ w[t].astype(np.float64) for t in range(3)
    )
    assert np.abs(y - expected).max() < 1e-2


@tawa.jit
def window(x, y, i, j, H: tl.constexpr, W: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    tile = tl.load(x + tl.arange(0, H)[:, None] * W + tl.arange(0, W)[None, :])
    part = tl.extract_slice(tile * 2, [i, j], [M, N])
    tl.store(y + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], part)


@pytest.mark.parametrize("place", [(0, 0), (3, 5), (24, 16)])
def test_windows_of_computed_tiles(place: tuple[int, int]):
    x, y = np.arange(32 * 32, dtype=np.float32).reshape(32, 32), np.zeros((8, 16), np.float32)
    compiled = window.compile("*f32", "*f32", "i32", "i32", 32, 32, 8, 16)
    run_hopper(compiled.module("hopper"), (1,), [x, y, *place])
    i, j = place
    assert (y == 2 * x[i : i + 8, j : j + 16]).all()
    y[:] = 0
    window[(1,)](x, y, i, j, 32, 32, 8, 16)
    assert (y == 2 * x[i : i + 8, j : j + 16]).all()


def test_a_window_that_leaves_the_tile():
    x, y = np.zeros((32, 32), np.float32), np.zeros((8, 16), np.float32)
    with pytest.raises(WindowOutside, match="17 to 33"):
        window[(1,)](x, y, 0, 17, 32, 32, 8, 16)


@tawa.jit
def from_column(x, w, y, c):
    y.store([0, 0], tl.dot(x.load([0, c]), w.load([0, 0])))


@pytest.mark.parametrize(("column", "runs"), [(8, True), (4, False), (1, False)])
def test_loads_begin_at_whole_pieces(column: int, runs: bool):
    """A device stops at a load from inside of 16 bytes: so does the simulator."""
    arrays = (
        np.ones((64, 128), np.float16),
        np.ones((32, 64), np.float16),
        np.zeros((64, 64), np.float32),
    )
    blocks = [64, 32], [32, 64], [64, 64]
    given = [tawa.TensorDescriptor.from_tensor(a, b) for a, b in zip(arrays, blocks, strict=True)]
    compiled = from_column.compile("desc<f16,64x32>", "desc<f16,32x64>", "desc<f32,64x64>", "i32")
    if runs:
        run_hopper(compiled.module("hopper"), (1,), [*given, column])
        assert (arrays[2] == 32).all()
        return
    with pytest.raises(Misaligned, match="inside a piece of 16 bytes"):
        run_hopper(compiled.module("hopper"), (1,), [*given, column])


@tawa.jit
def too_wide(x, y):
    tile = tl.load(x + tl.arange(0, 32))
    tl.store(y + tl.arange(0, 16), tl.extract_slice(tile, [24], [16]))


def test_a_window_that_is_known_to_leave_the_tile():
    with pytest.raises(tawa.TawaError, match="leaves"):
        too_wide.compile("*f32", "*f32")
