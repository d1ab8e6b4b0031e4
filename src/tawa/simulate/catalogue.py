"""Correct kernels of the hopper level, written by hand, and small edits that break them.

`correct()` is a warp-specialised GEMM (C = A B^T, tiles of 128 x 128 x 64) with a producer, two
cooperating consumer warp groups, a ring of D slots and P matrix instructions in flight, and an
epilogue through shared memory. Each entry of `BROKEN` is one edit of its text and the name of the
error that the simulator reports for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.dialects.scf import Scf
from xdsl.ir import Dialect
from xdsl.parser import Parser

from tawa.base.elementwise import EW
from tawa.base.layout import accumulator
from tawa.base.spans import SpanAttr
from tawa.base.types import DescType, PtrType
from tawa.hopper.ops import HOPPER
from tawa.runtime.spec import KernelSpec, ScalarParam, TensorMapParam

D = 3
ROWS, COLUMNS, DEPTH = 128, 128, 64


def hopper_context() -> Context:
    """A context that parses hopper modules."""
    context = Context()
    types = Dialect("tawa", [], [PtrType, DescType, SpanAttr])
    for dialect in (Builtin, Func, Scf, Arith, EW, types, HOPPER):
        context.load_dialect(dialect)
    return context


_FRAGMENT = f'!hopper.frag<f32, "{accumulator((ROWS, COLUMNS), 8)}">'
_ROUNDED = _FRAGMENT.replace("f32", "f16")
_TILE = "!hopper.tile<128x64xf16, swizzle 128, panel_rows 128>"
_HALF = "!hopper.tile<64x64xf16, swizzle 128, panel_rows 128>"
_CHUNK = "!hopper.tile<64x64xf16, swizzle 128, panel_rows 64>"
_RING, _STAGING = f"!hopper.ring<{D}, {_TILE}>", f"!hopper.ring<2, {_CHUNK}>"
_BARRIERS = f"!hopper.mbarrier<{D}>"

PROLOGUE = f"""
  %a_ring = hopper.smem at 0 : {_RING}
  %b_ring = hopper.smem at 49152 : {_RING}
  %staging = hopper.smem at 98304 : {_STAGING}
  %full = hopper.mbarrier at 114688 arrivals 1 : {_BARRIERS}
  %empty = hopper.mbarrier at 114712 arrivals 2 : {_BARRIERS}
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %depth = arith.constant {D} : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  "hopper.one_thread"() <{{scope = "cta"}}> ({{
    hopper.mbarrier_init %full arrivals 1 : {_BARRIERS}
    hopper.mbarrier_init %empty arrivals 2 : {_BARRIERS}
    hopper.fence_barrier_init
  }}) : () -> ()
  hopper.cta_sync
  %program = hopper.block_id 0
  %tile_m = ew.map divsi(%program, %tiles_n) : (i32, i32) -> i32
  %tile_n = ew.map remsi(%program, %tiles_n) : (i32, i32) -> i32
  %m = ew.map muli(%tile_m, %c128) : (i32, i32) -> i32
  %n = ew.map muli(%tile_n, %c128) : (i32, i32) -> i32
"""

_SLOT = """
      %slot = ew.map remsi(%k, %depth) : (i32, i32) -> i32
      %use = ew.map divsi(%k, %depth) : (i32, i32) -> i32
      %parity = ew.map andi(%use, %one) : (i32, i32) -> i32"""

LOAD = f"""
  "hopper.role"() <{{role = "load", first_warp = 8, warps = 4, teams = 1, single = "one thread",
      registers = 40}}> ({{
    scf.for %k = %zero to %tiles_k step %one : i32 {{{_SLOT}
      %other = ew.map xori(%parity, %one) : (i32, i32) -> i32
      hopper.mbarrier_wait %empty[%slot] parity %other : {_BARRIERS}
      hopper.mbarrier_expect %full[%slot] bytes 32768 : {_BARRIERS}
      %a = hopper.slot %a_ring[%slot] : {_RING} -> {_TILE}
      %b = hopper.slot %b_ring[%slot] : {_RING} -> {_TILE}
      %at = ew.map muli(%k, %c64) : (i32, i32) -> i32
      hopper.tma_load %ta[%m, %at] into %a signal %full[%slot] : !hopper.tensormap, {_TILE}, {_BARRIERS}
      hopper.tma_load %tb[%n, %at] into %b signal %full[%slot] : !hopper.tensormap, {_TILE}, {_BARRIERS}
    }}
  }}) : () -> ()
