"""A correct kernel of the aref level, written by hand, and small edits that break it.

C = A B^T with tiles of 64 x 64 x 32, a producer and a consumer, D = 2 slots, P = 1 dot in flight.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.dialects.scf import Scf
from xdsl.parser import Parser

from tawa.aref.dialect.ops import AREF
from tawa.ir.elementwise import EW
from tawa.simulate.interpret.aref import run
from tawa.simulate.interpret.tile import HostDescriptor
from tawa.tile.dialect.ops import TAWA_TYPES, TILE

_REF = "!aref.ref<2, tensor<64x32xf16>, tensor<64x32xf16>>"
_VIEW = "!aref.view<tensor<64x32xf16>>"
_TURNED = "!aref.view<tensor<32x64xf16>>"
_DESC = "!tawa.desc<tensor<64x32xf16>>"
_OUT = "!tawa.desc<tensor<64x64xf32>>"
_ACC = "tensor<64x64xf32>"
_AT = "!aref.cursor"

TEXT = f"""
func.func @gemm(%da : {_DESC}, %db : {_DESC}, %dc : {_OUT}, %tiles : i32) {{
  %ab = aref.create : {_REF}
  "aref.warp_group"() <{{role = "load", warps = 4 : i64, teams = 1 : i64, single}}> ({{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %width = arith.constant 32 : i32
    %start = aref.start
    %end = scf.for %k = %zero to %tiles step %one iter_args(%put = %start) -> ({_AT}) : i32 {{
      %at = ew.map muli(%k, %width) : (i32, i32) -> i32
      %slot, %a, %b = aref.put_enter %ab at %put : {_AT} : {_REF} -> {_VIEW}, {_VIEW}
      %next = aref.advance %ab by %one at %put : {_AT} : {_REF}
      aref.load_into %da[%zero, %at] into %a of %ab, %slot : {_DESC}, {_VIEW}, {_REF}
      aref.load_into %db[%zero, %at] into %b of %ab, %slot : {_DESC}, {_VIEW}, {_REF}
      aref.put_exit %ab, %slot after "tma" : {_REF}
      scf.yield %next : {_AT}
    }}
  }}) : () -> ()
  "aref.warp_group"() <{{role = "math", warps = 4 : i64, teams = 1 : i64}}> ({{
    %zero2 = arith.constant 0 : i32
    %one2 = arith.constant 1 : i32
    %start2 = aref.start
    %nought = arith.constant 0.0 : f32
    %acc0 = tile.splat %nought : f32 -> {_ACC}
    %none = aref.no_token
    %sum, %last, %end2 = scf.for %k = %zero2 to %tiles step %one2
        iter_args(%acc = %acc0, %before = %none, %get = %start2)
        -> ({_ACC}, !aref.token, {_AT}) : i32 {{
      %slot, %a, %b = aref.get_enter %ab at %get : {_AT} : {_REF} -> {_VIEW}, {_VIEW}
      %next = aref.advance %ab by %one2 at %get : {_AT} : {_REF}
      %bt = aref.view_trans %b : {_VIEW} -> {_TURNED}
      %new = aref.dot_issue %a, %bt, %acc : {_VIEW}, {_TURNED}, {_ACC} -> {_ACC}
      aref.dot_wait 1 : i64
      aref.consumed %ab, %before after "wgmma" : {_REF}
      scf.yield %new, %slot, %next : {_ACC}, !aref.token, {_AT}
    }}
    %done = aref.dot_wait 0 : i64, %sum : {_ACC} -> {_ACC}
    aref.consumed %ab, %last after "wgmma" : {_REF}
    tile.desc_store %dc[%zero2, %zero2], %done : {_OUT}, {_ACC}
  }}) : () -> ()
  func.return
}}
"""


@dataclass(frozen=True)
class Kernel:
    """A kernel of the catalogue, with a launch of 64 x 64 x 160."""

    text: str

    def module(self) -> ModuleOp:
        """The parsed module."""
        context = Context()
        for dialect in (Builtin, Func, Scf, Arith, EW, TAWA_TYPES, TILE, AREF):
            context.load_dialect(dialect)
        module = Parser(context, self.text).parse_module()
        module.verify()
        return module

    @cached_property
    def arguments(self) -> list[HostDescriptor | int]:
        """Descriptors of a, b, c, and the number of k tiles."""
        random = np.random.default_rng(5)
        a, b = (random.standard_normal((64, 160)).astype(np.float16) for _ in range(2))
        c = np.full((64, 64), np.nan, np.float32)
        return [*(HostDescriptor.of(x) for x in (a, b, c)), 5]

    def simulate(self) -> float:
        """Run it; returns the relative Frobenius error against float64."""
        run(self.module(), (1,), self.arguments)
        a, b, c = (x.base.astype(float) for x in self.arguments if isinstance(x, HostDescriptor))
        return float(np.linalg.norm(c - a @ b.T) / np.linalg.norm(a @ b.T))


@dataclass(frozen=True)
class Edit:
    """Replace `old` by `new` in the correct text."""

    name: str
    error: str
    old: str
    new: str


_CONSUMED = f'aref.consumed %ab, %before after "wgmma" : {_REF}'
_B_LOAD = f"aref.load_into %db[%zero, %at] into %b of %ab, %slot : {_DESC}, {_VIEW}, {_REF}\n"

_LAST = f'%sum : {_ACC} -> {_ACC}\n    aref.consumed %ab, %last after "wgmma" : {_REF}'

EDITS = (
    Edit("slot returned while its dot is in flight", "OverwriteWhileBorrowed",
         "%ab, %before after", "%ab, %slot after"),
    Edit("one more dot in flight than the return allows", "OverwriteWhileBorrowed",
         "aref.dot_wait 1 ", "aref.dot_wait 2 "),
    Edit("slot never returned", "Deadlock", _CONSUMED, ""),
    Edit("slot returned twice", "DoubleArrive", _CONSUMED, f"{_CONSUMED}\n      {_CONSUMED}"),
    Edit("sum read with a dot in flight", "AccumulatorInFlight",
         f"aref.dot_wait 0 : i64, {_LAST}", f"aref.dot_wait 1 : i64, %sum : {_ACC} -> {_ACC}"),
    Edit("one tile of the pair not loaded", "ReadBeforeFull", _B_LOAD, "\n"),
    Edit("one tile of the pair not loaded again in a slot that was returned", "ReadBeforeFull",
         _B_LOAD,
         "%early = ew.map cmpi_sle(%k, %one) : (i32, i32) -> i1\n"
         f"      scf.if %early {{\n        {_B_LOAD}        scf.yield\n      }}\n"),
    Edit("put cursor moved by two", "SlotOutOfTurn",
         "%next = aref.advance %ab by %one at %put", "%next = aref.advance %ab by %width at %put"),
    Edit("slot never published", "Deadlock",
         f'aref.put_exit %ab, %slot after "tma" : {_REF}', ""),
    Edit("view read after its return", "OutsideCriticalRegion",
         _CONSUMED,
         f'aref.dot_wait 0 : i64\n      aref.consumed %ab, %slot after "wgmma" : {_REF}\n'
         f"      %late = aref.view_read %a : {_VIEW} -> tensor<64x32xf16>"),
)  # fmt: skip
"""Every entry."""


def correct() -> Kernel:
    """The correct kernel."""
    return Kernel(TEXT)


def broken(name: str) -> Kernel:
    """The kernel that the edit `name` breaks."""
    edit = next(e for e in EDITS if e.name == name)
    if edit.old not in TEXT:
        raise ValueError(f"edit {name!r} finds nothing to change")
    return Kernel(TEXT.replace(edit.old, edit.new, 1))
