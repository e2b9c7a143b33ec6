"""Ensembles: forecasts with an interval, and how well the interval holds.

ensemble = romkit.bootstrap(projection, SINDy(), train)      # or romkit.Ensemble(stack, law of the stack)
ensemble = ensemble.calibrated(validation)
band = ensemble.forecast(initial_state=x0, duration=40, dt=0.1, Re=100)    # state, lower, upper, spread
print(ensemble.reliability(test).coverage)
"""

from romkit.ensemble.base import Ensemble
from romkit.ensemble.bootstrap import bootstrap
from romkit.ensemble.calibration import Calibration

__all__ = ["Calibration", "Ensemble", "bootstrap"]
