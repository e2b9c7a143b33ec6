"""What an equation is fitted to: latent states with their rates, the context of each, and where they came from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from romkit.errors import InputError
from romkit.integrators.sindy.scaling import Scaling


@dataclass(frozen=True, eq=False)
class LatentSamples:
    """N samples of ż = g(z; c), or of z̈ = g(z, ż; c). `a + b` joins the samples of both.

    Leading axes are problems, each with an equation of its own: for one equation over several trajectories, flatten
    trajectories and times into N.

    Attributes:
        inputs: z (..., N, m), or (z, ż) (..., N, 2m).
        targets: ż or z̈ (..., N, m).
        context: (..., N, p) in physical units; an axis of size 1 where problems share it.
        variables: names of the inputs and how they enter the terms.
        parameters: names of the context parameters and how they enter the terms.
        source: where the samples came from, in words.
    """

    inputs: Tensor
    targets: Tensor
    context: Tensor
    variables: Scaling
    parameters: Scaling
    source: str

    @classmethod
    def first_order(
        cls,
        z: Tensor | np.ndarray,
        zdot: Tensor | np.ndarray,
        context: Tensor | np.ndarray | None = None,
        *,
        names: Sequence[str] | None = None,
        parameters: Scaling | Sequence[str] | None = None,
        source: str = "given latent states and velocities",
    ) -> "LatentSamples":
        """Samples of ż = g(z; c).

        Args:
            z: (..., N, m).
            zdot: (..., N, m).
            context: (..., N, p), or (N, p) for all problems.
            names: of the latent coordinates, z0, z1, ... by default.
            parameters: names of the context parameters, or names with their scaling; c0, c1, ... by default.
            source: where they came from, in words.

        Raises:
            InputError: shapes that do not match, or values that are not finite.
        """
        z = _tensor("z", z)
        zdot = _matching("zdot", zdot, z)
        return cls._checked(z, zdot, context, names, parameters, source)

    @classmethod
    def second_order(
        cls,
        z: Tensor | np.ndarray,
        dz: Tensor | np.ndarray,
        ddz: Tensor | np.ndarray,
        context: Tensor | np.ndarray | None = None,
        *,
        names: Sequence[str] | None = None,
        parameters: Scaling | Sequence[str] | None = None,
        source: str = "given latent states, velocities and accelerations",
    ) -> "LatentSamples":
        """Samples of z̈ = g(z, ż; c), each of z, dz, ddz (..., N, m); the rest as in `first_order`."""
        z = _tensor("z", z)
        dz, ddz = _matching("dz", dz, z), _matching("ddz", ddz, z)
        return cls._checked(torch.cat([z, dz], dim=-1), ddz, context, names, parameters, source)

    @property
    def order(self) -> int:
        """1 for ż = g(z; c), 2 for z̈ = g(z, ż; c)."""
        return self.inputs.shape[-1] // self.targets.shape[-1]

    def scaled(self) -> "LatentSamples":
        """The same samples, whose latent coordinates enter the terms with mean 0 and standard deviation 1.

        Where latents are far from zero or of very different size, this is what makes one threshold fit all terms. Each
        problem of a stack is scaled by its own samples.
        """
        m = self.targets.shape[-1]
        scaling = Scaling.standard(self.variables.names, self.inputs[..., :m], rates=m * (self.order - 1))
        return replace(self, variables=scaling)

    def __len__(self) -> int:
        return self.targets.shape[-2]

    def __add__(self, other: "LatentSamples") -> "LatentSamples":
        mine, theirs = ((*each.variables.symbols, *each.parameters.symbols) for each in (self, other))
        if (self.variables, self.parameters) != (other.variables, other.parameters):
            fix = "join samples of one projection, and scale them afterwards"
            raise InputError("samples", expected=f"{mine} with the same scaling", got=str(theirs), fix=fix)
        source = self.source if other.source == self.source else f"{self.source}; and {other.source}"
        pairs = {part: (getattr(self, part), getattr(other, part)) for part in ("inputs", "targets", "context")}
        joined = {part: torch.cat(pair, dim=-2) for part, pair in pairs.items()}
        return replace(self, **joined, source=source)

    def __repr__(self) -> str:
        return f"LatentSamples({len(self)} samples of {', '.join(self.variables.names)}; {self.source})"

    @classmethod
    def _checked(
        cls,
        inputs: Tensor,
        targets: Tensor,
        context: Tensor | np.ndarray | None,
        names: Sequence[str] | None,
        parameters: Scaling | Sequence[str] | None,
        source: str,
    ) -> "LatentSamples":
        m, order = targets.shape[-1], inputs.shape[-1] // targets.shape[-1]
        names = tuple(f"z{k}" for k in range(m)) if names is None else tuple(names)
        if len(names) != m:
            raise InputError("names", expected=f"{m} names, one per latent", got=str(names), fix="name each latent")
        c = _context(context, targets)
        if parameters is None:
            parameters = tuple(f"c{k}" for k in range(c.shape[-1]))
        if not isinstance(parameters, Scaling):
            parameters = Scaling.none(parameters)
        if len(parameters) != c.shape[-1]:
            expected = f"{len(parameters)} parameters ({', '.join(parameters.names)}) on the last axis"
            raise InputError("context", expected=expected, got=f"{c.shape[-1]}", fix="name every parameter once")
        if set(names) & set(parameters.names):
            raise InputError("names", expected="names unlike the context's", got=str(names), fix="rename the latents")
        rates = tuple(f"{name}'" for name in names) * (order - 1)
        return cls(inputs, targets, c, Scaling.none(names + rates), parameters, source)


def _tensor(argument: str, value: object) -> Tensor:
    """A floating-point tensor (..., N, k) of finite numbers."""
    tensor = value if torch.is_tensor(value) else torch.from_numpy(np.asarray(value, dtype=np.float64))
    tensor = tensor.detach() if tensor.is_floating_point() else tensor.double()
    if tensor.ndim < 2:
        raise InputError(
            argument,
            expected="shape (..., samples, components)",
            got=f"shape {tuple(tensor.shape)}",
            fix="add the axis",
        )
    if not bool(tensor.sum().isfinite()):  # NaN and infinity survive a sum, which is the cheapest look at all
        raise InputError(argument, expected="finite numbers", got="NaN or infinity", fix="drop those samples")
    return tensor


def _matching(argument: str, value: object, like: Tensor) -> Tensor:
    tensor = _tensor(argument, value)
    if tensor.shape == like.shape:
        return tensor.to(like.device)
    raise InputError(
        argument,
        expected=f"shape {tuple(like.shape)}, as z",
        got=f"shape {tuple(tensor.shape)}",
        fix="give one rate for each latent state",
    )


def _context(value: object, targets: Tensor) -> Tensor:
    """(..., N, p) with as many axes as the targets, leading ones of size 1 where problems share it."""
    *lead, N, _ = targets.shape
    if value is None:
        return targets.new_empty((*(1 for _ in lead), N, 0))
    c = _tensor("context", value).to(targets.device)
    shared = c.reshape((1,) * (targets.ndim - c.ndim) + tuple(c.shape)) if c.ndim == 2 else c
    fits = shared.ndim == targets.ndim and shared.shape[-2] == N
    if not fits or any(own not in (1, size) for own, size in zip(shared.shape[:-2], lead, strict=True)):
        raise InputError(
            "context",
            expected=f"shape ({N}, p)" + (f" or {(*lead, N)} and p" if lead else ""),
            got=f"shape {tuple(c.shape)}",
            fix="give the context of every sample, parameters on the last axis",
        )
    return shared
