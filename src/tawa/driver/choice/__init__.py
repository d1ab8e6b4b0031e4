"""Which options a kernel runs with where its caller leaves them open.

`profiling` says what a kernel's program does, `candidates` what it may be compiled as, `model` how
long each takes for the sizes of a launch, and `choose` takes one. All but the first is arithmetic
on numbers: a launch of a size that was not seen before asks it without the IR library.
"""
