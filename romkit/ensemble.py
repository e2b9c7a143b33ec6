"""Ensembles of laws and their calibration."""

from romkit.verbs.ensemble import (
    Calibration,
    Ensemble,
    bootstrap,
)

__all__ = [
    "Calibration",
    "Ensemble",
    "bootstrap",
]
