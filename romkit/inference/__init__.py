"""Inference on reduced models: state and context from observations, and continuation along a
context.
"""

from romkit.inference.assimilation import assimilate
from romkit.inference.branches import continuation
from romkit.inference.calibrating import calibrate
from romkit.inference.calibration import Calibration
from romkit.inference.estimate import infer
from romkit.inference.filter import Track, Tracker
from romkit.inference.placement import sensors
from romkit.inference.verification import verify

__all__ = [
    "Calibration",
    "Track",
    "Tracker",
    "assimilate",
    "calibrate",
    "continuation",
    "infer",
    "sensors",
    "verify",
]
