"""Tidying finds what xDSL's own passes find: equal reads, equal regions, what is dead with them."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import dce

from tawa.ir.tidy import Tidy
from tawa.tile.dialect.ops import tile_context

LOAD = "tile.load %p : !tawa.ptr<i32> -> i32"
STORE = "tile.store %p, {} : !tawa.ptr<i32>, i32"
IF = (
    "%{} = scf.if %b -> (i32) {{\n"
    "%{}_in = ew.map {}(%x, %y) : (i32, i32) -> i32\n"
    "scf.yield %{}_in : i32\n}} else {{\nscf.yield %x : i32\n}}"
)


def add(name: str, *operands: str) -> str:
    return f"%{name} = ew.map addi({', '.join(operands)}) : (i32, i32) -> i32"


def branch(name: str, function: str) -> str:
    return IF.format(name, name, function, name)


PROGRAMS = {
    "equal ops": [add("a", "%x", "%y"), add("c", "%x", "%y"), add("r", "%a", "%c")],
    "a place tells them apart": [
        "%a = ew.map addi(%x, %y) {tawa.loc = 1 : i32} : (i32, i32) -> i32",
        add("c", "%x", "%y"),
        add("r", "%a", "%c"),
    ],
    "a chain that nothing uses": [add("a", "%x", "%y"), add("c", "%a", "%y"), add("r", "%x", "%x")],
    "equal reads": [f"%a = {LOAD}", f"%c = {LOAD}", add("r", "%a", "%c")],
    "a write between": [
        *(f"%a = {LOAD}", STORE.format("%x"), f"%c = {LOAD}", f"%d = {LOAD}"),
        *(add("e", "%a", "%c"), add("r", "%e", "%d")),
    ],
    "a read in a branch": [
        f"%a = {LOAD}",
        f"%c = scf.if %b -> (i32) {{\n%d = {LOAD}\nscf.yield %d : i32\n}} else {{\n"
        f"{add('e', '%x', '%y')}\nscf.yield %e : i32\n}}",
        *(add("f", "%x", "%y"), add("g", "%f", "%a"), add("r", "%g", "%c")),
    ],
    "equal branches": [branch("a", "addi"), branch("c", "addi"), add("r", "%a", "%c")],
    "unequal branches": [branch("a", "addi"), branch("c", "subi"), add("r", "%a", "%c")],
    "a branch that nothing uses": [branch("a", "addi"), add("r", "%x", "%x")],
}


@pytest.mark.parametrize("lines", PROGRAMS.values(), ids=PROGRAMS)
def test_tidies_as_xdsl_does(lines: list[str]) -> None:
    body = "\n".join([*lines, STORE.format("%r")])
    arguments = "%p : !tawa.ptr<i32>, %x : i32, %y : i32, %b : i1"
    text = f"func.func @f({arguments}) {{\n{body}\nfunc.return\n}}"
    mine, its = (Parser(tile_context(), text).parse_module() for _ in range(2))
    Tidy().apply(mine)
    cse(its)
    dce(its)
    assert str(mine) == str(its)


def test_takes_equal_ops_for_one() -> None:
    body = "\n".join([*PROGRAMS["equal ops"], "func.return %r : i32"])
    text = f"func.func @f(%x : i32, %y : i32) -> i32 {{\n{body}\n}}"
    module = Parser(tile_context(), text).parse_module()
    Tidy().apply(module)
    assert str(module).count("ew.map") == 2
