"""Which line of CUDA C++ an instruction comes from, where the assembler's table does not say."""

import re

from simulation import Arrays, Recorded
from suite import cases

from tawa.cli.report.machine_code import MachineLine, machine_code, paired
from tawa.driver.compiler import compile_kernel
from tawa.driver.inspection.cuda_lines import cuda_text
from tawa.runtime.sass import disassemble

BODY = range(10, 30)


def code(*rows: tuple[str, int | None, bool]) -> list[MachineLine]:
    return [MachineLine(text, 16 * i, line, own) for i, (text, line, own) in enumerate(rows)]


def ptx(*rows: tuple[int, str]) -> str:
    return "".join(f".loc 1 {line} 5\n{text}\n" for line, text in rows)


def lines(found: list[MachineLine]) -> list[int | None]:
    return [line.line for line in found]


def test_products_take_the_lines_of_their_order_in_ptx():
    found = paired(
        code(
            ("UMOV UR4, 0x1", 12, True),
            ("     HGMMA.64x8x16.F32 R0", 12, False),  # the row of what stands before it
            ("UMOV UR5, 0x1", 15, True),
            ("     HGMMA.64x8x16.F32 R0", 15, False),
            ("     HGMMA.64x8x16.F32 R0", 15, False),
        ),
        ptx(*((line, "wgmma.mma_async.sync.m64n8k16 x;") for line in (13, 14, 16))),
        BODY,
    )
    assert lines(found) == [12, 13, 15, 14, 16]


def test_products_that_the_assembler_leaves_out_shift_nothing():
    # Two groups of two in PTX; of the first, nothing is left but an empty one.
    rows = [(13, "m64n8k16"), (14, "m64n8k16"), (17, "m64n8k16"), (18, "m64n8k16")]
    table = ptx((12, "wgmma.fence;")) + "".join(
        (ptx((16, "wgmma.fence;")) if line == 17 else "")
        + ptx((line, f"wgmma.mma_async.{shape} x;"))
        for line, shape in rows
    )
    found = paired(
        code(
            ("WARPGROUP.ARRIVE", 12, True),
            ("HGMMA.64x8x8.F16 RZ", 12, False),
            ("WARPGROUP.ARRIVE", 16, True),
            ("HGMMA.64x8x16.F32 R0", 16, False),
            ("HGMMA.64x8x16.F32 R0", 16, False),
        ),
        table,
        BODY,
    )
    assert lines(found) == [12, 12, 16, 17, 18]


def test_a_row_that_contradicts_the_order_is_believed():
    # The blocks were laid out the other way round: both instructions have rows of their own.
    found = paired(
        code(("BAR.SYNC 0x1", 21, True), ("BAR.SYNC 0x2", 20, True)),
        ptx((20, "bar.sync 2;"), (21, "bar.sync 1;")),
        BODY,
    )
    assert lines(found) == [21, 20]


def test_copies_of_an_instruction_take_the_line_before_them():
    # One wait in PTX, two in machine code: the first try and the loop that tries again.
    found = paired(
        code(
            ("SYNCS.PHASECHK P0", 17, True),
            ("@!P0 BRA", 17, False),
            ("LEA R1", 18, True),
            ("SYNCS.PHASECHK P0", 18, False),
        ),
        ptx((17, "mbarrier.try_wait.parity p;")),
        BODY,
    )
    assert lines(found) == [17, 17, 18, 17]


def test_a_line_of_an_inlined_function_counts_for_its_caller():
    text = ".loc 1 12 3\n.loc 1 4 9, function_name $x, inlined_at 1 12 3\nbar.sync 1;\n"
    assert lines(paired(code(("BAR.SYNC 0x1", None, False)), text, BODY)) == [12]


def bare(text: str) -> str:
    return re.sub(r"\s|\.L_\w+", "", text)


def test_a_kernel_that_was_assembled_again_is_shown_as_it_runs():
    """Its C++ alone, with that bound, has other machine code."""
    launch = cases()["stencil"](Arrays())
    asked = Recorded(launch.kernel, launch.grid, tuple(launch.args), dict(launch.constants))
    request = asked.request()
    parts = request.types, request.constants, request.options
    compiled = compile_kernel(launch.kernel, *parts, dump_dir=None, override={})
    program = cuda_text(compiled.module("hopper"))
    body = range(program.kernel, len(program.text.splitlines()) + 1)
    known = program.text, compiled.spec.entry, request.options.target, body
    own = [bare(i.text) for i in disassemble(compiled.cubin)[compiled.spec.entry].instructions]
    for launched, same in ((compiled.spec.ctas_per_sm, True), (None, False)):
        shown = [line for line in machine_code(*known, launched) if line.address is not None]
        assert ([bare(line.text) for line in shown] == own) is same
        assert sum(line.line is not None for line in shown) > len(shown) * 0.9
