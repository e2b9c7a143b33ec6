"""Everything that the tables need from a trained stack of models, measured once."""

import itertools

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.data import context_names
from romkit.engine.threads import one_thread
from romkit.metrics import idempotency_error, latent_condition_number, latent_speed_variation
from romkit.projections import Projection
from studies.paper.datasets import NOISE_KINDS, OOD_DISTANCES, SIDES, SIGMAS, ood_members

STEPS = 15
"""Successive projections of the idempotency table."""
NOISE_UNITS = ("scale", "deviation", "physical")
"""What σ multiplies: the deviation of the states, and half the training range of the context
("scale") or the deviation of a context that is uniform over it ("deviation"); or the units of
states and contexts ("physical")."""
AVERAGES = ("snapshots", "contexts")
"""Root of the mean square over all snapshots, or mean over contexts of the root mean square of
each.
"""
ROWS = 50_000
"""Seeds x snapshots that are evaluated at once: they fit the cache."""
NOISE_SEED = 2026
"""Of the noise at evaluation, the same for all models."""
POOLINGS = ("all contexts", "each context")
"""Latent geometry over the snapshots of all contexts together, or of each context, averaged."""


def evaluate(model: Projection, test: xr.Dataset, beyond: xr.Dataset) -> xr.Dataset:
    """Return errors (seed, condition, average), idempotency (seed, step), latent geometry (seed,
    pooling) of a stack.

    Args:
        model: a stack.
        test: the test set.
        beyond: trajectories out of the training range, by `datasets.ood_set`.
    """
    with torch.inference_mode(), one_thread():
        conditions = {}
        for distance, side in itertools.product(OOD_DISTANCES, SIDES):
            data = ood_members(beyond, distance, side)
            conditions[f"ood +{distance:.0%} {side}"] = _rmse(
                _squared_errors(model, *_tensors(data))
            )
        for kind, sigma, unit in itertools.product(NOISE_KINDS, SIGMAS, NOISE_UNITS):
            conditions[f"{kind} {sigma:.2f} {unit}"] = _rmse(
                _under_noise(model, test, kind, sigma, unit)
            )
        idempotency = _idempotency(model, test)
        geometry = _geometry(model, test)
    return xr.concat(
        [evaluate_clean(model, test), _errors(conditions)], "condition", data_vars="minimal"
    ).assign(
        idempotency_error=(("seed", "step"), idempotency),
        latent_covariance_cn=(("seed", "pooling"), geometry[0]),
        latent_velocity_cv=(("seed", "pooling"), geometry[1]),
        step=np.arange(1, STEPS + 1),
        pooling=list(POOLINGS),
    )


def evaluate_clean(model: Projection, test: xr.Dataset) -> xr.Dataset:
    """Return errors (seed, condition, average) on the test set; errors (seed, context) too if there
    is one parameter.
    """
    with torch.inference_mode(), one_thread():
        squares = _squared_errors(model, *_tensors(test))
    data = _errors({"clean": _rmse(squares)})
    names = context_names(test)
    if len(names) == 1:
        data["error_by_context"] = (("seed", "context"), squares[..., 0].sqrt().numpy())
        data.coords["context"] = ("context", test[names[0]].values)
    return data


def _errors(conditions: dict[str, np.ndarray]) -> xr.Dataset:
    rmse = np.stack(list(conditions.values()), axis=1).astype(np.float32)
    dims = ("seed", "condition", "average")
    return xr.Dataset(
        {"position_rmse": (dims, rmse[..., 0]), "velocity_rmse": (dims, rmse[..., 1])},
        coords={"condition": list(conditions), "average": list(AVERAGES)},
    )


def latent_orbits(model: Projection, test: xr.Dataset) -> xr.DataArray:
    """Latents of the first seed at up to sixteen test contexts and 60 times, with the contexts'
    first parameter.
    """
    contexts = np.unique(np.linspace(0, test.sizes["trajectory"] - 1, 16).round().astype(int))
    times = np.unique(np.linspace(0, test.sizes["time"] - 1, 60).round().astype(int))
    x, _, c = _tensors(test.isel(trajectory=contexts, time=times))
    with torch.inference_mode(), one_thread():
        z = model(c).encode(x)[0]
    values = test[context_names(test)[0]].values[contexts]
    return xr.DataArray(
        z.numpy(),
        dims=("orbit", "sample", "latent"),
        coords={"orbit_context": ("orbit", values.astype(np.float32))},
    )


