"""The contract of projections: tangents, batching, stacks, storage, idempotency."""

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.boundary import Positive, validated
from romkit.projections import Operator, Projection, stack
from romkit.projections.storage import check_single, packed, unpacked
from romkit.testing.rules import close, list_rules


class Probe(NamedTuple):
    """Random points to test a projection at: its operator, states x and directions v (B, n),
    contexts c (B, p).
    """

    projection: Projection
    operator: Operator
    x: Tensor
    v: Tensor
    c: Tensor


def probe(projection: Projection, *, batch: int = 16, spread: float = 1.0) -> Probe:
    """Return a float64 copy of `projection` with random states and contexts.

    Args:
        projection: a single model (unstack a stack first).
        batch: number of points.
        spread: contexts are uniform over `spread` times the training range, so 10 reaches far
            outside it.
    """
    double = copy.deepcopy(projection).cpu().double()
    frame = double.frame
    draw = torch.Generator().manual_seed(0)

    def normal(size: int) -> Tensor:
        return torch.randn(batch, size, generator=draw, dtype=torch.float64)

    y, dy = normal(frame.size), normal(frame.size)
    x, v = frame.denormalise(y), frame.denormalise_tangent(dy)
    if frame.basis is not None:
        # states beside its subspace too
        x = x + frame.state_std * normal(frame.basis.size)
        v = v + frame.state_std * normal(frame.basis.size)
    shape = (batch, len(frame.context_shift))
    relative = 2 * torch.rand(shape, generator=draw, dtype=torch.float64) - 1
    c = frame.context_shift + spread * relative * frame.context_scale
    return Probe(double, double(c), x, v, c)


def left_inverse(p: Probe) -> None:
    """ρ(φ(z)) = z at latents z of the data."""
    z = p.operator.encode(p.x)
    again = p.operator.encode(p.operator.decode(z))
    close("ρ(φ(z)) = z, to float64 though parameters are float32", again, z)


def idempotency(p: Probe) -> None:
    """P(P(x)) = P(x)."""
    once = p.operator(p.x)
    close("P(P(x)) = P(x), to float64 though parameters are float32", p.operator(once), once)


def tangents(p: Probe) -> None:
    """The hand-written tangents of encoder, decoder and P equal torch.func.jvp."""
    z, dz = p.operator.encode_jvp(p.x, p.v)
    for name, function, dual, point, direction in (
        ("encode_jvp", p.operator.encode, (z, dz), p.x, p.v),
        ("decode_jvp", p.operator.decode, p.operator.decode_jvp(z, dz), z, dz),
        ("jvp", p.operator, p.operator.jvp(p.x, p.v), p.x, p.v),
    ):
        value, tangent = torch.func.jvp(function, (point,), (direction,))
        close(f"value of {name} = torch.func.jvp", dual[0], value)
        close(f"tangent of {name} = torch.func.jvp", dual[1], tangent)


def jacobian(p: Probe) -> None:
    """decode_jacobian equals torch.func.jacrev, point by point."""
    z = p.operator.encode(p.x)
    _, jacobians = p.operator.decode_jacobian(z)
    loop = []
    for c, point in zip(p.c, z, strict=True):
        loop.append(torch.func.jacrev(p.projection(c).decode)(point))
    close("decode_jacobian = torch.func.jacrev", jacobians, torch.stack(loop))


def curvature(p: Probe) -> None:
    """decode_curvature is the derivative of decode_jvp along its own direction."""
    z, w = p.operator.encode_jvp(p.x, p.v)

    def tangent(point: Tensor) -> Tensor:
        return p.operator.decode_jvp(point, w).tangent

    _, oracle = torch.func.jvp(tangent, (z,), (w,))
    curvature_of_z = p.operator.decode_curvature(z, w)
    close("decode_curvature = torch.func.jvp of decode_jvp", curvature_of_z, oracle)


def batching(p: Probe) -> None:
    """A batch of contexts equals a loop over them, also where each context has several states."""
    loop = torch.stack([p.projection(c)(x) for c, x in zip(p.c, p.x, strict=True)])
    close("batch of contexts = loop", p.operator(p.x), loop)
    several = p.x.unsqueeze(1).expand(-1, 3, -1)
    close("states (C, T, n) = loop", p.operator(several)[:, 2], loop)


def storage(p: Probe) -> None:
    """A projection that is saved and loaded is the same one: `config` has all that the constructor
    needs.
    """
    again = unpacked(p.projection.name, *packed(p.projection))
    close("saved and loaded = itself", again.double()(p.c)(p.x), p.operator(p.x))


def stacking(p: Probe) -> None:
    """A stack of this model and another one equals the two of them."""
    other = perturbed(p.projection)
    together = stack([p.projection, other])(p.c.unsqueeze(0))(p.x.expand(2, -1, -1))
    close("stack = its members", together, torch.stack([p.operator(p.x), other(p.c)(p.x)]))


def perturbed(projection: Projection) -> Projection:
    """Another one of its kind, with parameters a little away from its own, the same in every call."""
    # special values, zeros say, hide errors of batching
    other, draw = copy.deepcopy(projection), torch.Generator().manual_seed(0)
    for parameter in other.parameters():
        if parameter.requires_grad:
            noise = torch.rand(parameter.shape, generator=draw, dtype=torch.float64) - 0.5
            parameter.data += 0.05 * noise
    return other


RULES: tuple[Callable[[Probe], None], ...] = (
    tangents,
    jacobian,
    curvature,
    batching,
    stacking,
    storage,
)
"""Rules of every projection."""

IDEMPOTENT_RULES: tuple[Callable[[Probe], None], ...] = (left_inverse, idempotency)
"""Further rules of those that declare `idempotent`."""


@validated
def check_projection(projection: Projection, *, spreads: Sequence[Positive] = (1.0, 10.0)) -> None:
    """Raise AssertionError with rule, error and tolerance if `projection` breaks a rule of its kind.

    Args:
        projection: a single model, trained or not; it is copied and tested in float64.
        spreads: contexts are drawn from each of these multiples of the training range.

    Example:
        >>> import romkit
        >>> romkit.testing.check_projection(romkit.load("ncae-lorenz96"), spreads=(1.0,))  # silent
    """
    check_single(projection)
    rules = RULES
    if projection.idempotent:
        rules = RULES + IDEMPOTENT_RULES
    for spread in spreads:
        points = probe(projection, spread=spread)
        with list_rules(f"{projection.name}, contexts over {spread:g} x the training range"):
            for rule in rules:
                rule(points)
