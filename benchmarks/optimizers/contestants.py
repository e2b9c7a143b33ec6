"""Who races. Three learning rates each, but for the preset as it is; the schedule ends with the budget."""

import math
from dataclasses import dataclass

from torch import Tensor

from benchmarks.optimizers.geometry import Cayley, InvariantMetric
from benchmarks.optimizers.lbfgs import LBFGS
from benchmarks.optimizers.levenberg_marquardt import LevenbergMarquardt
from benchmarks.optimizers.muon import Muon
from benchmarks.optimizers.race import Contestant
from romkit.projections.geometry import EuclideanMetric, Fractional
from romkit.training.optimizers import Adam, RiemannianAdam, Soap
from romkit.training.schedules import SCHEDULES, Plateaus, Schedule

QUICK = "Adam, cosine"
"""The others are compared with it. It was the quick recipe of both systems before the race, and is that of Lorenz96."""
CLIP = 10.0
ADAM_RATES = (1e-2, 3e-2, 9e-2)
RIEMANNIAN_RATES = (0.05, 0.15, 0.45)
NEWTON_RATES = (0.1, 0.3, 1.0)


@dataclass(frozen=True)
class Constant(Schedule):
    """The learning rate stays."""

    def factors(self, progress: float, plateaus: Plateaus) -> Tensor:
        return plateaus.factor.unsqueeze(1)


ADAM = Adam(clip=CLIP)

CONTESTANTS: dict[str, Contestant] = {
    QUICK: Contestant(ADAM, ADAM_RATES),
    "SOAP": Contestant(Soap(clip=CLIP), ADAM_RATES),
    "Muon": Contestant(Muon(), ADAM_RATES),
    "Riemannian Adam, Euclidean metric, fractional": Contestant(
        RiemannianAdam(EuclideanMetric(), Fractional(), clip=CLIP), RIEMANNIAN_RATES
    ),
    "Riemannian Adam, invariant metric, Cayley": Contestant(
        RiemannianAdam(InvariantMetric(), Cayley(), clip=CLIP), RIEMANNIAN_RATES
    ),
    "Levenberg-Marquardt": Contestant(LevenbergMarquardt(), NEWTON_RATES, batch_size=256),
    "L-BFGS, whole training set": Contestant(LBFGS(), NEWTON_RATES, batch_size=10**9),
    "Adam, constant rate": Contestant(ADAM, ADAM_RATES, schedule=Constant()),
    "Adam, plateau": Contestant(ADAM, ADAM_RATES, schedule=SCHEDULES["fast-plateau"]),
    "Adam, cosine, rate of the preset": Contestant(ADAM, (1e-2,)),
    "Adam, cosine, no clipping": Contestant(Adam(clip=math.inf), ADAM_RATES),
    "Adam, cosine, no penalty": Contestant(ADAM, ADAM_RATES, penalty_weight=0.0),
}
"""By the name that the report gives."""
