"""At which clock a kernel is predicted."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from handwritten import gemm_text, hopper_context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tawa.driver.prediction.launches import clock_of
from tawa.machine.chips import H200


def emptied(names: Iterable[str] = ()) -> ModuleOp:
    module = Parser(hopper_context(), gemm_text("cooperative")).parse_module()
    if names:
        module.body.block.ops.first.detach()  # pyright: ignore
    return module


@pytest.mark.parametrize(("names", "expected"), [
    ((), H200.capped_ghz), (("all",), H200.clock_ghz),
])  # fmt: skip
def test_products_run_at_what_power_leaves_them(names: tuple[str, ...], expected: float):
    assert H200.capped_ghz < H200.clock_ghz
    assert clock_of(emptied(names), H200) == expected
