"""How accurate two latent coordinates of Lorenz96 can be: what in the data is no wave, and models of one forcing."""

from dataclasses import dataclass
from math import gcd
from typing import ClassVar

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.metrics import reconstruction_rmse
from studies.rollout_drift.data import make_system, test_set
from studies.runner import Task


@dataclass(frozen=True)
class Waves(Task):
    """What in the snapshots of the test set no travelling wave has, at each forcing.

    A wave of number k on a ring of n sites consists of the spatial frequencies that are multiples of k modulo n, those
    of gcd(k, n). The rest are other waves, which decay or grow: no loop has them, and no surface both their phase and
    that of the wave.
    """

    code_version: ClassVar[int] = 1

    @property
    def name(self) -> str:
        return "lorenz96-waves"

    def run(self) -> xr.Dataset:
        test = test_set("lorenz96", ())
        found = {}
        for name, of in (("position_rest", test.state), ("velocity_rest", test.velocity)):
            parts = [_rest(x, int(k)) for x, k in zip(of.values, test.wave_number.values, strict=True)]
            found[name] = ("context", np.array(parts))
        return xr.Dataset(found, {"F": ("context", test.F.values)}).assign_attrs(kind="waves")


def _rest(x: np.ndarray, k: int) -> float:
    """Root mean square over times and components of what in x (T, n) is no wave of number k."""
    n = x.shape[-1]
    spectrum = np.fft.fft(x, axis=-1) / n
    others = np.arange(n) % gcd(k, n) != 0
    return float(np.sqrt((np.abs(spectrum[:, others]) ** 2).sum(-1).mean()))


@dataclass(frozen=True)
class Alone(Task):
    """A method trained at one forcing alone, on 60 time units, and its errors on the first of them, as in the test set.

    Attributes:
        method: by name.
        forcing: F.
        seeds: of the stack.
        settings: of `romkit.fit`.
    """

    code_version: ClassVar[int] = 1
    method: str
    forcing: float
    seeds: tuple[int, ...]
    settings: tuple[tuple[str, object], ...]

    @property
    def name(self) -> str:
        return f"lorenz96-alone-{self.method}-{dict(self.settings).get('latent_dim', 2)}"

    def run(self) -> xr.Dataset:
        system = make_system("lorenz96", ())
        data = system.dataset(F=[self.forcing], duration=60.0).isel(time=slice(None, None, 10))
        # Twice, as if at two forcings: a context needs a range.
        both = xr.concat([data, data.assign_coords(F=("trajectory", [self.forcing + 1e-3]))], "trajectory")
        model = romkit.fit(self.method, both, seeds=self.seeds, **dict(self.settings)).double()
        first = data.isel(time=slice(0, 50))
        x, v = (torch.from_numpy(first[k].values).expand(len(self.seeds), -1, -1, -1) for k in ("state", "velocity"))
        with torch.no_grad():
            errors = reconstruction_rmse(model(first), x, v)
        names = ("position_rmse", "velocity_rmse")
        found = {name: ("seed", error[:, 0].numpy()) for name, error in zip(names, errors, strict=True)}
        attrs = {"kind": "alone", "method": self.method, "F": self.forcing, "latent_dim": model.latent_dim}
        return xr.Dataset(found, {"seed": list(self.seeds)}).assign_attrs(attrs)
