"""Scaled variables: what stands in an equation in place of a latent coordinate or a context parameter."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit import arrays, checks
from romkit.boundary import Count, Natural, checked
from romkit.broadcast import align
from romkit.data import context_names, context_ranges, control_matrix, control_names
from romkit.data.context import check_dims


@checked
@dataclass(frozen=True, eq=False)
class Scaling:
    """Names of variables, and how they are scaled before they enter a term: (x - shift) / scale.

    A variable that is scaled prints as δ and its name; unscaled ones (shift 0, scale 1) print as they are.

    Attributes:
        names: of the d variables.
        shift, scale: (d,) float64, or (..., d) where each problem of a stack is scaled by itself.

    Example:
        >>> import torch
        >>> from romkit.integrators import Scaling
        >>> scaling = Scaling(("a", "b"), shift=torch.tensor([0.0, 2.0]), scale=torch.tensor([1.0, 4.0]))
        >>> scaling.symbols, scaling.definitions
        (('a', 'δb'), ['δb = (b - 2) / 4'])
        >>> scaling.on(torch.zeros(1))(torch.tensor([1.0, 4.0]))
        tensor([1.0000, 0.5000])
    """

    names: tuple[str, ...]
    shift: Tensor
    scale: Tensor

    @classmethod
    @checked
    def none(cls, names: Sequence[str]) -> "Scaling":
        """The variables as they are."""
        zero = torch.zeros(len(names), dtype=torch.float64)
        return cls(tuple(names), zero, zero + 1)

    @classmethod
    @checked
    def standard(cls, names: Sequence[str], z: Tensor, rates: Natural) -> "Scaling":
        """To mean 0 and standard deviation 1 over samples (..., N, m), each problem by itself.

        Args:
            names: of the m variables, then of their rates.
            z: the samples of the variables.
            rates: how many rates follow, none or m; they keep their zero, and have the scale of their variable.
        """
        arrays.axes("z", z, "N m")
        z = z.double()
        there = z.isfinite().all(-1).reshape(-1, z.shape[-2]).all(0)  # the others are missing
        z = z if bool(there.all()) else z[..., there, :]
        mean, deviation = z.mean(-2), z.std(-2)
        deviation = torch.where(deviation > 0, deviation, 1.0)
        shift = torch.cat([mean, torch.zeros_like(mean[..., :rates])], dim=-1)
        return cls(tuple(names), shift, torch.cat([deviation, deviation[..., :rates]], dim=-1))

    @classmethod
    @checked
    def of_context(cls, data: xr.Dataset) -> "Scaling":
        """Of the context to [-1, 1] over its training range, or over the values in the dataset where none is given.

        Inputs follow, to [-1, 1] over their values.
        """
        control = control_matrix(data)
        reached = np.stack([np.nanmin(control, axis=(0, 1)), np.nanmax(control, axis=(0, 1))])
        check_dims(data, "trajectory", "time")
        low, high = torch.from_numpy(np.concatenate([context_ranges(data), reached], axis=1))
        scale = (high - low) / 2
        names = context_names(data) + control_names(data)
        return cls(names, (low + high) / 2, torch.where(scale > 0, scale, 1.0))

    def __len__(self) -> int:
        return len(self.names)

    @checked
    def __getitem__(self, problem: int) -> "Scaling":
        """That of one problem of a stack; the same where they share it."""
        if self.shift.ndim == 1:
            return self
        problem = checks.index("problem", problem, len(self.shift))
        return replace(self, shift=self.shift[problem], scale=self.scale[problem])

    @checked
    def repeated(self, number: Count) -> "Scaling":
        """That of a stack of this many stacks; the same where problems share it."""
        if self.shift.ndim == 1:
            return self
        return replace(self, **{k: getattr(self, k).expand(number, *self.shift.shape) for k in ("shift", "scale")})

    @checked
    def equals(self, other: "Scaling") -> bool:
        """Whether names and scaling are the same."""
        same = all(torch.equal(getattr(self, k), getattr(other, k)) for k in ("shift", "scale"))
        return self.names == other.names and same

    @checked
    def on(self, like: Tensor) -> Callable[[Tensor], Tensor]:
        """The map x (..., d) -> (x - shift) / scale, for tensors of the dtype and device of `like`.

        Leading axes of x match problems with a scaling of their own from the left.
        """
        if not any(self._scaled):
            return lambda x: x
        shift, scale = self.shift.to(like), self.scale.to(like)
        return lambda x: (x - align(shift, x)) / align(scale, x)

    @property
    def symbols(self) -> tuple[str, ...]:
        """What stands in an equation for each variable."""
        return tuple(f"δ{name}" if scaled else name for name, scaled in zip(self.names, self._scaled, strict=True))

    @property
    def definitions(self) -> list[str]:
        """What each scaled variable means, as text; for a single problem."""
        rows = zip(self.names, self.shift.tolist(), self.scale.tolist(), self._scaled, strict=True)
        return [f"δ{name} = {_scaled_text(name, shift, scale)}" for name, shift, scale, scaled in rows if scaled]

    @functools.cached_property
    def _scaled(self) -> list[bool]:
        """For each variable, whether any problem scales it."""
        return torch.atleast_2d((self.shift != 0) | (self.scale != 1)).flatten(0, -2).any(0).tolist()


def _scaled_text(name: str, shift: float, scale: float) -> str:
    if shift == 0:
        return f"{name} / {scale:.6g}"
    return f"({name} {'-' if shift > 0 else '+'} {abs(shift):.6g}) / {scale:.6g}"
