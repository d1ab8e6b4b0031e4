import math

from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.base.types import f16, f32, i8
from tawa.codegen.boxes import boxes
from tawa.codegen.shared_memory import tile_for
from tawa.machine.chips import H100

ELEMENTS = st.sampled_from([i8, f16, f32])
EXTENTS = st.lists(st.sampled_from([1, 3, 8, 64, 96, 192, 320, 512]), min_size=1, max_size=3)


@settings(deadline=None)
@given(EXTENTS, ELEMENTS)
def test_boxes_cover_the_block_within_the_limits(shape, element):
    cut = boxes(shape, tile_for(tuple(shape), element), H100)
    assert len(cut.shape) == len(shape)
    assert max(cut.height, cut.width) <= H100.box_limit
    rows = shape[-2] if len(shape) > 1 else 1
    assert cut.height * cut.bands == rows
    slabs = [slab for _, slab in cut.slabs()]
    assert len(slabs) * cut.bands * cut.rows == math.prod(shape[:-1])
    assert slabs == sorted(set(slabs))
    assert 0 <= cut.width * cut.panels - shape[-1] < cut.width
    whole = cut.outer or (1,) * len(shape[:-2])
    assert [a * b for a, b in zip(whole, cut.shape[:-2], strict=True)] == list(shape[:-2])


def test_a_tile_within_the_limits_is_one_box_a_panel():
    cut = boxes((128, 128), tile_for((128, 128), f16), H100)
    assert (cut.shape, cut.bands, cut.panels) == ((128, 64), 1, 2)


def test_too_many_rows_are_cut_into_equal_bands():
    cut = boxes((320, 64), tile_for((320, 64), f16), H100)
    assert (cut.shape, cut.bands) == ((160, 64), 2)


def test_halves():
    cut = boxes((128, 64), tile_for((128, 64), f16), H100).halved()
    assert (cut.shape, cut.bands, cut.panels) == ((64, 64), 2, 1)
