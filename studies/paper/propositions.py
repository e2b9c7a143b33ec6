"""The three propositions of the paper in numbers, in float64, for a stack of modulated constrained
autoencoders.

They are theorems about exact arithmetic; what is measured is that the trained models obey them, and
by what margin.
Source: Adriaens et al. (2026), section 3.3, "Theoretical guarantees".
"""

import copy

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.data import context_names
from romkit.engine.threads import one_thread
from romkit.projections import Projection

FAR = 10.0
"""Contexts for idempotency reach this many times the training range."""
STEPS = (0.02, 0.1, 0.5)
"""Norms of the change of context, in half training ranges."""
CONTEXTS, POINTS = 5, 200
"""Contexts, and points of the manifold at each."""
PARTS, LEVELS = 20, 5
"""Parts that the segment between two contexts is cut into, and how often the part with the largest
change is cut again: a model may switch within a small part of the training range, which equal parts
would step over."""
PLACES = tuple(k / PARTS for k in range(PARTS + 1))
EXACT = "donot_use_mm_for_euclid_dist"
"""Distances by differences: by products they would be rounded to 1e-7."""
STILL = 1e-12
"""Largest motion, relative to the largest state, that counts as none: some manifolds stand still
within a regime.
"""


def check_propositions(model: Projection, test: xr.Dataset) -> dict[str, np.ndarray]:
    """Return what each proposition leaves over, by name, each (S,).

    far_idempotency: largest ‖P(P(x)) - P(x)‖ / ‖x‖ over contexts far out of the training range
    (3.1).
    round_trip: largest ‖(φ_a ∘ ρ_b) ∘ (φ_b ∘ ρ_a)(x) - x‖ / ‖x‖ on the manifold of a, for all pairs
    of contexts (3.2).
    smallest_stretch: smallest singular value of Dφ over all points and contexts; the map between
        two manifolds is an immersion as long as it is not zero (3.2).
    hausdorff_ratio: largest Hausdorff distance of sampled manifolds over L ‖δ‖, with L the largest
        ‖∂φ/∂c‖ that was found on the segment; at most 1 (3.3).
    """
    double = copy.deepcopy(model).double()
    x, c = _points(test)
    with torch.no_grad(), one_thread():
        return {
            "far_idempotency": _far_idempotency(double, x, c).numpy(),
            **_diffeomorphism(double, x, c),
            **_hausdorff(double, x, c),
        }


def _points(test: xr.Dataset) -> tuple[Tensor, Tensor]:
    """Return states (1, C, N, n) at contexts (1, C, p), spread over the test set."""
    members = np.unique(np.linspace(0, test.sizes["trajectory"] - 1, CONTEXTS).round().astype(int))
    times = np.unique(np.linspace(0, test.sizes["time"] - 1, POINTS).round().astype(int))
    part = test.isel(trajectory=members, time=times)
    c = np.stack([part[name].values for name in context_names(part)], axis=-1)
    return torch.from_numpy(part["state"].values)[None], torch.from_numpy(c)[None]


def _far_idempotency(model: Projection, x: Tensor, c: Tensor) -> Tensor:
    frame = model.frame
    P = model(frame.context_shift + FAR * (c - frame.context_shift))
    once = P(x)
    return _largest(P(once) - once, x)


def _diffeomorphism(model: Projection, x: Tensor, c: Tensor) -> dict[str, np.ndarray]:
    round_trips, stretches = [], []
    P = model(c)
    z = P.encode(x)
    on_a = P.decode(z)
    for shift in range(1, c.shape[1]):
        Q = model(c.roll(shift, dims=1))
        on_b, jacobian = Q.decode_jacobian(z)
        round_trips.append(_largest(P.decode(Q.encode(on_b)) - on_a, x))
        stretches.append(torch.linalg.svdvals(jacobian)[..., -1].flatten(1).amin(1))
    return {
        "round_trip": torch.stack(round_trips).amax(0).numpy(),
        "smallest_stretch": torch.stack(stretches).amin(0).numpy(),
    }


def _hausdorff(model: Projection, x: Tensor, c: Tensor) -> dict[str, np.ndarray]:
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(c.shape, generator=generator, dtype=c.dtype)
    direction = direction / direction.norm(dim=-1, keepdim=True) * model.frame.context_scale
    z = model(c).encode(x)
    manifold = model(c).decode(z)
    ratios = []
    for step in STEPS:
        moved = model(c + step * direction).decode(z)
        apart = torch.cdist(manifold.flatten(0, 1), moved.flatten(0, 1), compute_mode=EXACT)
        apart = apart.unflatten(0, manifold.shape[:2])
        distance = torch.maximum(apart.amin(-1).amax(-1), apart.amin(-2).amax(-1))
        constant = _lipschitz(model, z, c, step * direction) / step
        ratios.append(
            (distance / (constant * step).clamp(min=STILL * x.norm(dim=-1).max())).amax(-1)
        )
    return {"hausdorff_ratio": torch.stack(ratios).amax(0).numpy()}


def _lipschitz(model: Projection, z: Tensor, c: Tensor, delta: Tensor) -> Tensor:
    """(S, C) largest speed of φ(z) along the segment from c to c + δ, passed in unit time, over its
    points.
    """
    many = len(PLACES)
    z_many, c_many, delta_many = (
        tensor.repeat(1, many, *(1,) * (tensor.ndim - 2)) for tensor in (z, c, delta)
    )

    def along(s: Tensor) -> Tensor:
        return model(c_many + s.unsqueeze(-1) * delta_many).decode(z_many)

    start, width, fastest = z.new_zeros(z.shape[:2]), 1.0, z.new_zeros(z.shape[:2])
    for _ in range(LEVELS):
        s = (start.unsqueeze(1) + width * torch.tensor(PLACES).to(z)[:, None]).flatten(1)
        values, speeds = (
            tensor.unflatten(1, (many, -1))
            for tensor in torch.func.jvp(along, (s,), (torch.ones_like(s),))
        )
        fastest = torch.maximum(fastest, speeds.norm(dim=-1).amax((1, 3)))
        changes = values.diff(dim=1).norm(dim=-1).amax(-1)
        start, width = start + width * changes.argmax(1) / PARTS, width / PARTS
    return fastest


def _largest(difference: Tensor, x: Tensor) -> Tensor:
    """(S,) largest norm of a difference (S, C, N, n), relative to the largest state."""
    return difference.norm(dim=-1).flatten(1).amax(1) / x.norm(dim=-1).max()
