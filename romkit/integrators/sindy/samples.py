"""What an equation is fitted to: latent states with their rates, the context of each, and where they came from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from romkit.errors import InputError
from romkit.integrators.sindy.basis import ContextScaling


@dataclass(frozen=True, eq=False)
class LatentSamples:
    """N samples of ż = g(z; c), or of z̈ = g(z, ż; c). `a + b` joins the samples of both.

    Leading axes are problems, each with an equation of its own: for one equation over several trajectories, flatten
    trajectories and times into N.

    Attributes:
        inputs: z (..., N, m), or (z, ż) (..., N, 2m).
        targets: ż or z̈ (..., N, m).
        context: (..., N, p) in physical units; an axis of size 1 where problems share it.
        scaling: names of the context parameters and how they enter the terms.
        source: where the samples came from, in words.
        names: of the m latent coordinates.
    """

    inputs: Tensor
    targets: Tensor
    context: Tensor
    scaling: ContextScaling
    source: str
    names: tuple[str, ...]

    @classmethod
    def first_order(
        cls,
        z: Tensor | np.ndarray,
        zdot: Tensor | np.ndarray,
        context: Tensor | np.ndarray | None = None,
        *,
        names: Sequence[str] | None = None,
        scaling: ContextScaling | Sequence[str] | None = None,
        source: str = "given latent states and velocities",
    ) -> "LatentSamples":
        """Samples of ż = g(z; c).

        Args:
            z: (..., N, m).
            zdot: (..., N, m).
            context: (..., N, p), or (N, p) for all problems.
            names: of the latent coordinates, z0, z1, ... by default.
            scaling: of the context; a sequence of names means physical units, and c0, c1, ... are the default.
            source: where they came from, in words.

        Raises:
            InputError: shapes that do not match, or values that are not finite.
        """
        z = _tensor("z", z)
        zdot = _matching("zdot", zdot, z)
        return cls._checked(z, zdot, context, names, scaling, source)

    @classmethod
    def second_order(
        cls,
        z: Tensor | np.ndarray,
        dz: Tensor | np.ndarray,
        ddz: Tensor | np.ndarray,
        context: Tensor | np.ndarray | None = None,
        *,
        names: Sequence[str] | None = None,
        scaling: ContextScaling | Sequence[str] | None = None,
        source: str = "given latent states, velocities and accelerations",
    ) -> "LatentSamples":
        """Samples of z̈ = g(z, ż; c), each of z, dz, ddz (..., N, m); the rest as in `first_order`."""
        z = _tensor("z", z)
        dz, ddz = _matching("dz", dz, z), _matching("ddz", ddz, z)
        return cls._checked(torch.cat([z, dz], dim=-1), ddz, context, names, scaling, source)

    @property
    def order(self) -> int:
        """1 for ż = g(z; c), 2 for z̈ = g(z, ż; c)."""
        return self.inputs.shape[-1] // self.targets.shape[-1]

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the inputs: those of the latents, and for second order their rates, primed."""
        return self.names + tuple(f"{name}'" for name in self.names) * (self.order - 1)

    def __len__(self) -> int:
        return self.targets.shape[-2]

    def __add__(self, other: "LatentSamples") -> "LatentSamples":
        if (self.variables, self.scaling) != (other.variables, other.scaling):
            raise InputError(
                "samples",
                expected=f"variables {self.variables} and context {self.scaling.definitions or self.scaling.names}",
                got=f"{other.variables} and {other.scaling.definitions or other.scaling.names}",
                fix="join samples of one projection, with one scaling of the context",
            )
        source = self.source if other.source == self.source else f"{self.source}, and {other.source}"
        pairs = ((getattr(self, part), getattr(other, part)) for part in ("inputs", "targets", "context"))
        return LatentSamples(*(torch.cat(pair, dim=-2) for pair in pairs), self.scaling, source, self.names)

    def __repr__(self) -> str:
        return f"LatentSamples({len(self)} samples of {', '.join(self.variables)}; {self.source})"

    @classmethod
    def _checked(
        cls,
        inputs: Tensor,
        targets: Tensor,
        context: Tensor | np.ndarray | None,
        names: Sequence[str] | None,
        scaling: ContextScaling | Sequence[str] | None,
        source: str,
    ) -> "LatentSamples":
        m = targets.shape[-1]
        names = tuple(f"z{k}" for k in range(m)) if names is None else tuple(names)
        if len(names) != m:
            raise InputError("names", expected=f"{m} names, one per latent", got=str(names), fix="name each latent")
        c = _context(context, targets)
        if scaling is None:
            scaling = tuple(f"c{k}" for k in range(c.shape[-1]))
        if not isinstance(scaling, ContextScaling):
            scaling = ContextScaling.none(scaling)
        if len(scaling.names) != c.shape[-1]:
            expected = f"{len(scaling.names)} parameters ({', '.join(scaling.names)}) on the last axis"
            raise InputError("context", expected=expected, got=f"{c.shape[-1]}", fix="name every parameter once")
        if set(names) & set(scaling.symbols):
            raise InputError("names", expected="names unlike the context's", got=str(names), fix="rename the latents")
        return cls(inputs, targets, c, scaling, source, names)


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
