import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.base.layout import (
    REPLICA,
    Layout,
    Mode,
    accumulator,
    blocked,
    crossed,
    in_runs,
    parse_layout,
    register_map,
)

EXTENTS = st.lists(st.sampled_from([1, 2, 4, 16, 32, 48, 64]), min_size=1, max_size=3).map(tuple)
WARPS = st.sampled_from([1, 2, 4, 8])
VECTORS = st.sampled_from([1, 2, 4, 8])


@settings(deadline=None, max_examples=50)
@given(EXTENTS, WARPS, VECTORS)
def test_blocked_layouts_hold_every_element(shape, warps, vector):
    layout = blocked(shape, warps, vector)
    assert layout.verify() is None
    assert layout.threads == 32 * warps


@settings(deadline=None, max_examples=50)
@given(EXTENTS, WARPS, VECTORS)
def test_owners_hold_each_element_once(shape, warps, vector):
    layout = blocked(shape, warps, vector)
    held = np.zeros(shape, int)
    places = layout.coordinates[layout.owners()].reshape(-1, len(shape))
    np.add.at(held, tuple(places.T), 1)
    assert (held == 1).all()


@settings(deadline=None, max_examples=50)
@given(EXTENTS, WARPS, VECTORS)
def test_text_is_read_back(shape, warps, vector):
    layout = blocked(shape, warps, vector)
    assert parse_layout(str(layout)) == layout


@settings(deadline=None, max_examples=50)
@given(EXTENTS, WARPS, st.data())
def test_a_reduced_layout_holds_every_element(shape, warps, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    reduced = blocked(shape, warps, 4).without(axis)
    assert reduced.shape == shape[:axis] + shape[axis + 1 :]
    assert reduced.verify() is None


def test_a_layout_of_rank_0():
    point = Layout((), (), (Mode(32, REPLICA, 0),), (Mode(4, REPLICA, 0),))
    assert point.verify() is None
    assert point.coordinates.shape == (128, 1, 0)
    assert point.owners().sum() == 1


@pytest.mark.parametrize("columns", [8, 64, 192, 200, 256])
def test_accumulators_follow_the_register_fragments_of_wgmma(columns):
    layout = accumulator((64, columns), 4)
    assert layout.verify() is None
    for thread, register in [(0, 0), (5, 3), (37, 1), (127, columns // 2 - 1)]:
        warp, lane, block = thread // 32, thread % 32, register // 4
        row = 16 * warp + lane // 4 + 8 * (register % 4 // 2)
        column = 8 * block + 2 * (lane % 4) + register % 2
        assert layout.coordinates[thread, register].tolist() == [row, column]


def test_a_register_map_stays_inside_each_thread():
    whole = accumulator((128, 64), 8)
    assert register_map(whole, whole, (0, 1)) == tuple(range(whole.registers))
    assert register_map(whole, blocked((128, 64), 8, 4), (0, 1)) is None


def test_text_that_is_no_layout_is_refused():
    for text in ("4x4: | ", "4: 4@0 | 32* | ", "4: x | 32* | 1*"):
        with pytest.raises(ValueError, match="layout"):
            parse_layout(text)


SHAPES = st.sampled_from(
    [(8, 64), (512,), (4, 2, 64), (64, 8), (2, 4, 8, 8), (16, 1, 32), (128, 4)]
)


@settings(deadline=None, max_examples=100)
@given(SHAPES, SHAPES, WARPS, VECTORS)
def test_a_reshaped_layout_holds_every_element_where_it_was(old, new, warps, vector):
    layout = blocked(old, warps, vector)
    reshaped = layout.reshaped(new)
    assert reshaped is not None  # all extents are powers of two
    assert reshaped.verify() is None
    flat = [
        np.ravel_multi_index(np.moveaxis(x.coordinates, -1, 0), x.shape) for x in (layout, reshaped)
    ]
    assert (flat[0] == flat[1]).all()


def test_a_digit_that_runs_across_dimensions_does_not_reshape():
    layout = accumulator((64, 48), 4)
    assert layout.reshaped((64, 3, 16)) is not None
    assert layout.reshaped((64, 16, 3)) is None
    assert layout.reshaped((32, 96)) is not None


@pytest.mark.parametrize("shape", [(32, 128), (64, 64), (16, 128), (32, 64)])
@pytest.mark.parametrize("dim", [0, 1])
def test_squares_are_loaded_by_sectors_and_stored_to_all_banks(shape: tuple[int, int], dim: int):
    """Words: a thread's accesses have four neighbours, either way."""
    shape = shape if dim else (shape[1], shape[0])
    layout = crossed(shape, 4, 4, dim)
    assert layout is not None
    places = layout.coordinates  # thread, register, dimension
    assert len(np.unique(places.reshape(-1, 2), axis=0)) == shape[0] * shape[1]
    assert (np.diff(places[:, :4, dim], axis=1) == 1).all()
    assert (np.diff(places[:, :16:4, 1 - dim], axis=1) == 1).all()
    for start in range(0, 128, 8):  # what a quarter of a warp stores at once
        row, column = places[start : start + 8, 0, dim], places[start : start + 8, 0, 1 - dim]
        sectors = {(c, r // 8) for r, c in zip(row.tolist(), column.tolist(), strict=True)}
        assert len(sectors) == 4, "two threads load a sector"
        if shape[1 - dim] % 32 == 0:  # rows of 128 bytes, swizzled
            assert len({(c // 4 % 8) ^ (r % 8) for r, c in zip(row, column, strict=True)}) == 8


def test_small_tiles_have_no_squares():
    assert crossed((8, 32), 4, 4, 1) is None


@pytest.mark.parametrize(
    ("shape", "warps", "vector", "dim", "axis", "expected"),
    [
        ((64, 64), 4, 4, 1, 0, "64x64: 4@1*1 8@0*1 | 16@1*4 2@0*8 | 4@0*16"),
        ((64, 64), 4, 8, 0, 1, "64x64: 8@0*1 4@1*1 | 8@0*8 4@1*4 | 4@1*16"),
        ((16, 512), 2, 4, 1, 0, "16x512: 4@1*1 8@0*1 4@1*128 | 32@1*4 | 2@0*8"),
        ((2, 8, 64), 1, 4, 2, 1, "2x8x64: 4@2*1 4@1*1 2@0*1 | 16@2*4 2@1*4 | "),
        ((2, 64), 4, 4, 1, 0, None),  # two of the warps would have nothing
        ((4, 16), 1, 4, 1, 0, None),
    ],
)
def test_layouts_to_scan_along_another_dimension(
    shape: tuple[int, ...], warps: int, vector: int, dim: int, axis: int, expected: str | None
) -> None:
    layout = in_runs(shape, warps, vector, dim, axis)
    assert (str(layout) if layout else None) == expected
    if layout is not None:
        assert layout.verify() is None
