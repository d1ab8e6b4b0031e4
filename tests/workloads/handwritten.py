"""Correct kernels of the hopper level, written by hand: what the catalogue breaks.

A warp-specialised GEMM, C = A B^T in f16, tiles of 128 x 128 x 64, with a ring of `D` slots:

- `cooperative`: a producer, two consumer warp groups that share each tile, one matrix instruction
  group left in flight (P = 1);
- `cluster`: the same in clusters of two CTAs along M, which share the tiles of B by multicast;
- `copies`: the same as the first, but all threads of the producer copy the tiles of B through
  pointers, and one of them asks the TMA engine for those of A;
- `ping_pong`: two consumer teams that take turns on tiles of 64 rows (P = 0).

All end through shared memory: stmatrix, a proxy fence, TMA stores from one staging buffer a group.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.dialects.scf import Scf
from xdsl.ir import Dialect

from tawa.base.kernel_spec import Expr, KernelSpec, PointerParam, ScalarParam, TensorMapParam
from tawa.base.layout import accumulator, blocked
from tawa.base.spans import SpanAttr
from tawa.base.types import DescType, PtrType
from tawa.hopper.dialect import HOPPER
from tawa.ir.elementwise import EW

D = 3
KINDS = ("cooperative", "cluster", "ping_pong", "copies")


def hopper_context() -> Context:
    """A context that parses hopper modules."""
    context = Context()
    types = Dialect("tawa", [], [PtrType, DescType, SpanAttr])
    for dialect in (Builtin, Func, Scf, Arith, EW, types, HOPPER):
        context.load_dialect(dialect)
    return context


_BARRIERS = f"!hopper.mbarrier<{D}>"
_PAIR = "!hopper.mbarrier<2>"
_B_TILE = "!hopper.tile<128x64xf16, swizzle 128, panel_rows 128>"
_B_HALF = "!hopper.tile<64x64xf16, swizzle 128, panel_rows 128>"
_B_LAYOUT = blocked((128, 64), 4, 8)
_B_POINTERS = f'!hopper.frag<!tawa.ptr<f16>, "{_B_LAYOUT}">'
_B_NUMBERS = f'!hopper.frag<i32, "{_B_LAYOUT}">'
_CHUNK = "!hopper.tile<64x64xf16, swizzle 128, panel_rows 64>"
_B_RING = f"!hopper.ring<{D}, {_B_TILE}>"
_STAGING = f"!hopper.ring<2, {_CHUNK}>"
_MAP = "!hopper.tensormap"


def _one_thread(scope: str, indent: int, *lines: str) -> str:
    space = " " * indent
    body = "\n".join(f"{space}  {line}" for line in lines)
    head = f'{space}"hopper.one_thread"() <{{scope = "{scope}"}}>'
    return f"{head} ({{\n{body}\n{space}}}) : () -> ()"


def _slot(counter: str) -> str:
    return f"""
      %slot = ew.map remsi({counter}, %depth) : (i32, i32) -> i32
      %use = ew.map divsi({counter}, %depth) : (i32, i32) -> i32
      %parity = ew.map andi(%use, %one) : (i32, i32) -> i32
      %other = ew.map xori(%parity, %one) : (i32, i32) -> i32"""


class _Gemm:
    """The text of one kind, in pieces."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.rows = 64 if kind == "ping_pong" else 128
        self.ctas = 2 if kind == "cluster" else 1
        self.a_tile = f"!hopper.tile<{self.rows}x64xf16, swizzle 128, panel_rows {self.rows}>"
        self.a_half = f"!hopper.tile<64x64xf16, swizzle 128, panel_rows {self.rows}>"
        self.a_ring = f"!hopper.ring<{D}, {self.a_tile}>"
        warps = 4 if kind == "ping_pong" else 8
        self.fragment = f'!hopper.frag<f32, "{accumulator((self.rows, 128), warps)}">'
        self.rounded = self.fragment.replace("f32", "f16", 1)

    def spec(self) -> KernelSpec:
        """What the launcher needs."""

        def matrix(arg: int, rows: int) -> TensorMapParam:
            return TensorMapParam(arg, "f16", (rows, 64), (rows, 64), swizzle=128)

        def tiles(arg: int, axis: int, size: int) -> ScalarParam:
            extent: Expr = ("dim", arg, axis)
            return ScalarParam(("cdiv", extent, size), "i32")

        copies = self.kind == "copies"
        pointer = PointerParam(3), ScalarParam(("stride", 1, 0), "i32")
        return KernelSpec(
            "gemm",
            threads=384,
            shared_bytes=114752,
            parameters=(
                matrix(0, self.rows),
                matrix(1, 128 // self.ctas),
                matrix(2, 64),
                tiles(0, 0, 128),
                tiles(0, 1, 64),
                *(pointer if copies else ()),
            ),
            arguments=("a", "b", "c", "b_data") if copies else ("a", "b", "c"),
            cluster=(self.ctas, 1, 1),
        )

    def prologue(self) -> str:
        """Allocations, barriers, the CTA's tile."""
        returns = {"cooperative": 2, "cluster": 4, "ping_pong": 1, "copies": 2}[self.kind]
        fills = 129 if self.kind == "copies" else 1
        inits = _one_thread(
            "cta", 2,
            f"hopper.mbarrier_init %full arrivals {fills} : {_BARRIERS}",
            f"hopper.mbarrier_init %empty arrivals {returns} : {_BARRIERS}",
            f"hopper.mbarrier_init %turn arrivals 1 : {_PAIR}",
            "hopper.fence_barrier_init",
        )  # fmt: skip
        return f"""
  %a_ring = hopper.smem at 0 : {self.a_ring}
  %b_ring = hopper.smem at 49152 : {_B_RING}
  %staging = hopper.smem at 98304 : {_STAGING}
  %full = hopper.mbarrier at 114688 arrivals {fills} : {_BARRIERS}
  %empty = hopper.mbarrier at 114712 arrivals {returns} : {_BARRIERS}
  %turn = hopper.mbarrier at 114736 arrivals 1 : {_PAIR}
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %everyone = arith.constant 3 : i32
  %depth = arith.constant {D} : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
{inits}
  hopper.{"cluster_sync" if self.ctas > 1 else "cta_sync"}
  %program = hopper.block_id 0
  %tile_m = ew.map remsi(%program, %tiles_m) : (i32, i32) -> i32
  %tile_n = ew.map divsi(%program, %tiles_m) : (i32, i32) -> i32
  %m = ew.map muli(%tile_m, %c128) : (i32, i32) -> i32
  %n = ew.map muli(%tile_n, %c128) : (i32, i32) -> i32
"""

    def copies(self) -> str:
        """The producer of which all threads copy."""
        three = f"({_B_NUMBERS}, {_B_NUMBERS}) -> {_B_NUMBERS}"
        fills = "\n".join(
            f"      %{name}s = hopper.fill %{name} : i32 -> {_B_NUMBERS}"
            for name in ("n", "at", "ldb")
        )
        load = _one_thread(
            "team", 6,
            f"hopper.mbarrier_expect %full[%slot] bytes 16384 : {_BARRIERS}",
            f"hopper.tma_load %ta[%m, %at] into %a signal %full[%slot] : {_MAP}, {self.a_tile}, "
            f"{_BARRIERS}",
        )  # fmt: skip
        return f"""
  "hopper.role"() <{{role = "load", first_warp = 8, warps = 4, teams = 1, gives,
      registers = 40}}> ({{
    scf.for %k = %zero to %tiles_k step %one : i32 {{{_slot("%k")}
      %at = ew.map muli(%k, %c64) : (i32, i32) -> i32
{fills}
      %down = hopper.coordinate 0 from 0 : {_B_NUMBERS}
      %along = hopper.coordinate 1 from 0 : {_B_NUMBERS}
      %rows = ew.map addi(%ns, %down) : {three}
      %starts = ew.map muli(%rows, %ldbs) : {three}
      %columns = ew.map addi(%ats, %along) : {three}
      %places = ew.map addi(%starts, %columns) : {three}
      %first = hopper.fill %pb : !tawa.ptr<f16> -> {_B_POINTERS}
      %pointers = ew.map addptr(%first, %places) : ({_B_POINTERS}, {_B_NUMBERS}) -> {_B_POINTERS}
      hopper.mbarrier_wait %empty[%slot] parity %other : {_BARRIERS}
      %a = hopper.slot %a_ring[%slot] : {self.a_ring} -> {self.a_tile}
      %b = hopper.slot %b_ring[%slot] : {_B_RING} -> {_B_TILE}
{load}
      hopper.copy_async %pointers into %b vector 8 : {_B_POINTERS}, {_B_TILE}
      hopper.copy_arrive %full[%slot] : {_BARRIERS}
    }}
  }}) : () -> ()
"""

    def load(self) -> str:
        """The producer."""
        if self.kind == "copies":
            return self.copies()
        size = self.rows * 128 + 16384
        if self.kind == "ping_pong":
            turns, counter = "muli(%tiles_k, %two)", "%put"
            place = """
      %k = ew.map remsi(%put, %tiles_k) : (i32, i32) -> i32
      %who = ew.map divsi(%put, %tiles_k) : (i32, i32) -> i32
      %down = ew.map muli(%who, %c64) : (i32, i32) -> i32
      %row = ew.map addi(%m, %down) : (i32, i32) -> i32"""
        else:
            turns, counter = "addi(%tiles_k, %zero)", "%k"
            place = "\n      %row = ew.map addi(%m, %zero) : (i32, i32) -> i32"
        b_load = (
            f"      hopper.tma_load %tb[%n, %at] into %b signal %full[%slot] : {_MAP}, {_B_TILE}, "
            f"{_BARRIERS}"
        )
        if self.ctas > 1:
            b_load = f"""      %rank = hopper.cluster_rank
      %first = ew.map muli(%rank, %c64) : (i32, i32) -> i32
      %n_half = ew.map addi(%n, %first) : (i32, i32) -> i32
      %b_half = hopper.subtile %b[%first, 0] : {_B_TILE} -> {_B_HALF}
      hopper.tma_load %tb[%n_half, %at] into %b_half signal %full[%slot] ctas %everyone : i32 : {_MAP}, {_B_HALF}, {_BARRIERS}"""
        return f"""
  "hopper.role"() <{{role = "load", first_warp = 8, warps = 4, teams = 1, single = "one thread",
      registers = 40}}> ({{
    %puts = ew.map {turns} : (i32, i32) -> i32
    scf.for {counter} = %zero to %puts step %one : i32 {{{_slot(counter)}{place}
      hopper.mbarrier_wait %empty[%slot] parity %other : {_BARRIERS}
      hopper.mbarrier_expect %full[%slot] bytes {size} : {_BARRIERS}
      %a = hopper.slot %a_ring[%slot] : {self.a_ring} -> {self.a_tile}
      %b = hopper.slot %b_ring[%slot] : {_B_RING} -> {_B_TILE}
      %at = ew.map muli(%k, %c64) : (i32, i32) -> i32
      hopper.tma_load %ta[%row, %at] into %a signal %full[%slot] : {_MAP}, {self.a_tile}, {_BARRIERS}
{b_load}
    }}
  }}) : () -> ()
"""

    def steps(self) -> str:
        """The four matrix instructions of one k tile."""
        types = f"{self.fragment}, !hopper.matrix_desc, !hopper.matrix_desc -> {self.fragment}"
        names = ["%acc", "%acc1", "%acc2", "%acc3", "%acc4"]
        return "\n".join(
            f"      {names[i + 1]} = hopper.wgmma {names[i]} from 0 + = %da + {2 * i} * %db + "
            f"{2 * i} n 128 types f16, f16 : {types}"
            for i in range(4)
        )

    def giving_back(self) -> str:
        """Return the slot of the turn before (P = 1), or of this turn (P = 0)."""
        if self.kind == "ping_pong":
            return _one_thread("group", 6, f"hopper.mbarrier_arrive %empty[%slot] : {_BARRIERS}")
        where = ["", *(f" cta %{c} : i32" for c in ("zero", "one"))]
        arrives = [
            f"hopper.mbarrier_arrive %empty[%last]{cta} : {_BARRIERS}"
            for cta in (where[1:] if self.ctas > 1 else where[:1])
        ]
        return f"""      %later = ew.map cmpi_sgt(%k, %zero) : (i32, i32) -> i1
      scf.if %later {{
        %before = ew.map subi(%k, %one) : (i32, i32) -> i32
        %last = ew.map remsi(%before, %depth) : (i32, i32) -> i32
{_one_thread("group", 8, *arrives)}
      }}"""

    def math(self) -> str:
        """The consumers."""
        ping_pong = self.kind == "ping_pong"
        warps, teams = (4, 2) if ping_pong else (8, 1)
        counter, part = ("%get", "%who") if ping_pong else ("%k", "%who")
        own = "%zero" if ping_pong else "%down"
        before = after = fence = ""
        if self.kind == "copies":
            fence = "\n      hopper.fence_proxy_async {copied}"
        first, last = "addi(%zero, %zero)", "addi(%tiles_k, %zero)"
        if ping_pong:
            first, last = "muli(%who, %tiles_k)", "addi(%start_k, %tiles_k)"
            before = f"""
    %waits = ew.map xori(%who, %one) : (i32, i32) -> i32
    hopper.mbarrier_wait %turn[%who] parity %waits : {_PAIR}"""
            after = "\n" + _one_thread("team", 4, f"hopper.mbarrier_arrive %turn[%waits] : {_PAIR}")
        return f"""
  "hopper.role"() <{{role = "math", first_warp = 0, warps = {warps}, teams = {teams}, registers = 224}}> ({{
    {part} = hopper.{"team_index" if ping_pong else "group_index"}
    %down = ew.map muli(%who, %c64) : (i32, i32) -> i32
    %name = ew.map addi(%who, %one) : (i32, i32) -> i32
    %start_k = ew.map {first} : (i32, i32) -> i32
    %stop_k = ew.map {last} : (i32, i32) -> i32
    %nought = arith.constant 0.0 : f32
    %filled = hopper.fill %nought : f32 -> {self.fragment}
    %start = hopper.wgmma_wait 0, %filled : {self.fragment} -> {self.fragment}{before}
    %sum = scf.for {counter} = %start_k to %stop_k step %one iter_args(%acc = %start) -> ({self.fragment}) : i32 {{{_slot(counter)}
      hopper.mbarrier_wait %full[%slot] parity %parity : {_BARRIERS}{fence}
      %a = hopper.slot %a_ring[%slot] : {self.a_ring} -> {self.a_tile}
      %b = hopper.slot %b_ring[%slot] : {_B_RING} -> {_B_TILE}
      %half = hopper.subtile %a[{own}, 0] : {self.a_tile} -> {self.a_half}
      %da = hopper.matrix_desc %half lbo 16 sbo 1024 : {self.a_half}
      %db = hopper.matrix_desc %b lbo 16 sbo 1024 : {_B_TILE}
      hopper.wgmma_fence of %acc : {self.fragment}
{self.steps()}
      hopper.wgmma_commit
      %done = hopper.wgmma_wait {0 if ping_pong else 1}, %acc4 : {self.fragment} -> {self.fragment}
{self.giving_back()}
      scf.yield %done : {self.fragment}
    }}{after}
    %final = hopper.wgmma_wait 0, %sum : {self.fragment} -> {self.fragment}
    %rounded = ew.map truncf(%final) : ({self.fragment}) -> {self.rounded}
    %stage = hopper.slot %staging[%who] : {_STAGING} -> {_CHUNK}
    %own = ew.map addi(%m, %down) : (i32, i32) -> i32
{self.chunk(0)}
{self.chunk(1)}
{_one_thread("group", 4, "hopper.bulk_wait_read 0 {end}")}
  }}) : () -> ()
"""

    def chunk(self, index: int) -> str:
        """64 columns of the epilogue."""
        free = _one_thread("group", 4, "hopper.bulk_wait_read 0")
        store = _one_thread(
            "group",
            4,
            f"hopper.tma_store %tc[%own, %at{index}] from %stage : {_MAP}, {_CHUNK}",
            "hopper.bulk_commit",
        )
        return f"""{free}
    hopper.named_barrier_sync %name threads 128 {{free}}
    hopper.stmatrix %rounded from {32 * index}, %stage : {self.rounded}, {_CHUNK}
    hopper.fence_proxy_async
    hopper.named_barrier_sync %name threads 128 {{written}}
    %column{index} = arith.constant {64 * index} : i32
    %at{index} = ew.map addi(%n, %column{index}) : (i32, i32) -> i32
{store}"""

    def text(self) -> str:
        """The whole module."""
        spec = self.spec()
        quoted = spec.to_json().replace('"', '\\"')
        parameters = ", ".join(f"%{t} : {_MAP}" for t in ("ta", "tb", "tc"))
        if self.kind == "copies":
            parameters += ", %tiles_m : i32, %tiles_k : i32, %pb : !tawa.ptr<f16>, %ldb : i32"
        else:
            parameters += ", %tiles_m : i32, %tiles_k : i32"
        numbers = f"hopper.threads = {spec.threads}, hopper.shared_bytes = {spec.shared_bytes}"
        end = "\n  hopper.cluster_sync {end}" if self.ctas > 1 else ""
        return f"""func.func @gemm({parameters}) attributes {{
  {numbers}, hopper.cluster = {self.ctas}, hopper.ctas_per_sm = 1, tawa.spec = "{quoted}"}} {{
{self.prologue()}{self.load()}{self.math()}{end}
  func.return
}}
"""


def gemm_text(kind: str = "cooperative") -> str:
    """The text of a correct kernel, one of `KINDS`."""
    return _Gemm(kind).text()
