"""State and context from observations: filters, calibration and estimates, places of sensors."""

from romkit.assimilation.assimilate import assimilate
from romkit.assimilation.calibrating import calibrate
from romkit.assimilation.calibration import Calibration
from romkit.assimilation.estimate import infer
from romkit.assimilation.filter import Track, Tracker
from romkit.assimilation.placement import sensors

__all__ = ["Calibration", "Track", "Tracker", "assimilate", "calibrate", "infer", "sensors"]
