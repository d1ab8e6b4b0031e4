"""What the compiler made of a kernel, as things to look at: a page, and pictures of a timeline.

A report joins what the other parts know: the IR levels and their source locations, the emitter's
line table, the assembler's, the simulator's prediction. It decides nothing, and it needs no GPU.
"""
