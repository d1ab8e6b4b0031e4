"""Runs kernels on the CPU and checks their communication.

`run` executes a module of the hopper level on NumPy arrays.
"""

from tawa.simulate.hopper import run

__all__ = ["run"]
