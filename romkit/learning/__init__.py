"""One verb from files of runs to forecasts with bars, and the page that says what was tried."""

from romkit.learning.candidates import VARIANTS
from romkit.learning.learn import learn
from romkit.learning.learned import Learned
from romkit.learning.steady import SteadyModel

__all__ = ["VARIANTS", "Learned", "SteadyModel", "learn"]
