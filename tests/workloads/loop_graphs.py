"""Loops of example kernels as the scheduler sees them."""

from __future__ import annotations

import importlib

import workload  # noqa: F401  examples can be imported
from xdsl.dialects import scf

from tawa.aref.dialect.ops import Create, WarpGroup
from tawa.base.attempts import NO_SLACK
from tawa.base.options import Options
from tawa.driver.compiled import read_module
from tawa.driver.compiler import compile_kernel
from tawa.driver.pipeline import passes
from tawa.ir.decisions.decision import Decisions
from tawa.machine.chips import H100
from tawa.pipeline.dependence_graph import DependenceGraph, build
from tawa.tile.dialect.ops import Dot


def graph_of(
    kernel: object, types: dict[str, str], constants: dict[str, object], depth: int | None = None
) -> DependenceGraph:
    """The graph of a kernel's loop with products, as the scheduler sees it.

    With `depth`, the rings have so many slots.
    """
    options = Options(overlap=False)
    tile = compile_kernel(kernel, types, constants, options).stages["tile"]
    module = read_module(str(tile), "tile")
    for step in passes("aref", options, Decisions(), NO_SLACK):
        if step.name == "schedule":
            break
        module = step.apply(module) or module
    for group in [op for op in module.walk() if isinstance(op, WarpGroup) and op.single is None]:
        for loop in [op for op in group.walk() if isinstance(op, scf.ForOp)]:
            if any(isinstance(op, Dot) for op in loop.body.block.ops):
                rings = [op.ref for op in module.walk() if isinstance(op, Create)] if depth else []
                depths = dict.fromkeys(rings, depth or 0)
                shape = group.warps.value.data, group.teams.value.data
                graph = build(loop, *shape, H100, depths)
                assert isinstance(graph, DependenceGraph), graph
                return graph
    raise AssertionError("the kernel has no loop with products")


def attention(d: int) -> DependenceGraph:
    """Attention forward, 128 rows by 128 keys."""
    kernel = importlib.import_module("attention").attention
    names = ("q_desc", "k_desc", "v_desc", "o_desc")
    types = dict.fromkeys(names, f"desc<f16,1x128x{d}>") | {"scale": "f32", "N": "i32:16"}
    constants = {"D": d, "BLOCK_M": 128, "BLOCK_N": 128, "CAUSAL": False}
    return graph_of(kernel, types, constants)
