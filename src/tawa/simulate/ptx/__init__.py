"""Whole kernels as the PTX that the device's assembler gets: read, and run on NumPy arrays."""
