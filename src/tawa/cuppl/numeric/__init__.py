"""Scalar mathematics and random numbers, each defined once for Python, LLVM and CUDA."""
