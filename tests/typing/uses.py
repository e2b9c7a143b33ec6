"""What type checkers know of a user's program: `make lint` runs mypy on this file, which is not
executed.
"""

from typing import assert_type

import torch
import xarray as xr

import romkit
from romkit.integrators import LearnedField
from romkit.laws import SINDy
from romkit.projections import Operator, Projection
from romkit.systems import Lorenz96

system = Lorenz96()
data = system.dataset("train")
assert_type(data, xr.Dataset)

ncae = romkit.fit("ncae", data, latent_dim=2)
assert_type(ncae, Projection)
assert_type(ncae(F=3.15), Operator)
assert_type(ncae(F=3.15).encode(torch.zeros(36)), torch.Tensor)

law = SINDy(degree=3).fit(ncae, data)
assert_type(law, LearnedField)
assert_type(romkit.rollout(system, ncae, F=3.15), xr.Dataset)
assert_type(romkit.rollout(data, ncae, dynamics=law), xr.Dataset)

romkit.rollout(3, ncae, F=3.15)  # type: ignore[arg-type]
SINDy(degre=3)  # type: ignore[call-arg]
