"""Scaled variables: what stands in an equation in place of a latent coordinate or a context parameter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import xarray as xr
from torch import Tensor

from romkit.broadcast import align
from romkit.data import context_names


@dataclass(frozen=True)
class Scaling:
    """Names of variables, and how they are scaled before they enter a term: (x - shift) / scale.

    A variable that is scaled prints as δ and its name. Unscaled ones (shift 0, scale 1) print as they are. In a stack
    of problems that are scaled one by one, shift and scale are tuples of what they are for a single one.
    """

    names: tuple[str, ...]
    shift: tuple
    scale: tuple

    @classmethod
    def none(cls, names: Sequence[str]) -> "Scaling":
        """The variables as they are."""
        return cls(tuple(names), (0.0,) * len(names), (1.0,) * len(names))

    @classmethod
    def standard(cls, names: Sequence[str], z: Tensor, rates: int) -> "Scaling":
        """To mean 0 and standard deviation 1 over samples (..., N, m), each problem by itself.

        Args:
            names: of the m variables, then of their rates.
            z: the samples of the variables.
            rates: how many rates follow, none or m; they keep their zero, and have the scale of their variable.
        """
        z = z.double()
        mean, deviation = z.mean(-2), z.std(-2)
        deviation = torch.where(deviation > 0, deviation, 1.0)
        shift = torch.cat([mean, torch.zeros_like(mean[..., :rates])], dim=-1)
        return cls(tuple(names), _nested(shift), _nested(torch.cat([deviation, deviation[..., :rates]], dim=-1)))

    @classmethod
    def of_context(cls, data: xr.Dataset) -> "Scaling":
        """Of the context to [-1, 1] over its training range, or over the values in the dataset where none is given."""
        names = context_names(data)
        ranges = [data[name].attrs.get("training_range", (data[name].min(), data[name].max())) for name in names]
        middle = tuple(float(low + high) / 2 for low, high in ranges)
        return cls(names, middle, tuple(float(high - low) / 2 or 1.0 for low, high in ranges))

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, problem: int) -> "Scaling":
        """That of one problem of a stack; the same where they share it."""
        return replace(self, shift=self.shift[problem], scale=self.scale[problem]) if self._own else self

    def repeated(self, number: int) -> "Scaling":
        """That of a stack of this many stacks; the same where problems share it."""
        return replace(self, shift=(self.shift,) * number, scale=(self.scale,) * number) if self._own else self

    def on(self, like: Tensor) -> Callable[[Tensor], Tensor]:
        """The map x (..., d) -> (x - shift) / scale, for tensors of the dtype and device of `like`.

        Leading axes of x match problems with a scaling of their own from the left.
        """
        if not any(self._scaled()):
            return lambda x: x
        shift, scale = like.new_tensor(self.shift), like.new_tensor(self.scale)
        return lambda x: (x - align(shift, x)) / align(scale, x)

    @property
    def symbols(self) -> tuple[str, ...]:
        """What stands in an equation for each variable."""
        return tuple(f"δ{name}" if scaled else name for name, scaled in zip(self.names, self._scaled(), strict=True))

    @property
    def definitions(self) -> list[str]:
        """What each scaled variable means, as text; for a single problem."""
        rows = zip(self.names, self.shift, self.scale, self._scaled(), strict=True)
        return [f"δ{name} = {_scaled_text(name, shift, scale)}" for name, shift, scale, scaled in rows if scaled]

    @property
    def _own(self) -> bool:
        """Whether each problem of a stack has a scaling of its own."""
        return any(isinstance(value, tuple) for value in self.shift)

    def _scaled(self) -> list[bool]:
        if not self.names:
            return []
        shift, scale = (torch.tensor(values).reshape(-1, len(self)) for values in (self.shift, self.scale))
        return ((shift != 0) | (scale != 1)).any(0).tolist()


def _nested(values: Tensor) -> tuple:
    """A tensor (..., d) as tuples."""
    return tuple(values.tolist()) if values.ndim == 1 else tuple(_nested(part) for part in values)


def _scaled_text(name: str, shift: float, scale: float) -> str:
    if shift == 0:
        return f"{name} / {scale:.6g}"
    return f"({name} {'-' if shift > 0 else '+'} {abs(shift):.6g}) / {scale:.6g}"
