"""Laws of waves whose shifts are factored out: the shape moves by a law of its own, and tells the
phase its speed.
"""

from dataclasses import dataclass
from operator import attrgetter

import torch
import xarray as xr
from torch import Tensor

from romkit.core.broadcast import align
from romkit.core.tensors import least_norm
from romkit.core.types import TensorMap
from romkit.data.velocity import needing_velocity
from romkit.integrators.base import LearnedField
from romkit.integrators.region import Region
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.libraries import Polynomial
from romkit.laws.scaling import Scaling
from romkit.laws.sources import ProjectionFamily, encoded_samples
from romkit.laws.symbolic import formula

DEGREES = 1, 2
"""Degrees of the speed of a phase in the shape and in the context. Linear in the shape, so that
small motions of the shape that a law leaves out do not change the mean speed."""


@dataclass(frozen=True, eq=False)
class PhaseLaw(LearnedField):
    """ż = g(z; c) and φ̇ = ω(z; c), the result of fitting any law to a projection of
    `romkit.fit(symmetry=...)`.

    No rate depends on the phase, so that the law commutes with all shifts. The speed is linear in z
    and quadratic in c, fitted by least squares to rates of the phase of the data: no error of the
    decoder enters.

    Attributes:
        shape: law of z.
        speed: ω, as an equation with one row.

    Source: Rowley, Kevrekidis, Marsden, Lust (2003), Reduction and reconstruction for self-similar
    dynamical systems.

    Example:
        >>> import romkit
        >>> from romkit.laws import Steady
        >>> data = romkit.systems.KuramotoSivashinsky(n=32, dt=0.1).dataset(L=[12.0, 12.2, 12.4], duration=20.0)
        >>> pod = romkit.fit("pod", data, symmetry="shift", latent_dim=2)
        >>> law = Steady().fit(pod, data)
        >>> type(law).__name__, law.latent_dim
        ('PhaseLaw', 3)
    """

    shape: LearnedField
    speed: Equation

    order = property(attrgetter("shape.order"))
    context_names = property(attrgetter("shape.context_names"))
    control_names = property(attrgetter("shape.control_names"))
    held = property(attrgetter("shape.held"))
    control_unit = property(attrgetter("shape.control_unit"))
    source = property(attrgetter("shape.source"))
    samples = property(attrgetter("shape.samples"))
    report = property(attrgetter("shape.report"))

    @property
    def latent_dim(self) -> int:
        """Number of coordinates of the shape, and one."""
        return self.shape.latent_dim + 1

    @property
    def domain(self) -> Region | None:
        """Region of the shapes, at all phases."""
        region = self.shape.domain
        if region is None:
            return None
        points = torch.nn.functional.pad(region.points, (0, 1))
        # at an infinite scale no phase is far away
        scale = torch.nn.functional.pad(region.scale, (0, 1), value=torch.inf)
        return Region(points, scale, region.reach)

    def right_hand_side(self, c: Tensor) -> TensorMap:
        g = self.shape.right_hand_side(c)
        speed = self.speed.right_hand_side(c)

        def rate(w: Tensor) -> Tensor:
            shape = w[..., :-1]
            return torch.cat([g(shape), speed(shape)], dim=-1)

        return rate

    def details(self) -> list[str]:
        """Return lines of the law of the shape, and the speed of the phase."""
        if self.speed.coefficients.ndim > 2:
            return self.shape.details()
        coefficients = self.speed.coefficients[:, 0].tolist()
        speed = formula(coefficients, self.speed.terms, 4)
        unit = float(self.speed.basis.variables.scale[0])
        residual = float(self.speed.residual)
        line = f"phase' = {unit:.6g} ({speed})   (residual {residual:.1e})"
        return [*self.shape.details(), line]


def add_phase(shape: LearnedField, projection: ProjectionFamily, data: xr.Dataset) -> LearnedField:
    """Return law of the shape with the speed of the phase, fitted to the same data; the law itself
    where there is no phase.
    """
    if shape.latent_dim == projection.latent_dim:
        return shape
    samples = encoded_samples(projection, needing_velocity(data)).complete()
    # the phase is the last latent
    z = samples.inputs[..., :-1]
    rate = samples.targets[..., -1:]
    scaled = samples.scaled().variables
    shift = scaled.shift[..., :-1]
    scale = scaled.scale[..., :-1]
    variables = Scaling(scaled.names[:-1], shift, scale)
    latent, moving = map(Polynomial, DEGREES)
    basis = Features(latent, moving, variables, samples.parameters)
    terms = torch.broadcast_tensors(*basis.terms(z, samples.context))
    theta = torch.stack(terms, dim=-1)  # (..., N, K)
    target = rate / align(variables.scale[..., :1], rate)
    coefficients = least_norm(theta, target)  # (..., K, 1)
    missed = (theta @ coefficients - target).square().mean(-2)
    size = target.square().mean(-2)
    speed = Equation(
        basis,
        coefficients,
        1,
        samples.source,
        len(samples),
        condition=torch.linalg.cond(theta),
        converged=torch.ones(theta.shape[:-2], dtype=torch.bool, device=theta.device),
        residual=(missed / size).sqrt(),
        control_names=samples.control_names,
    )
    return PhaseLaw(shape, speed)
