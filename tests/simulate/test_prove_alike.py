"""What makes states of proofs alike changes no number, and lets nobody know more than before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from launches import LAUNCHES
from protocols import correct
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.rewriter import InsertPoint, Rewriter

from tawa.hopper.dialect.sync import ClusterSync, MbarrierArrive, MbarrierWait
from tawa.ir.elementwise import Map
from tawa.simulate import prove
from tawa.simulate.interpret.clocks import TIMED, Components
from tawa.simulate.prove.actor import Walker
from tawa.simulate.prove.facts import Facts
from tawa.simulate.prove.forget import _forget_sums  # pyright: ignore[reportPrivateUsage]
from tawa.simulate.prove.path import Path
from tawa.simulate.prove.pieces import PieceShadow, Regions
from tawa.simulate.prove.state import Cluster, mbarriers_of
from tawa.simulate.prove.turns import NotFree
from tawa.simulate.prove.unknowns import Number, Sum, applied, plus, scaled, term

# --- sums that are named ------------------------------------------------------------------------

ATOMS = [term("new", 1), term("new", 2), term("parameter", "n"), term("count", 0)]


def random_sum(random: np.random.Generator, parts: list[Number]) -> Number:
    total: Number = int(random.integers(-3, 4))
    for part in parts:
        total = plus(total, part, int(random.integers(-1, 2)))
    return total


def of(number: Number, given: dict[Any, int]) -> int:
    """A number's value."""
    if isinstance(number, int):
        return number
    return number.constant + sum(n * of_term(t, given) for t, n in number.terms)


def of_term(found: Any, given: dict[Any, int]) -> int:
    if found[0] != "op":
        return given[found]
    result = applied(found[1], "i32", [of(part, given) for part in found[3:]])
    assert isinstance(result, int)
    return result


def waiting_at_a_while(values: list[Number], changing: list[int]) -> Any:
    names = list(range(len(values)))
    return SimpleNamespace(
        over=False, at=0, code=[SimpleNamespace(kind="while")], changing=[changing],
        values=dict(zip(names, values, strict=True)), live=[names], loops_open=[],
    )  # fmt: skip


def test_a_name_changes_no_number():
    """Whatever the numbers are: a new unknown is the number that it was put in for."""
    random = np.random.default_rng(3)
    named = 0
    for _ in range(400):
        rest = applied("remsi", "i32", [random_sum(random, ATOMS), 7])
        least = applied("minsi", "i32", [random_sum(random, ATOMS), scaled(ATOMS[2], 2)])
        held = [random_sum(random, [*ATOMS, rest, least]) for _ in range(3)]
        given = {t.terms[0][0]: int(random.integers(1, 9)) for t in ATOMS}
        facts = Facts()
        for number in (*held, rest, least):
            if isinstance(number, Sum):
                true = of(number, given)
                facts.restrict(number, (true - int(random.integers(3)), None))
        path = Path(facts, {}, unknowns=2)
        actor = waiting_at_a_while(held, [0])
        before = [of(number, given) for number in held]
        _forget_sums([actor], path)
        if path.unknowns > 2:
            named += 1
            new = actor.values[0]
            assert isinstance(new, Sum)
            assert new.terms == ((("new", 3), 1),)
            given["new", 3] = before[0] - new.constant
        assert [of(actor.values[name], given) for name in range(3)] == before
        for key, (low, high) in path.facts.ranges.items():
            true = of(Sum(0, key), given)
            assert low is None or low <= true
            assert high is None or true <= high
    assert named > 100


NEW, OTHER, PARAMETER, COUNT = ATOMS[0], ATOMS[1], ATOMS[2], ATOMS[3]


