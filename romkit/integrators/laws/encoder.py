"""Data in the coordinates of a projection, with their contexts and inputs."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
import xarray as xr
from torch import Tensor

import romkit.data as datasets
from romkit.core.errors import InputError
from romkit.core.types import Array
from romkit.data.controls import control_matrix, held_if_told, unit_of_inputs
from romkit.data.trajectories import check_grid, matched
from romkit.integrators.laws.samples import LatentSamples
from romkit.integrators.laws.scaling import Scaling
from romkit.projections import Operator

NUDGE = 1e-3
"""Difference of the context by which the drift of encoded states is measured [time steps of its
motion].
"""

MEASURED = 0.5
"""Share of the components of a snapshot with gaps, at least, for its latents to be trusted."""


@runtime_checkable
class ProjectionFamily(Protocol):
    """A torch module that, called with a dataset, gives the operator at its contexts (see
    `romkit.projections`).
    """

    def __call__(self, context: xr.Dataset) -> Operator: ...

    def double(self) -> "ProjectionFamily": ...

    def for_law(self, data: xr.Dataset) -> "tuple[ProjectionFamily, xr.Dataset]": ...


class Encoder(NamedTuple):
    """A projection in float64 and a dataset with the context and components that it was trained on,
    in its order.
    """

    projection: ProjectionFamily
    data: xr.Dataset
    P: Operator

    @classmethod
    def of(cls, projection: ProjectionFamily, data: xr.Dataset) -> "Encoder":
        """Match projection and data.

        Raises:
            InputError: data of another context, components or layout.
        """
        frame = getattr(projection, "frame", None)  # a user's may have none
        if frame:
            data = matched("data", data, frame.context_names, frame.state_names, frame.units)
            check_grid(data, frame.fields)
        projection = copy.deepcopy(projection).double()
        return cls(projection, data, projection(data))

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the latents, where the projection has some for them."""
        return getattr(self.projection, "latent_names", None)

    def variable(self, name: str) -> Tensor:
        """Variable (C, T, n), with a leading axis of size 1 where the operator has seeds."""
        fix = "add it"
        if name == "velocity":
            fix = "differentiated_samples works from states alone"
        x = datasets.trajectories(self.data, name, fix=fix).to(self.P.context)
        has_seeds = self.P.context.ndim != datasets.context_matrix(self.data).ndim
        if has_seeds:
            return x.unsqueeze(0)
        return x

    def encode(self, x: Tensor) -> Tensor:
        """z (..., C, T, m) of states (..., C, T, n), by least squares where components are missing
        and the projection can do without; NaN elsewhere.
        """
        missing = x.isnan()
        if not bool(missing.any()):
            return self.P.encode(x)
        encoded = self.P.encode(x.numpy(force=True))
        z = torch.from_numpy(encoded).to(x)
        # few components would say more of the start of the least squares than of the state
        measured = (~missing).sum(-1, keepdim=True)
        enough = max(MEASURED * x.shape[-1], self.P.latent_dim)
        return torch.where(measured >= enough, z, torch.nan)

    def drift(self, x: Tensor) -> Tensor | None:
        """D_cρ ċ (..., C, T, m) at states x (..., C, T, n), by differences; None where no context
        moves.
        """
        data = self.data
        names = [name for name in datasets.context_names(data) if "time" in data[name].dims]
        if not names or data.sizes["time"] < 2:
            return None
        # small beside the motion of the context between two samples
        step = NUDGE * float(data["time"].diff("time").min())
        order = 2
        if data.sizes["time"] == 2:
            order = 1
        change = {}
        for name in names:
            change[name] = step * data[name].differentiate("time", edge_order=order)

        def encoded(sign: int) -> Tensor:
            moved = {}
            for name, difference in change.items():
                context = data[name] + sign * difference
                moved[name] = data[name].copy(data=context)
            return self.projection(data.assign_coords(moved)).encode(x)

        return (encoded(1) - encoded(-1)) / (2 * step)

    def samples(
        self, z: Tensor, *rates: Tensor, source: str, drift: Tensor | None = None
    ) -> LatentSamples:
        """Samples of z and ż, or of z, ż and z̈, each (..., C, T, m), and the drift of z.

        Raises:
            InputError: of second order at a context that moves.
        """
        data = self.data
        if len(rates) == 2 and drift is not None:
            expected = "a context that stays for a law of order 2"
            fix = "drop the acceleration, for one of order 1"
            raise InputError("data", expected=expected, got="one that moves", fix=fix)
        if "transient" in data.attrs:
            source += f", transient of {float(data.attrs['transient']):g} discarded"
        inputs = datasets.control_names(data)
        states = _with_latents_at_rest(z, rates, shared_unit=self.names is None)
        make = LatentSamples.second_order
        if len(rates) == 1:
            make = LatentSamples.first_order
        samples = make(
            *states,
            torch.from_numpy(_parameters(data)).to(z),
            source=source,
            drift=drift,
            times=datasets.times_of(data),
            parameters=Scaling.of_context(data),
            control_names=inputs,
            names=self.names,
        )
        if not inputs:
            return samples
        unit = unit_of_inputs(data["control"])
        return replace(samples, held=held_if_told(data), control_unit=unit)


def _with_latents_at_rest(z: Tensor, rates: Sequence[Tensor], shared_unit: bool) -> list[Tensor]:
    """Latents (..., C, T, m) and their rates, with those at rest that are no more than rounding
    beside the others: no law can know them.

    Args:
        z: latent states.
        rates: ż, or ż and z̈.
        shared_unit: whether latents are compared with each other. Latents with names of their own
            are physical quantities, and may have units in which some are small.
    """
    mean = z.nanmean((-3, -2), keepdim=True)
    deviation = (z - mean).square().nanmean((-3, -2), keepdim=True).sqrt()
    largest = torch.hypot(deviation, mean)
    if shared_unit:
        largest = largest.amax(-1, keepdim=True)
    rests = deviation <= torch.finfo(torch.float32).eps * largest
    # a mean of few bits, so that sums of it are exact
    z = torch.where(rests & z.isfinite(), mean.float().to(z), z)
    return [z, *(torch.where(rests, 0.0, rate) for rate in rates)]


def _parameters(data: xr.Dataset) -> Array:
    """Context (C, p) or (C, T, p), with inputs behind it (C, T, p + q) where there are some."""
    context = datasets.context_matrix(data)
    if not datasets.control_names(data):
        return context
    if context.ndim == 2:
        context = np.repeat(context[:, None], data.sizes["time"], axis=1)  # (C, T, p)
    return np.concatenate([context, control_matrix(data)], axis=-1)