def parameter_count(model: Projection) -> int:
    """Trained numbers of one model of the stack."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad) // model.seeds


def _tensors(data: xr.Dataset) -> tuple[Tensor, Tensor, Tensor]:
    """Return states and velocities (1, C, T, n) and contexts (1, C, p), in float32."""
    x, v = (
        torch.from_numpy(data[name].values).float().unsqueeze(0) for name in ("state", "velocity")
    )
    c = np.stack([data[name].values for name in context_names(data)], axis=-1)
    return x, v, torch.from_numpy(c).float().unsqueeze(0)


def _squared_errors(
    model: Projection, x: Tensor, v: Tensor, c: Tensor, noisy: Tensor | None = None
) -> Tensor:
    """(S, C, 2) mean squares of x - P(x) and v - DP(x) v; P is applied to `noisy` instead of x
    where it is given.
    """
    seen = x if noisy is None else noisy
    found = []
    for part in _parts(model, x):
        value, tangent = model(c[part]).jvp(seen[part], v[part])
        pairs = (x[part], value), (v[part], tangent)
        found.append(torch.stack([(a - b).square().mean((-1, -2)) for a, b in pairs], -1))
    return torch.cat(found, dim=1)


def _parts(model: Projection, x: Tensor) -> list[tuple[slice, slice]]:
    """Return parts of the contexts of states (1, C, T, n), with as many snapshots as `ROWS` allows."""
    size = max(1, ROWS // (model.seeds * x.shape[2]))
    return [(slice(None), slice(k, k + size)) for k in range(0, x.shape[1], size)]


def _rmse(squares: Tensor) -> np.ndarray:
    """(S, 2, 2) errors in the order of AVERAGES, then position and velocity; infinite where a model
    overflows.
    """
    squares = squares.double()
    both = torch.stack([squares.mean(1).sqrt(), squares.sqrt().mean(1)], dim=1)
    return both.nan_to_num(nan=torch.inf).numpy()


def _under_noise(model: Projection, test: xr.Dataset, kind: str, sigma: float, unit: str) -> Tensor:
    """Return errors against the clean states where P sees noisy states, a noisy context, or both,
    drawn for each snapshot.
    """
    x, v, c = _tensors(test)
    generator = torch.Generator().manual_seed(NOISE_SEED)
    of_state, of_context = _unit(model, unit)
    disturb_x = sigma * of_state * torch.randn(x.shape, generator=generator)
    disturb_c = sigma * of_context * torch.randn(*x.shape[:-1], c.shape[-1], generator=generator)
    noisy = x if kind == "context" else x + disturb_x
    contexts = c if kind == "state" else c.unsqueeze(2) + disturb_c
    return _squared_errors(model, x, v, contexts, noisy)


def _unit(model: Projection, unit: str) -> tuple[Tensor, Tensor]:
    """Return what σ multiplies for states (n,) and contexts (p,)."""
    state, half_range = model.frame.state_scale, model.frame.context_scale
    return {
        "scale": (state, half_range),
        "deviation": (state, half_range / 3**0.5),
        "physical": (torch.ones_like(state), torch.ones_like(half_range)),
    }[unit]


def _idempotency(model: Projection, test: xr.Dataset) -> np.ndarray:
    """(S, STEPS) mean over snapshots of ‖Pᵏ⁺¹(x) - Pᵏ(x)‖; infinite from the overflow on."""
    x, _, c = _tensors(test)
    total = torch.zeros(model.seeds, STEPS, dtype=torch.float64)
    for part in _parts(model, x):
        total += idempotency_error(model(c[part]), x[part], steps=STEPS).double().sum((-1, -2)).T
    return (total / (x.shape[1] * x.shape[2])).nan_to_num(nan=torch.inf).numpy()


def _geometry(model: Projection, test: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """CN and CV (S, 2), in the order of POOLINGS."""
    x, v, c = _tensors(test)
    found = [model(c[part]).encode_jvp(x[part], v[part]) for part in _parts(model, x)]
    z, dz = (torch.cat(tensors, dim=1).double() for tensors in zip(*found, strict=True))
    both = []
    for metric, latents in ((latent_condition_number, z), (latent_speed_variation, dz)):
        both.append(
            torch.stack([metric(latents.flatten(1, 2)), metric(latents).mean(-1)], -1).numpy()
        )
    return both[0], both[1]
