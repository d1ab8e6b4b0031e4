"""Runs kernels on the CPU, checks their communication, predicts their time.

`run` executes a module of the hopper level on NumPy arrays, `check` looks at every interleaving of
a launch, `prove` at every launch, `predict_launch` says how long one takes, and `perfetto` writes
what its first CTA does when.
`simulate.interpret.tile` and `simulate.interpret.aref` run the levels above.
"""

from tawa.simulate.check.protocol import CheckReport, check
from tawa.simulate.interpret.hopper import run
from tawa.simulate.prove.fixpoint import Proof, prove
from tawa.simulate.timeline import perfetto
from tawa.simulate.timing.launch import LaunchPrediction, predict_launch

__all__ = [
    "CheckReport",
    "LaunchPrediction",
    "Proof",
    "check",
    "perfetto",
    "predict_launch",
    "prove",
    "run",
]
