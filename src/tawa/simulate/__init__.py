"""Runs kernels on the CPU and checks their communication.

`run` executes a module of the hopper level on NumPy arrays, `check` looks at every interleaving.
"""

from tawa.simulate.check import CheckReport, check
from tawa.simulate.hopper import run

__all__ = ["CheckReport", "check", "run"]