"""


def _steps() -> str:
    """The four matrix instructions of one k tile."""
    lines: list[str] = []
    for step in range(4):
        source = "%acc" if step == 0 else f"%acc{step}"
        lines.append(
            f"      %acc{step + 1} = hopper.wgmma {source} from 0 + = %da + {2 * step} * %db + "
            f"{2 * step} n 128 types f16, f16 : {_FRAGMENT}, !hopper.matrix_desc -> {_FRAGMENT}"
        )
    return "\n".join(lines)


MATH = f"""
  "hopper.role"() <{{role = "math", first_warp = 0, warps = 8, teams = 1, registers = 224}}> ({{
    %group = hopper.group_index
    %row = ew.map muli(%group, %c64) : (i32, i32) -> i32
    %name = ew.map addi(%group, %one) : (i32, i32) -> i32
    %nought = arith.constant 0.0 : f32
    %start = hopper.fill %nought : f32 -> {_FRAGMENT}
    %sum = scf.for %k = %zero to %tiles_k step %one iter_args(%acc = %start) -> ({_FRAGMENT}) : i32 {{{_SLOT}
      hopper.mbarrier_wait %full[%slot] parity %parity : {_BARRIERS}
      %a = hopper.slot %a_ring[%slot] : {_RING} -> {_TILE}
      %b = hopper.slot %b_ring[%slot] : {_RING} -> {_TILE}
      %half = hopper.subtile %a[%row, 0] : {_TILE} -> {_HALF}
      %da = hopper.matrix_desc %half lbo 16 sbo 1024 : {_HALF}
      %db = hopper.matrix_desc %b lbo 16 sbo 1024 : {_TILE}
      hopper.wgmma_fence %acc : {_FRAGMENT}
{_steps()}
      hopper.wgmma_commit
      %done = hopper.wgmma_wait 1, %acc4 : {_FRAGMENT} -> {_FRAGMENT}
      %later = ew.map cmpi_sgt(%k, %zero) : (i32, i32) -> i1
      scf.if %later {{
        %before = ew.map subi(%k, %one) : (i32, i32) -> i32
        %last = ew.map remsi(%before, %depth) : (i32, i32) -> i32
        "hopper.one_thread"() <{{scope = "group"}}> ({{
          hopper.mbarrier_arrive %empty[%last] : {_BARRIERS}
        }}) : () -> ()
      }}
      scf.yield %done : {_FRAGMENT}
    }}
    %final = hopper.wgmma_wait 0, %sum : {_FRAGMENT} -> {_FRAGMENT}
    %rounded = ew.map truncf(%final) : ({_FRAGMENT}) -> {_ROUNDED}
    %stage = hopper.slot %staging[%group] : {_STAGING} -> {_CHUNK}
    %own = ew.map addi(%m, %row) : (i32, i32) -> i32
EPILOGUE
    "hopper.one_thread"() <{{scope = "group"}}> ({{
      hopper.bulk_wait_read 0
    }}) : () -> ()
  }}) : () -> ()
"""


def _chunk(index: int) -> str:
    """64 columns of the epilogue."""
    return f"""
    "hopper.one_thread"() <{{scope = "group"}}> ({{
      hopper.bulk_wait_read 0
    }}) : () -> ()
    hopper.named_barrier_sync %name threads 128
    hopper.stmatrix %rounded from {32 * index}, %stage : {_ROUNDED}, {_CHUNK}
    hopper.fence_proxy_async
    hopper.named_barrier_sync %name threads 128
    %column{index} = arith.constant {64 * index} : i32
    %at{index} = ew.map addi(%n, %column{index}) : (i32, i32) -> i32
    "hopper.one_thread"() <{{scope = "group"}}> ({{
      hopper.tma_store %tc[%own, %at{index}] from %stage : !hopper.tensormap, {_CHUNK}
      hopper.bulk_commit
    }}) : () -> ()"""


def _spec() -> KernelSpec:
    def matrix(arg: int, rows: int) -> TensorMapParam:
        return TensorMapParam(arg, "f16", (rows, 64), (rows, 64), swizzle=128)

    return KernelSpec(
        "gemm",
        threads=384,
        shared_bytes=114736,
        parameters=(
            matrix(0, 128),
            matrix(1, 128),
            matrix(2, 64),
            ScalarParam(("cdiv", ("dim", 1, 0), COLUMNS), "i32"),
            ScalarParam(("cdiv", ("dim", 0, 1), DEPTH), "i32"),
        ),
        arguments=("a", "b", "c"),
    )


def gemm_text() -> str:
    """The correct GEMM as text of the hopper level."""
    spec = _spec().to_json().replace('"', '\\"')
    body = PROLOGUE + LOAD + MATH.replace("EPILOGUE", _chunk(0) + _chunk(1))
    parameters = ", ".join(f"%{t} : !hopper.tensormap" for t in ("ta", "tb", "tc"))
    return f"""func.func @gemm({parameters}, %tiles_n : i32, %tiles_k : i32) attributes
  {{hopper.threads = 384, hopper.shared_bytes = 114736, hopper.cluster = 1, tawa.spec = "{spec}"}} {{
{body}
  func.return
}}
"""
