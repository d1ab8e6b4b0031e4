"""Runs kernels on the CPU, checks their communication, predicts their time.

`run` executes a module of the hopper level on NumPy arrays, `check` looks at every interleaving,
`predict` replays one CTA with the hardware table's costs, and `perfetto` writes its timeline.
`simulate.tile` and `simulate.aref` run the levels above.
"""

from tawa.simulate.check import CheckReport, check
from tawa.simulate.hopper import run
from tawa.simulate.timeline import perfetto
from tawa.simulate.timing import Prediction, predict

__all__ = ["CheckReport", "Prediction", "check", "perfetto", "predict", "run"]
