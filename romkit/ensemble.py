"""Ensembles of laws and their calibration."""

from romkit.verbs.bootstrap import bootstrap
from romkit.verbs.ensemble import Calibration, Ensemble

__all__ = [
    "Calibration",
    "Ensemble",
    "bootstrap",
]
