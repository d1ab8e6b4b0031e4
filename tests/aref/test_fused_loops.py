"""Loops of kernels that fuse products with other work: what the scheduler makes of them."""

from __future__ import annotations

import pytest
from fused import WORKLOADS
from simulation import recorded
from xdsl.dialects import scf

from tawa.aref.dialect.ops import DotIssue, DotWait, Stage
from tawa.driver.compiled import Compiled
from tawa.ir.decisions.loops import LoopScheduled
from tawa.tile.dialect.ops import Reduce

BY_NAME = {workload.name: workload for workload in WORKLOADS}


def compiled(name: str) -> Compiled:
    """A workload, compiled."""
    launch, _ = recorded(BY_NAME[name])
    return launch.compile()


@pytest.mark.parametrize(
    "name", ["fused_mlp-wide", "attention_dq-full", "attention_dk_dv-full", "linear_attention-64"]
)
def test_loops_with_several_products_are_scheduled(name: str):
    """The solver finds a turn for products that ordinary code, and other products, feed."""
    assert compiled(name).decided(LoopScheduled)


def test_products_of_one_sum_follow_each_other():
    """No product waits for the one whose value it adds to, if nothing else needs that value."""
    module = compiled("linear_attention-128").module("aref")
    issued = [op for op in module.walk() if isinstance(op, DotIssue)]
    assert any(isinstance(op.accumulator.owner, DotIssue) for op in issued)
    waited = [op.accumulator for op in issued if isinstance(op.accumulator.owner, DotWait)]
    assert not any(value.has_one_use() for value in waited)


def test_sums_run_beside_the_product_that_reads_the_same_slot():
    """The loop that takes the row sums of A waits for the product of the turn before only.

    The first column of programs alone takes them, behind the products.
    """
    module = compiled("gemm_reduction-plain").module("aref")
    (loop,) = [
        op
        for op in module.walk()
        if isinstance(op, scf.ForOp) and any(isinstance(o, DotIssue) for o in op.body.block.ops)
    ]
    ops = list(loop.body.block.ops)
    assert [op.pending.value.data for op in ops if isinstance(op, DotWait)] == [1]
    (branch,) = [op for op in ops if any(isinstance(inner, Reduce) for inner in op.walk())]
    assert isinstance(branch, scf.IfOp)
    assert all(op.is_before_in_block(branch) for op in ops if isinstance(op, DotIssue))


def test_slots_that_several_products_read_are_not_copied():
    """K is read by two products, in one turn or two, always from its slot."""
    ops = list(compiled("attention_dq-full").module("aref").walk())
    assert not any(isinstance(op, Stage) for op in ops)


def test_every_product_is_waited_for():
    """Epilogues don't issue products whose values nobody reads, nor return their slots too soon."""
    for name in ("linear_attention-128", "attention_dq-full"):
        issued = [op for op in compiled(name).module("aref").walk() if isinstance(op, DotIssue)]
        assert all(any(True for _ in op.result.uses) for op in issued), name


def test_a_wait_finishes_what_was_issued_before():
    """No wait follows one, with no product issued in between, that left fewer unfinished."""
    module = compiled("linear_attention-128").module("aref")
    for block in {op.parent for op in module.walk() if isinstance(op, DotWait)}:
        assert block is not None
        pending: int | None = None
        for op in block.ops:
            if isinstance(op, DotIssue):
                pending = None
            elif isinstance(op, DotWait):
                assert pending is None or op.pending.value.data < pending
                pending = op.pending.value.data
