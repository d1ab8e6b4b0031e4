"""The programs that the timing model runs in place of a kernel, as text, and their pieces of work.

Of each warp group of handwritten products: what takes time, what is counted, what is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from handwritten import gemm_text, hopper_context
from xdsl.dialects import func
from xdsl.parser import Parser

from tawa.machine.chips import H200
from tawa.simulate.interpret.hopper import Span, warp_spans
from tawa.simulate.interpret.launch import kernel_of, number_of
from tawa.simulate.timing.code import Code
from tawa.simulate.timing.program import function
from tawa.simulate.timing.work import Work

ENDS = {"steps": "yield ()", "amounts": "return loads, loaded", "places": "return loaded"}


def texts(kernel: func.FuncOp, span: Span, warps: int) -> Iterator[str]:
    for kind, end in ENDS.items():
        code = Code(H200, span, warps, threads=32 * span.count, counting=kind != "steps")
        code.loads_only, code.places = False, kind == "places"
        function(code, kernel, end)
        yield f"--- {span.name}: from warp {span.first}, {span.count} warps: {kind}"
        yield from code.lines
        for name, found in code.table.items():
            if isinstance(found, Work):
                yield f"{name} = {found}"


@pytest.mark.parametrize("kind", ["cooperative", "cluster", "copies"])
def test_the_text_of_programs(kind: str, golden: Callable[[str, str], None]):
    kernel = kernel_of(Parser(hopper_context(), gemm_text(kind)).parse_module())
    warps = number_of(kernel, "threads") // 32
    lines = [text for span in warp_spans(kernel, warps) for text in texts(kernel, span, warps)]
    golden("\n".join(lines) + "\n", "txt")