@pytest.mark.parametrize(
    ("held", "named"),
    [
        (5, False), (NEW, False), (plus(NEW, 5), False), (PARAMETER, False),
        (plus(NEW, OTHER), True), (plus(NEW, PARAMETER), True), (plus(plus(NEW, OTHER), 3), True),
        (plus(PARAMETER, term("turn", 0)), False), (plus(NEW, scaled(OTHER, -2)), True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("changing", [True, False])
def test_only_sums_that_a_while_goes_on_by_are_named(held: Number, named: bool, changing: bool):
    actor, path = waiting_at_a_while([held], [0] if changing else []), Path(Facts(), {}, unknowns=2)
    _forget_sums([actor], path)
    assert path.unknowns == 2 + (named and changing)
    assert (actor.values[0] == held) is not (named and changing)


# --- waits that all know of -----------------------------------------------------------------------


def known(cluster: Cluster) -> dict[Any, list[bool]]:
    """For each wait, which clocks have seen it."""
    clocks = np.stack(cluster._clocks())[:, TIMED]  # pyright: ignore[reportPrivateUsage]
    return {
        (barrier.component, wait.components): (
            clocks[:, list(wait.components)] >= wait.times
        ).all(axis=1).tolist()
        for barrier in mbarriers_of(cluster.machine)
        for wait in barrier.passed
    }  # fmt: skip


def test_added_waits_are_news_to_nobody(monkeypatch: pytest.MonkeyPatch):
    """Of the others, each clock knows as many as before."""
    add = Cluster._add_known_waits  # pyright: ignore[reportPrivateUsage]
    added = 0

    def checked(cluster: Cluster) -> None:
        nonlocal added
        before = known(cluster)
        add(cluster)
        after = known(cluster)
        assert {key: after[key] for key in before} == before
        assert all(all(after[key]) for key in after.keys() - before.keys())
        added += len(after) - len(before)

    monkeypatch.setattr(Cluster, "_add_known_waits", checked)
    assert prove(correct("cluster").module()).proved
    assert added


# --- clusters and rings that stand still ----------------------------------------------------------


def clustered() -> Any:
    """Two CTAs that share what they load where their tiles allow it."""
    small = next(s for s in LAUNCHES if s.name == "persistent_gemm")
    return small.sweep().module({"cluster": 2, "num_stages": 2, "mma_depth": 0})


def test_a_ring_that_stands_still_is_not_touched():
    """It may stand anywhere beside the one of another CTA."""
    actor: Any = SimpleNamespace(path=Path(Facts(), {}, parked=frozenset({(4, 1)})))
    with pytest.raises(NotFree) as stands:
        Walker.touch_remotely(actor, SimpleNamespace(rank=1), "a copy")  # pyright: ignore
    assert stands.value.wheel == 4


def one_more(value: Any, op: Any) -> Any:
    one = arith.ConstantOp(IntegerAttr(1, i32))
    more = Map("addi", [value, one.result], i32)
    Rewriter.insert_op([one, more], InsertPoint.before(op))
    return more.result


def without_meeting(module: Any) -> None:
    [*_, last] = [op for op in module.walk() if isinstance(op, ClusterSync)]
    last.detach()


def one_return_less(module: Any) -> None:
    next(op for op in module.walk() if isinstance(op, MbarrierArrive) and op.cta).detach()


def one_step_more(module: Any) -> None:
    """In the role that loads."""
    [*_, inner] = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    inner.operands[1] = one_more(inner.ub, inner)


def no_wait(module: Any) -> None:
    next(op for op in module.walk() if isinstance(op, MbarrierWait)).detach()


def a_wait_of_the_other_parity(module: Any) -> None:
    wait = next(op for op in module.walk() if isinstance(op, MbarrierWait))
    one = arith.ConstantOp(IntegerAttr(1, i32))
    other = Map("xori", [wait.parity, one.result], i32)
    Rewriter.insert_op([one, other], InsertPoint.before(wait))
    wait.operands[list(wait.operands).index(wait.parity)] = other.result


def shared_by_one_alone(module: Any) -> None:
    """One role takes a tile to be shared where the other doesn't."""
    both = next(
        op for op in module.walk()
        if isinstance(op, Map) and op.function.data == "ori" and str(op.result.type) == "i1"
    )  # fmt: skip
    Rewriter.replace_op(both, Map("andi", list(both.arguments), both.result.type))


BREAKS = (
    without_meeting, one_return_less, one_step_more, no_wait, a_wait_of_the_other_parity,
    shared_by_one_alone,
)  # fmt: skip


def test_a_persistent_cluster_is_proved():
    proof = prove(clustered())
    assert proof.proved, proof.why


@pytest.mark.parametrize("change", BREAKS)
def test_a_broken_persistent_cluster_never_is(change: Any):
    module = clustered()
    change(module)
    assert not prove(module).proved


# --- what goes on by what is left ---------------------------------------------------------------


def stream_k() -> Any:
    """A loop over tiles, each of which takes another share of the steps."""
    small = next(s for s in LAUNCHES if s.name == "stream_k")
    return small.sweep().module({"num_stages": 2, "staging": 1})


def test_a_loop_that_goes_on_by_what_is_left_is_proved():
    proof = prove(stream_k())
    assert proof.proved, proof.why


@pytest.mark.parametrize("change", [no_wait, a_wait_of_the_other_parity])
def test_a_broken_one_never_is(change: Any):
    module = stream_k()
    change(module)
    assert not prove(module).proved


# --- pieces of shared memory ----------------------------------------------------------------------


def test_a_piece_is_named_by_where_it_begins():
    """Pieces are not numbered in the order of their places."""
    regions = Regions(8, 16, SimpleNamespace(all=[]))  # pyright: ignore[reportArgumentType]
    for first, last in ((0, 3), (3, 8), (5, 6)):
        regions.add((first, last), slice(first, last))
    regions.cut()
    shadow = PieceShadow(128, Components(), 16, regions)
    assert sorted(map(shadow.granule_of, range(regions.pieces))) == [0, 3, 5]
