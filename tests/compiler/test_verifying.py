"""A pass that breaks the module is found, with or without a look after every pass."""

from __future__ import annotations

from typing import ClassVar

import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Region

from tawa.base.options import Options
from tawa.driver.compilation import Compilation, PassFailed
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map


class Nothing:
    """Changes nothing."""

    name: ClassVar[str] = "nothing"
    contract: ClassVar[Contract] = Contract()

    def apply(self, module: ModuleOp) -> None:
        """Change nothing."""


class DropReturn:
    """Leaves a function without its end."""

    name: ClassVar[str] = "drop-return"
    contract: ClassVar[Contract] = Contract()

    def apply(self, module: ModuleOp) -> None:
        """Erase what ends the function."""
        (end,) = (op for op in module.walk() if isinstance(op, func.ReturnOp))
        end.detach()
        end.erase()


def module() -> ModuleOp:
    block = Block(arg_types=[f32])
    block.add_ops([Map("negf", [block.args[0]]), func.ReturnOp()])
    return ModuleOp([func.FuncOp("kernel", ([f32], []), Region(block))])


def message(monkeypatch: pytest.MonkeyPatch, verify: str) -> PassFailed:
    monkeypatch.setenv("TAWA_VERIFY", verify)
    with pytest.raises(PassFailed) as raised:
        Compilation(Options()).run([Nothing(), DropReturn(), Nothing()], module())
    return raised.value


def test_the_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "pass drop-return broke the module" in str(message(monkeypatch, "1"))


def test_the_passes_of_a_level_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    said = str(message(monkeypatch, "0"))
    assert "one of the passes nothing, drop-return, nothing broke the module" in said
    assert "TAWA_VERIFY=1" in said


def test_tests_look_after_every_pass() -> None:
    from tawa.base.knobs import VERIFY

    assert VERIFY.get()


@pytest.mark.parametrize("verify", ["0", "1"])
def test_a_level_that_goes_on_is_verified_at_its_end(
    monkeypatch: pytest.MonkeyPatch, verify: str
) -> None:
    """Its first part is taken as it is, and named with the rest; a level that ended is not."""
    monkeypatch.setenv("TAWA_VERIFY", verify)
    work = Compilation(Options())
    whole = work.run([Nothing()], module())
    if verify == "1":
        with pytest.raises(PassFailed, match="pass drop-return"):
            work.run([DropReturn()], whole, goes_on=True)
        return
    broken = work.run([DropReturn()], whole, goes_on=True)
    with pytest.raises(PassFailed, match="one of the passes drop-return, nothing broke"):
        work.run([Nothing()], broken)


def test_times_of_a_stage_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 10.5, 20.0, 22.0, 30.0, 31.0])
    monkeypatch.setattr("tawa.driver.compilation.time.perf_counter", lambda: next(clock))
    work = Compilation(Options())
    assert work.timed("aref", lambda: 7) == 7
    assert work.timings == {"aref": 0.5}
    work.timed("aref", lambda: None)
    work.timed("hopper", lambda: None)
    assert work.timings == {"aref": 2.5, "hopper": 1.0}
