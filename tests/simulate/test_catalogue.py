"""Every broken protocol is caught by its own message; its correct twin passes."""

import pytest
from aref_protocols import EDITS as AREF_EDITS
from protocols import EDITS, KINDS, Edit, Kernel, broken, correct

from tawa.base.spans import Span, SpanAttr
from tawa.simulate import run
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.errors import ProtocolError


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_correct_kernels_pass(kind: str, seed: int | None):
    assert correct(kind).simulate(seed) < 1e-3


@pytest.mark.parametrize("edit", EDITS, ids=lambda e: e.name)
def test_broken_kernels_are_caught(edit: Edit):
    with pytest.raises(getattr(errors, edit.error)) as raised:
        broken(edit.name).simulate()
    assert type(raised.value).__name__ == edit.error


@pytest.mark.parametrize("edit", EDITS, ids=lambda e: e.name)
def test_broken_kernels_are_caught_in_another_schedule(edit: Edit):
    with pytest.raises(ProtocolError):
        broken(edit.name).simulate(seed=5)


def test_the_catalogue_covers_every_error():
    named = {edit.error for edit in (*EDITS, *AREF_EDITS)} | {"UnsafeInterleaving"}
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type)
        and issubclass(value, ProtocolError)
        and value is not ProtocolError
    }
    assert named == classes
    assert len(EDITS) >= 25


def test_an_error_names_op_slot_iteration_and_source_line(tmp_path):
    source = tmp_path / "kernel.py"
    source.write_text("a = load()\nacc = dot(a, b, acc)\n")
    kernel = broken("one more matrix instruction in flight than the return allows")
    module = kernel.module()
    for op in module.walk():
        line = 2 if op.name == "hopper.wgmma" else 1
        op.attributes["loc"] = SpanAttr(Span(str(source), line, 0, line, 5))
    grid, arguments = kernel.launch
    with pytest.raises(errors.OverwriteWhileBorrowed) as raised:
        run(module, grid, arguments)
    text = raised.value.render()
    assert "slot 0 of `a_ring`" in text
    assert "load (k = 3): hopper.tma_load" in text
    assert "math.0 (k = 0): hopper.wgmma" in text
    assert "1 | a = load()" in text, "where the slot is overwritten"
    assert "2 | acc = dot(a, b, acc)" in text, "where it is read"


def test_an_edit_that_finds_nothing_is_an_error():
    with pytest.raises(ValueError, match="finds nothing"):
        Edit("none", "Deadlock", (("no such text", ""),)).apply()


@pytest.mark.parametrize("k", [0, 8, 64, 1000])
def test_any_k(k: int):
    assert Kernel(correct().text, k).simulate() < 1e-3
