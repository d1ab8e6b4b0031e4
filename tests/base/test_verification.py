"""Modules are verified after each pass; what is unchanged is not looked at again."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp, StringAttr, f32, i1, i32
from xdsl.ir import Block, Region
from xdsl.utils.exceptions import VerifyException

from tawa.ir import verification
from tawa.ir.elementwise import Map
from tawa.ir.verification import Verifier


@pytest.fixture(autouse=True)
def nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "_WELL", set())


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[Map]:
    """The maps whose verifier ran, in order."""
    found: list[Map] = []
    plain = Map.verify_

    def noted(self: Map) -> None:
        found.append(self)
        plain(self)

    monkeypatch.setattr(Map, "verify_", noted)
    return found


def module() -> tuple[ModuleOp, list[Map]]:
    """A function that adds twice, and negates."""
    block = Block(arg_types=[f32, f32])
    x, y = block.args
    maps = [Map("addf", [x, y]), Map("addf", [y, x]), Map("negf", [x])]
    block.add_ops([*maps, func.ReturnOp()])
    function = func.FuncOp("kernel", ([f32, f32], []), Region(block))
    return ModuleOp([function]), maps


def test_what_is_alike_is_verified_once(verified: list[Map]):
    kernel, (first, _, third) = module()
    Verifier().verify(kernel)
    assert verified == [first, third]


def test_what_did_not_change_is_not_verified_again(verified: list[Map]):
    kernel, (_, second, _) = module()
    verifier = Verifier()
    verifier.verify(kernel)
    verified.clear()
    second.properties["function"] = StringAttr("mulf")
    verifier.verify(kernel)
    assert verified == [second]


def test_a_wrong_property_is_found():
    kernel, (_, second, _) = module()
    verifier = Verifier()
    verifier.verify(kernel)
    second.properties["function"] = StringAttr("no such function")
    with pytest.raises(VerifyException, match="no such function"):
        verifier.verify(kernel)


def test_a_type_changed_in_place_is_found():
    kernel, (first, *_) = module()
    verifier = Verifier()
    verifier.verify(kernel)
    first.result._type = i32
    with pytest.raises(VerifyException, match="addf"):
        verifier.verify(kernel)


def test_a_missing_terminator_is_found():
    kernel, (*_, last) = module()
    verifier = Verifier()
    verifier.verify(kernel)
    end = last.next_op
    assert end is not None
    end.detach()
    with pytest.raises(VerifyException, match="terminator"):
        verifier.verify(kernel)


def test_an_operand_that_was_erased_is_found():
    kernel, maps = module()
    verifier = Verifier()
    constant = arith.ConstantOp.from_int_and_width(1, 32)
    block = maps[0].parent
    assert block is not None
    block.insert_ops_before([constant, user := Map("absi", [constant])], maps[0])
    verifier.verify(kernel)
    constant.detach()
    constant.erase(safe_erase=False)
    assert user.parent is block
    with pytest.raises(ValueError, match="Erased"):
        verifier.verify(kernel)


def test_an_op_at_the_wrong_place_is_found_though_one_like_it_was_well():
    kernel, (first, *_) = module()
    verifier = Verifier()
    verifier.verify(kernel)
    assert first.parent is not None
    first.parent.insert_op_before(func.ReturnOp(), first)
    with pytest.raises(VerifyException, match="must be the last operation"):
        verifier.verify(kernel)


def branching() -> tuple[ModuleOp, list[scf.IfOp], Map]:
    """A function with a branch in a branch that holds an op."""
    block = Block(arg_types=[i1, f32])
    condition, x = block.args
    inner = Map("negf", [x])
    branch = scf.IfOp(condition, [], [inner, scf.YieldOp()])
    around = scf.IfOp(condition, [], [branch, scf.YieldOp()])
    block.add_ops([around, func.ReturnOp()])
    function = func.FuncOp("kernel", ([i1, f32], []), Region(block))
    return ModuleOp([function]), [branch, around], inner


def test_an_op_with_regions_is_verified_when_something_in_it_changed(
    monkeypatch: pytest.MonkeyPatch,
):
    verified: list[scf.IfOp] = []
    monkeypatch.setattr(scf.IfOp, "verify_", lambda op: verified.append(op))
    kernel, branches, inner = branching()
    verifier = Verifier()
    for expected, change in (
        (branches, lambda: None),
        ([], lambda: None),
        (branches, lambda: inner.properties.update(function=StringAttr("absf"))),
        (branches, inner.detach),
        ([], lambda: None),
    ):
        change()
        verified.clear()
        verifier.verify(kernel)
        assert verified == expected


def test_a_value_of_another_function_is_found():
    kernel, (first, *_) = module()
    other, (user, *_) = module()
    verifier = Verifier()
    verifier.verify(kernel)
    function = other.body.block.first_op
    assert isinstance(function, func.FuncOp)
    function.detach()
    function.properties["sym_name"] = StringAttr("other")
    kernel.body.block.add_op(function)
    verifier.verify(kernel)
    user.operands[0] = first.result
    with pytest.raises(VerifyException, match="IsolatedFromAbove"):
        verifier.verify(kernel)
