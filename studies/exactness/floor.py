"""How accurate two latent coordinates of Lorenz96 can be: what in the data is no wave, and models of one forcing."""

from dataclasses import dataclass
from math import gcd
from typing import ClassVar

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.metrics import reconstruction_rmse
from romkit.tasks import Task
from studies.rollout_drift.models import make_system, test_set

FAINT = 1e-3
"""A wave so small beside the other has a phase that says little."""


@dataclass(frozen=True)
class Waves(Task):
    """What in the snapshots of the test set no travelling wave has, at each forcing.

    A wave of number k on a ring of n sites consists of the spatial frequencies that are multiples of g = gcd(k, n). The
    rest are other waves, which decay or grow. Those of the odd multiples of g / 2 have twice the wave's period in
    space. Where they turn by half of an odd number while the wave turns once, the state comes back after two turns: it
    is on a loop. Otherwise no loop has them, and no surface both their phase and that of the wave.
    """

    code_version: ClassVar[int] = 2

    @property
    def name(self) -> str:
        return "lorenz96-waves"

    def run(self) -> xr.Dataset:
        test = test_set("lorenz96", ())
        bases = [gcd(int(k), test.sizes["component"]) for k in test.wave_number.values]
        found = {}
        for name, of in (("position", test.state), ("velocity", test.velocity)):
            spectra = np.fft.fft(of.values, axis=-1) / of.shape[-1]
            found[f"{name}_rest"] = ("context", _outside(spectra, bases))
            found[f"{name}_outside"] = ("context", _outside(spectra, [g if g % 2 else g // 2 for g in bases]))
        found["pace"] = ("context", [_pace(float(F), int(k)) for F, k in zip(test.F, test.wave_number, strict=True)])
        return xr.Dataset(found, {"F": ("context", test.F.values)}).assign_attrs(kind="waves")


def _outside(spectra: np.ndarray, bases: list[int]) -> np.ndarray:
    """Root mean square over times of what in spectra (C, T, n) is at no multiple of each context's own base."""
    frequencies = np.arange(spectra.shape[-1])
    parts = [np.abs(of[:, frequencies % base != 0]) ** 2 for of, base in zip(spectra, bases, strict=True)]
    return np.array([np.sqrt(part.sum(-1).mean()) for part in parts])


def _pace(forcing: float, k: int) -> float:
    """Turns of the wave of twice the period for one of the wave of number k, in 60 time units; NaN if there is none."""
    data = make_system("lorenz96", ()).dataset(F=[forcing], duration=60.0)
    spectrum = np.fft.fft(data.state.values[0], axis=-1)
    base = gcd(k, data.sizes["component"])
    others = np.arange(base // 2, data.sizes["component"] // 2, base) if base % 2 == 0 else []
    size = np.abs(spectrum).mean(0)
    if not len(others) or size[others].max() < FAINT * size[k]:
        return np.nan
    turns = np.unwrap(np.angle(spectrum), axis=0)
    turned = turns[-1] - turns[0]
    return float(turned[others[size[others].argmax()]] / turned[k])


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
