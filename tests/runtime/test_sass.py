"""Listings of machine code are parsed, whatever directives stand in a function's section."""

import pytest

from tawa.runtime.sass import parse

LISTING = """
//--------------------- .text.kernel  --------------------------
\t.section\t.text.kernel,"ax",@progbits
\t.sectionflags\t@"SHF_BARRIERS=1"
\t.align\t128
.text.kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   EXIT ;
\t.section\t.nv.info,"",@"SHT_CUDA_INFO"
        /*0000*/                   NOP ;
"""


def test_flags_of_a_section_do_not_end_it():
    (function,) = parse(LISTING).values()
    assert [i.opcode for i in function.instructions] == ["LDC", "EXIT"]


def loops_of(text: str) -> list[list[str]]:
    """The opcodes of each loop of a kernel whose instructions are separated by semicolons."""
    listing, address = ['\t.section\t.text.kernel,"ax",@progbits'], 0
    for part in filter(None, map(str.strip, text.split(";"))):
        *labels, instruction = part.split(": ")
        listing += [f"{label}:" for label in labels]
        listing.append(f"        /*{address:04x}*/                   {instruction} ;")
        address += 16
    (function,) = parse("\n".join(listing)).values()
    return [[i.opcode for i in loop.body] for loop in function.loops]


BACK = "BRA `(.L_x_0)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f".L_x_0: IADD3 R1 ; @P0 {BACK} ; EXIT", [["IADD3", "BRA"]]),
        (f".L_x_0: IADD3 R1 ; @!PT {BACK} ; EXIT", [["IADD3", "BRA"]]),
        (".L_x_0: IADD3 R1 ; BRA P0, `(.L_x_0) ; EXIT", [["IADD3", "BRA"]]),
        # What follows belongs to the loop only if it can be reached.
        (f".L_x_0: IADD3 R1 ; @P0 {BACK} ; FADD R2 ; {BACK}", [["IADD3", "BRA", "FADD", "BRA"]]),
        (f".L_x_0: IADD3 R1 ; BRA P0, `(.L_x_0) ; FADD R2 ; {BACK}",
         [["IADD3", "BRA", "FADD", "BRA"]]),
        (f".L_x_0: IADD3 R1 ; BRA.DIV UR4, `(.L_x_0) ; FADD R2 ; {BACK}",
         [["IADD3", "BRA.DIV", "FADD", "BRA"]]),
        (f".L_x_0: IADD3 R1 ; @PT {BACK} ; FADD R2 ; {BACK}", [["IADD3", "BRA"]]),
        (f".L_x_0: IADD3 R1 ; {BACK} ; FADD R2 ; {BACK}", [["IADD3", "BRA"]]),
        (f".L_x_0: IADD3 R1 ; BRA `(.L_x_2) ; FADD R2 ; {BACK} ; .L_x_2: EXIT", []),
        (f".L_x_0: IADD3 R1 ; BRA 0x0, `(.L_x_2) ; FADD R2 ; {BACK} ; .L_x_2: EXIT", []),
        (f".L_x_0: IADD3 R1 ; EXIT ; FADD R2 ; {BACK}", []),
        (f".L_x_0: IADD3 R1 ; @P1 EXIT ; FADD R2 ; {BACK}", [["IADD3", "EXIT", "FADD", "BRA"]]),
        # A loop in a loop, and one of two headers, which is none.
        (f".L_x_0: MOV R1 ; .L_x_1: FADD R2 ; @P0 BRA `(.L_x_1) ; @P1 {BACK} ; EXIT",
         [["MOV", "FADD", "BRA", "BRA"], ["FADD", "BRA"]]),
        (f"@P0 BRA `(.L_x_1) ; .L_x_0: IADD3 R1 ; .L_x_1: FADD R2 ; @P1 {BACK} ; EXIT", []),
    ],
)  # fmt: skip
def test_loops_of_machine_code(text: str, expected: list[list[str]]):
    assert loops_of(text) == expected
