"""Modules are verified after each pass; what is unchanged is not looked at again."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp, StringAttr, f32, i1, i32
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import IRDLOperation, attr_def, irdl_op_definition
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


class Program:
    """Two functions with a loop around an op each; the ops of the first, and what is verified."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.named: dict[str, Operation] = {}
        self.module = ModuleOp([self._function("one"), self._function("other")])
        self.named["module"] = self.module
        self.seen: list[Operation] = []
        plain = Operation.verify

        def noted(op: Operation, verify_nested_ops: bool = True) -> None:
            self.seen.append(op)
            plain(op, verify_nested_ops)

        monkeypatch.setattr(Operation, "verify", noted)
        self.verifier = Verifier()

    def _function(self, name: str) -> func.FuncOp:
        block = Block(arg_types=[f32, i32])
        x, n = block.args
        body = Block(arg_types=[i32])
        inner, beside = Map("negf", [x]), Map("absf", [x])
        loop = scf.ForOp(n, n, n, [], body)
        body.add_ops([inner, scf.YieldOp()])
        block.add_ops([loop, beside, func.ReturnOp()])
        function = func.FuncOp(name, ([f32, i32], []), Region(block))
        self.named |= {
            f"{part} of {name}": op
            for part, op in (
                ("inner", inner),
                ("loop", loop),
                ("beside", beside),
                ("all", function),
            )
        }
        return function

    def verified(self) -> set[str]:
        """Those of the named ops that were looked at, now."""
        self.seen.clear()
        self.verifier.verify(self.module)
        return {name for name, op in self.named.items() if op in self.seen}


AROUND = {f"{part} of {name}" for part in ("loop", "all") for name in ("one", "other")}


def test_what_is_looked_at_after_a_change(monkeypatch: pytest.MonkeyPatch):
    """Ops without regions once for all that are alike; ops around them where something changed."""
    p = Program(monkeypatch)
    assert p.verified() == {"module", *AROUND, "inner of one", "beside of one"}
    assert p.verified() == set()
    p.named["inner of one"].properties["function"] = StringAttr("exp")
    assert p.verified() == {"inner of one", "loop of one"}, "not the function around the loop"
    p.named["inner of other"].properties["function"] = StringAttr("exp")
    assert p.verified() == {"loop of other"}, "one like it was well"
    p.named["beside of one"].properties["function"] = StringAttr("sqrt")
    assert p.verified() == {"beside of one", "all of one"}
    p.named["inner of one"].attributes["mark"] = StringAttr("x")
    assert p.verified() == {"loop of one"}, "what is not declared is nobody's to verify"
    p.named["loop of one"].attributes["mark"] = StringAttr("x")
    assert p.verified() == {"loop of one", "all of one"}
    p.named["all of one"].attributes["mark"] = StringAttr("x")
    assert p.verified() == {"all of one", "module"}


def test_a_type_that_changed_has_everything_looked_at(monkeypatch: pytest.MonkeyPatch):
    p = Program(monkeypatch)
    p.verified()
    counter = p.named["loop of one"].regions[0].block.args[0]
    counter.name_hint = "i"
    assert p.verified() == set()
    counter._type = i1
    with pytest.raises(VerifyException):
        p.verified()
    counter._type = i32
    assert {"module", *AROUND} <= p.verified(), "two changes at once"


def test_a_value_of_another_function_is_found_in_a_loop(monkeypatch: pytest.MonkeyPatch):
    p = Program(monkeypatch)
    p.verified()
    other = p.named["beside of other"]
    p.named["inner of one"].operands[0] = other.results[0]
    with pytest.raises(VerifyException, match="IsolatedFromAbove"):
        p.verified()


def test_ops_are_alike_only_in_ops_that_are_alike(monkeypatch: pytest.MonkeyPatch):
    """A verifier may look at the op around; the text of a branch is not that of a loop."""
    p = Program(monkeypatch)
    p.verified()
    inside = Map("negf", [p.named["inner of one"].operands[0]])
    branch = scf.IfOp(arith.ConstantOp.from_int_and_width(1, 1), [], [inside, scf.YieldOp()])
    loop = p.named["loop of one"]
    assert loop.parent is not None
    loop.parent.insert_ops_before([branch.cond.owner, branch], loop)
    p.named["inside"] = inside
    assert "inside" in p.verified()


def test_declared_attributes_are_part_of_what_is_verified(monkeypatch: pytest.MonkeyPatch):
    @irdl_op_definition
    class Declared(IRDLOperation):
        name = "test.declared"
        kind = attr_def(StringAttr)

    p = Program(monkeypatch)
    first, second = (Declared(attributes={"kind": StringAttr("a")}) for _ in range(2))
    loop = p.named["loop of one"]
    assert loop.parent is not None
    loop.parent.insert_ops_before([first, second], loop)
    p.named |= {"first": first, "second": second}
    found = p.verified()
    assert ("first" in found, "second" in found) == (True, False)
    second.attributes["kind"] = StringAttr("b")
    assert "second" in p.verified()
    second.attributes["kind"] = i32
    with pytest.raises(VerifyException):
        p.verified()


def test_what_is_known_is_forgotten_when_it_is_much(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(verification, "MOST_SIGNATURES", 1)
    p = Program(monkeypatch)
    p.verified()
    assert len(verification._WELL) == 2, "two fit before the third is asked for"
    p.named["inner of one"].properties["function"] = StringAttr("exp")
    p.verified()
    assert len(verification._WELL) == 1
