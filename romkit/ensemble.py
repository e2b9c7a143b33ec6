"""Ensembles of laws and their calibration."""

from romkit.verbs.bootstrap import bootstrap
from romkit.verbs.calibration import Calibration
from romkit.verbs.ensemble import Ensemble

__all__ = [
    "Calibration",
    "Ensemble",
    "bootstrap",
]
