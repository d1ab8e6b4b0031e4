"""The hand-written kernels are real ones: they are printed, read back and assembled."""

import pytest
from handwritten import hopper_context
from protocols import KINDS, correct
from xdsl.parser import Parser

from tawa.hopper.emit import emit
from tawa.runtime.nvrtc import compile_cuda


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(kind: str):
    text = str(correct(kind).module())
    assert str(Parser(hopper_context(), text).parse_module()) == text


@pytest.mark.parametrize("kind", KINDS)
def test_assembled_without_a_complaint(kind: str):
    report = compile_cuda(emit(correct(kind).module()), "sm_90a", name=f"{kind}.cu").report
    assert [finding.kind for finding in report.findings()] == []
    assert all(usage.spill_stores == 0 for usage in report.functions)
