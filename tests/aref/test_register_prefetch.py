"""Which loops load their tiles a turn ahead."""

import tawa
import tawa.language as tl
from tawa.ir.decisions.loops import LoadedIntoRegistersAhead

POINTERS = ["*f16:16"] * 2 + ["*f32:16", "i32:16"]
CONSTANTS = {"BM": 64, "BK": 32, "specialize": False}


@tawa.jit
def product(a, b, c, K, BM: tl.constexpr, BK: tl.constexpr, WRITES: tl.constexpr):
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    at = a + m[:, None] * K + k[None, :]
    bt = b + m[None, :] * K + k[:, None]
    acc = tl.zeros((BM, BM), tl.float32)
    for left in range(K, 0, -BK):
        x = tl.load(at, mask=k[None, :] < left, other=0.0)
        acc = tl.dot(x, tl.load(bt, mask=k[:, None] < left, other=0.0), acc)
        if WRITES:
            tl.store(at, x * 2, mask=k[None, :] < left)
        at += BK
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
