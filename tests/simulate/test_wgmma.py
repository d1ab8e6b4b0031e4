"""Matrix instructions: descriptors, operand types, both majors, A from registers."""

import re

import numpy as np
import pytest
from handwritten import hopper_context
from protocols import Matrix
from xdsl.parser import Parser

from tawa.base.kernel_spec import KernelSpec, PointerParam, TensorMapParam
from tawa.base.layout import accumulator
from tawa.base.numerics import decode, encode, round_to
from tawa.base.types import NAMES, byte_size
from tawa.simulate import run
from tawa.simulate.interpret.tensor_core import (
    MatrixDescriptor,
    from_fragment,
    operand_places,
    to_tf32,
)

MLIR = {"f16": "f16", "bf16": "bf16", "f32": "f32", "e4m3": "f8E4M3FN", "e5m2": "f8E5M2"}


def operand_text(letter: str, tile: tuple[str, int, int, int], lbo_sbo: tuple[int, int]) -> dict:
    """The allocation, loads and descriptor of one operand: type, offset, panels and their width."""
    type_, offset, panels, per = tile
    panel = re.sub(r"x\d+x", f"x{per}x", type_, count=1)
    ring = f"!hopper.ring<1, {type_}>"
    loads = []
    for p in range(panels):
        loads += [
            f"%{letter}{p} = hopper.subtile %{letter}[%zero, {p * per}] : {type_} -> {panel}",
            f"%{letter}c{p} = arith.constant {p * per} : i32",
            f"hopper.tma_load %t{letter}[%zero, %{letter}c{p}] into %{letter}{p} signal %full[%zero] "
            f": !hopper.tensormap, {panel}, !hopper.mbarrier<1>",
        ]
    lbo, sbo = lbo_sbo
    return {
        "tiles": f"%{letter}_ring = hopper.smem at {offset} : {ring}\n"
        f"%{letter} = hopper.slot %{letter}_ring[%zero] : {ring} -> {type_}",
        "loads": "\n".join(loads),
        "descs": f"%d{letter} = hopper.matrix_desc %{letter} lbo {lbo} sbo {sbo} : {type_}",
    }


def step_offset(step: int, rows: int, size: int, swizzle: int, transposed: bool) -> int:
    """How far the descriptor moves for the `step`-th 32 bytes of K, in 16-byte units."""
    if transposed:
        return step * (32 // size) * swizzle // 16
    byte = step * 32
    return (byte // swizzle * rows * swizzle + byte % swizzle) // 16


def module_text(name: str, shape: tuple[int, int], swizzle: int, major: tuple[bool, bool]) -> str:
    """One warp group: D = A B^T for tiles of `shape` = (n, k), loaded by TMA, D stored by pointers.

    A tile is [64, k] or, MN-major, [k, 64]; panels are `swizzle` bytes wide, one load a panel.
    """
    n, k = shape
    size, mlir = byte_size(NAMES[name]), MLIR[name]
    per, offset = swizzle // size, 1024
    operands, maps = [], []
    for index, (rows, transposed) in enumerate(((64, major[0]), (n, major[1]))):
        height, width = (k, rows) if transposed else (rows, k)
        tile = f"!hopper.tile<{height}x{width}x{mlir}, swizzle {swizzle}, panel_rows {height}>"
        strides = (height * swizzle if transposed else 16), 8 * swizzle
        operands.append(operand_text("ab"[index], (tile, offset, width // per, per), strides))
        maps.append(TensorMapParam(index, name, (height, per), (height, per), swizzle=swizzle))
        offset += height * width * size
    fragment = f'!hopper.frag<f32, "{accumulator((64, n), 4)}">'
    flags = (" ta" if major[0] else "") + (" tb" if major[1] else "")
    steps = []
    for step in range(k * size // 32):
        a, b = (step_offset(step, r, size, swizzle, t) for r, t in zip((64, n), major, strict=True))
        steps.append(
            f"%acc{step + 1} = hopper.wgmma %acc{step} from 0 + = %da + {a} * %db + {b} n {n} types "
            f"{mlir}, {mlir}{flags} : {fragment}, !hopper.matrix_desc, !hopper.matrix_desc -> {fragment}"
        )
    spec = KernelSpec("k", 128, offset, (*maps, PointerParam(2)), ("a", "b", "d"))
    return TEMPLATE.format(
        **{key: "\n".join(o[key] for o in operands) for key in ("tiles", "loads", "descs")},
        shared=offset,
        spec=spec.to_json().replace('"', '\\"'),
        steps="\n".join(steps),
        last=f"%acc{len(steps)}",
        n=n,
        bytes=(64 + n) * k * size,
        fragment=fragment,
        index=fragment.replace("<f32", "<i32"),
        pointers=fragment.replace("<f32", "<!tawa.ptr<f32>"),
    )


TEMPLATE = """
func.func @k(%ta : !hopper.tensormap, %tb : !hopper.tensormap, %d : !tawa.ptr<f32>) attributes
  {{hopper.threads = 128, hopper.shared_bytes = {shared}, hopper.cluster = 1, tawa.spec = "{spec}"}} {{
  %full = hopper.mbarrier at 0 arrivals 1 : !hopper.mbarrier<1>
  %zero = arith.constant 0 : i32
  "hopper.one_thread"() <{{scope = "cta"}}> ({{
    hopper.mbarrier_init %full arrivals 1 : !hopper.mbarrier<1>
    hopper.fence_barrier_init
  }}) : () -> ()
  hopper.cta_sync
  {tiles}
  "hopper.role"() <{{role = "all", first_warp = 0, warps = 4, teams = 1}}> ({{
    "hopper.one_thread"() <{{scope = "team"}}> ({{
      hopper.mbarrier_expect %full[%zero] bytes {bytes} : !hopper.mbarrier<1>
      {loads}
    }}) : () -> ()
    hopper.mbarrier_wait %full[%zero] parity %zero : !hopper.mbarrier<1>
    {descs}
    %nought = arith.constant 0.0 : f32
    %acc0 = hopper.fill %nought : f32 -> {fragment}
    hopper.wgmma_fence of %acc0 : {fragment}
    {steps}
    hopper.wgmma_commit
    %out = hopper.wgmma_wait 0, {last} : {fragment} -> {fragment}
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
