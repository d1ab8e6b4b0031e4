"""Runs kernels on the CPU and checks their communication."""
