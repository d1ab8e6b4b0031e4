"""Runs kernels on the CPU, checks their communication, predicts their time.

`run` executes a module of the hopper level on NumPy arrays, `check` looks at every interleaving,
`predict` replays one CTA with the hardware table's costs, and `perfetto` writes its timeline.
`simulate.tile` and `simulate.aref` run the levels above.
"""

from tawa.simulate.check import CheckReport, check
from tawa.simulate.hopper import run
from tawa.simulate.timeline import perfetto
from tawa.simulate.timing import Prediction, predict
from tawa.simulate.timing_launch import LaunchPrediction, predict_launch

__all__ = [
    "CheckReport",
    "LaunchPrediction",
    "Prediction",
    "check",
    "perfetto",
    "predict",
    "predict_launch",
    "run",
]
