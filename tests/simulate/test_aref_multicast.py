"""Clusters at the aref level: shared loads reach both CTAs, and only slots that are free in both."""

import numpy as np
import pytest
from lowering import modules
from test_multicast import odd_rows
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i1
from xdsl.ir import Operation

from tawa.aref.dialect import ops
from tawa.ir.elementwise import Map
from tawa.simulate.interpret import aref, errors

PERSISTENT = {"persistent": True, "cluster": 2}


class Launch:
    """A persistent GEMM of some tile rows at the aref level, and its arrays."""

    def __init__(self, rows: int, **options: object) -> None:
        sweep = odd_rows(rows).sweep()
        self.module: ModuleOp = modules(sweep.kernel, sweep.named, {**PERSISTENT, **options})[
            "aref"
        ]
        names = [a.name_hint for a in next(iter(self.module.ops)).body.block.args]
        self.arguments = [sweep.named[name] for name in names if name in sweep.named]
        self.grid, self.named = sweep.grid, sweep.named

    def run(self) -> None:
        """Run and compare with NumPy."""
        aref.run(self.module, self.grid, self.arguments, multiprocessors=2)
        a, b, c = (self.named[f"{x}_desc"].base.astype(float) for x in "abc")
        np.testing.assert_allclose(c, a @ b.T, rtol=1e-2, atol=5e-2)

    def all_of(self, kind: type[Operation]) -> list[Operation]:
        """The module's ops of a class."""
        return [op for op in self.module.walk() if isinstance(op, kind)]


@pytest.mark.parametrize("rows", [1, 3, 4])
@pytest.mark.parametrize(
    "more", [{"consumers": 1, "num_stages": 1}, {"consumers": 1}, {"ping_pong": True}]
)
def test_clusters_compute_what_single_ctas_do(rows: int, more: dict):
    launch = Launch(rows, **more)
    assert any(op.multicast for op in launch.all_of(ops.Create))
    assert any(op.shared is not None for op in launch.all_of(ops.LoadInto))
    launch.run()


def never(where: Operation) -> arith.ConstantOp:
    """A false flag before an op."""
    false = arith.ConstantOp(IntegerAttr(0, i1))
    where.parent.insert_op_before(false, where)
    return false


def test_a_slot_returned_to_its_own_cta_alone_stops_the_other():
    launch = Launch(4, consumers=1)
    for op in launch.all_of(ops.Consumed):
        op.operands[2] = never(op).result
    with pytest.raises(errors.OverwriteWhileBorrowed, match="written by multicast while"):
        launch.run()


def test_a_cta_that_shares_what_the_other_loads_alone():
    launch = Launch(4, consumers=1)
    for op in launch.all_of(ops.LoadInto):
        rank = ops.CtaIndex()
        zero = arith.ConstantOp(IntegerAttr(0, 32))
        first = Map("cmpi_eq", [rank.result, zero.result])
        flag = Map("andi", [first.result, op.shared])
        op.parent.insert_ops_before([rank, zero, first, flag], op)
        op.operands[-1] = flag.result
    with pytest.raises(errors.WrongByteCount, match="CTA 0 multicasts a part"):
        launch.run()


def test_sharing_again_after_a_turn_apart_is_caught(monkeypatch: pytest.MonkeyPatch):
    """Without the agreement carried from turn to turn, as at the hopper level."""
    monkeypatch.setattr(
        "tawa.partition.multicast._still_together", lambda home, kernel, agree: agree
    )
    with pytest.raises((errors.OverwriteWhileBorrowed, errors.Deadlock, errors.SlotOutOfTurn)):
        Launch(3, consumers=1, num_stages=2).run()
