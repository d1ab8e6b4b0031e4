"""Listings of machine code are parsed, whatever directives stand in a function's section."""

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
