"""Matrix instructions: descriptors, operand types, both majors, A from registers."""

import numpy as np
import pytest
from xdsl.parser import Parser

from tawa.base.layout import accumulator
from tawa.base.numerics import decode, encode, round_to
from tawa.base.types import NAMES, byte_size
from tawa.runtime.spec import KernelSpec, PointerParam, TensorMapParam
from tawa.simulate import run
from tawa.simulate.catalogue import Matrix
from tawa.simulate.handwritten import hopper_context
from tawa.simulate.tensor_core import MatrixDescriptor, from_fragment, operand_places, to_tf32

MLIR = {"f16": "f16", "bf16": "bf16", "f32": "f32", "e4m3": "f8E4M3FN", "e5m2": "f8E5M2"}


def module_text(name: str, shape: tuple[int, int], swizzle: int, major: tuple[bool, bool]) -> str:
    """One warp group: D = A B^T for tiles of `shape` = (n, k), loaded by TMA, D stored by pointers.

    A tile is [64, k] or, MN-major, [k, 64]; panels are `swizzle` bytes wide, one load a panel.
    """
    n, k = shape
    size = byte_size(NAMES[name])
    per = swizzle // size
    spec_maps, loads, tiles, descs = [], [], [], []
    offset = 1024
    for index, (rows, transposed) in enumerate(((64, major[0]), (n, major[1]))):
        height, width = (k, rows) if transposed else (rows, k)
        letter = "ab"[index]
        tile = (
            f"!hopper.tile<{height}x{width}x{MLIR[name]}, swizzle {swizzle}, panel_rows {height}>"
        )
        panel = tile.replace(f"{height}x{width}x", f"{height}x{per}x", 1)
        ring = f"!hopper.ring<1, {tile}>"
        tiles.append(f"%{letter}_ring = hopper.smem at {offset} : {ring}")
        tiles.append(f"%{letter} = hopper.slot %{letter}_ring[%zero] : {ring} -> {tile}")
        offset += height * width * size
        spec_maps.append(TensorMapParam(index, name, (height, per), (height, per), swizzle=swizzle))
        for p in range(width // per):
            loads.append(
                f"%{letter}{p} = hopper.subtile %{letter}[%zero, {p * per}] : {tile} -> {panel}"
            )
            loads.append(f"%{letter}c{p} = arith.constant {p * per} : i32")
            loads.append(
                f"hopper.tma_load %t{letter}[%zero, %{letter}c{p}] into %{letter}{p} signal %full[%zero] "
                f": !hopper.tensormap, {panel}, !hopper.mbarrier<1>"
            )
        lbo, sbo = (height * swizzle if transposed else 16), 8 * swizzle
        descs.append(f"%d{letter} = hopper.matrix_desc %{letter} lbo {lbo} sbo {sbo} : {tile}")
    fragment = f'!hopper.frag<f32, "{accumulator((64, n), 4)}">'
    steps, now = [], "%acc"
    for step in range(k * size // 32):
        offsets = []
        for transposed, rows in zip(major, (64, n), strict=True):
            del rows
            if transposed:
                offsets.append(step * (32 // size) * swizzle // 16)
            else:
                byte = step * 32
                panel_rows = 64 if len(offsets) == 0 else n
                offsets.append((byte // swizzle * panel_rows * swizzle + byte % swizzle) // 16)
        flags = (" ta" if major[0] else "") + (" tb" if major[1] else "")
        steps.append(
            f"%acc_{step} = hopper.wgmma {now} from 0 + = %da + {offsets[0]} * %db + {offsets[1]} n {n} "
            f"types {MLIR[name]}, {MLIR[name]}{flags} : {fragment}, !hopper.matrix_desc, "
            f"!hopper.matrix_desc -> {fragment}"
        )
        now = f"%acc_{step}"
    spec = KernelSpec("k", 128, offset, (*spec_maps, PointerParam(2)), ("a", "b", "d"))
    quoted = spec.to_json().replace('"', '\\"')
    index = fragment.replace("<f32", "<i32")
    pointers = fragment.replace("<f32", "<!tawa.ptr<f32>")
    total = (64 + n) * k * size
    lines = "\n".join
    return f"""func.func @k(%ta : !hopper.tensormap, %tb : !hopper.tensormap, %d : !tawa.ptr<f32>) attributes
  {{hopper.threads = 128, hopper.shared_bytes = {offset}, hopper.cluster = 1, tawa.spec = "{quoted}"}} {{
  %full = hopper.mbarrier at 0 arrivals 1 : !hopper.mbarrier<1>
  %zero = arith.constant 0 : i32
  "hopper.one_thread"() <{{scope = "cta"}}> ({{
    hopper.mbarrier_init %full arrivals 1 : !hopper.mbarrier<1>
    hopper.fence_barrier_init
  }}) : () -> ()
  hopper.cta_sync
  {lines(tiles)}
  "hopper.role"() <{{role = "all", first_warp = 0, warps = 4, teams = 1}}> ({{
    "hopper.one_thread"() <{{scope = "team"}}> ({{
      hopper.mbarrier_expect %full[%zero] bytes {total} : !hopper.mbarrier<1>
      {lines(loads)}
    }}) : () -> ()
    hopper.mbarrier_wait %full[%zero] parity %zero : !hopper.mbarrier<1>
    {lines(descs)}
    %nought = arith.constant 0.0 : f32
    %acc = hopper.fill %nought : f32 -> {fragment}
    hopper.wgmma_fence of %acc : {fragment}
    {lines(steps)}
    hopper.wgmma_commit
    %out = hopper.wgmma_wait 0, {now} : {fragment} -> {fragment}
    %row = hopper.coordinate 0 from 0 : {index}
    %column = hopper.coordinate 1 from 0 : {index}
    %pitch = arith.constant {n} : i32
    %pitches = hopper.fill %pitch : i32 -> {index}
    %scaled = ew.map muli(%row, %pitches) : ({index}, {index}) -> {index}
    %at = ew.map addi(%scaled, %column) : ({index}, {index}) -> {index}
    %base = hopper.fill %d : !tawa.ptr<f32> -> {pointers}
    %where = ew.map addptr(%base, %at) : ({pointers}, {index}) -> {pointers}
    "hopper.global_store"(%where, %out) <{{vector = 2, operandSegmentSizes = array<i32: 1, 1, 0>}}>
      : ({pointers}, {fragment}) -> ()
  }}) : () -> ()
  func.return
}}"""


CASES = [
    *((name, 128, (False, False)) for name in MLIR),
    *((name, swizzle, (False, False)) for name in ("f16", "e4m3") for swizzle in (32, 64)),
    *(("bf16", swizzle, major) for swizzle in (32, 64, 128)
      for major in ((True, False), (False, True), (True, True))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "swizzle", "major"), CASES)
@pytest.mark.parametrize("n", [64, 192])
def test_product(name: str, swizzle: int, major: tuple[bool, bool], n: int):
    element = NAMES[name]
    k = 128 // byte_size(element)
    random = np.random.default_rng(3)
    a, b = (round_to(random.standard_normal((rows, k)), element) for rows in (64, n))
    stored = [
        np.ascontiguousarray(encode(x, element).T if t else encode(x, element))
        for x, t in zip((a, b), major, strict=True)
    ]
    d = np.full((64, n), np.nan, np.float32)
    module = Parser(hopper_context(), module_text(name, (n, k), swizzle, major)).parse_module()
    module.verify()
    run(module, (1,), [*(Matrix(x, (1, 1)) for x in stored), d])
    if name == "f32":
        a, b = to_tf32(a), to_tf32(b)
    np.testing.assert_allclose(d, a.astype(float) @ b.astype(float).T, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_every_element_of_a_register_operand_has_one_place(size: int):
    row, k = operand_places(size)
    assert sorted(zip(row.ravel(), k.ravel(), strict=True)) == [
        (r, c) for r in range(64) for c in range(32 // size)
    ]
    values = np.arange(64 * 32 // size).reshape(64, -1)
    assert (from_fragment(values[row, k], size) == values).all()


def test_descriptor_fields():
    word = 0x1230 >> 4 | 64 >> 4 << 16 | 1024 >> 4 << 32 | 1 << 62
    assert MatrixDescriptor.decode(word) == MatrixDescriptor(0x1230, 64, 1024, 128)


def test_decode_is_the_inverse_of_encode_for_every_byte():
    for name in ("e4m3", "e5m2"):
        codes = np.arange(256, dtype=np.uint8)
        values = decode(codes, NAMES[name])
        finite = np.isfinite(values)
        assert (encode(values[finite], NAMES[name]) == codes[finite]).all()
