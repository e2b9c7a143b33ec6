"""Scaled variables: what stands in an equation in place of a latent coordinate or a context parameter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import xarray as xr
from torch import Tensor

from romkit.data import context_names


@dataclass(frozen=True)
class Scaling:
    """Names of variables, and how they are scaled before they enter a term: (x - shift) / scale.

    A variable that is scaled prints as δ and its name. Unscaled ones (shift 0, scale 1) print as they are.
    """

    names: tuple[str, ...]
    shift: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def none(cls, names: Sequence[str]) -> "Scaling":
        """The variables as they are."""
        return cls(tuple(names), (0.0,) * len(names), (1.0,) * len(names))

    @classmethod
    def standard(cls, names: Sequence[str], values: Tensor) -> "Scaling":
        """To mean 0 and standard deviation 1 over values (..., d)."""
        rows = values.reshape(-1, len(names)).double()
        deviation = torch.where(rows.std(0) > 0, rows.std(0), 1.0)
        return cls(tuple(names), tuple(rows.mean(0).tolist()), tuple(deviation.tolist()))

    @classmethod
    def of_context(cls, data: xr.Dataset) -> "Scaling":
        """Of the context to [-1, 1] over its training range, or over the values in the dataset where none is given."""
        names = context_names(data)
        ranges = [data[name].attrs.get("training_range", (data[name].min(), data[name].max())) for name in names]
        middle = tuple(float(low + high) / 2 for low, high in ranges)
        return cls(names, middle, tuple(float(high - low) / 2 or 1.0 for low, high in ranges))

    def __len__(self) -> int:
        return len(self.names)

    def on(self, like: Tensor) -> Callable[[Tensor], Tensor]:
        """The map x (..., d) -> (x - shift) / scale, for tensors of the dtype and device of `like`."""
        if not any(self._scaled()):
            return lambda x: x
        shift, scale = like.new_tensor(self.shift), like.new_tensor(self.scale)
        return lambda x: (x - shift) / scale

    @property
    def symbols(self) -> tuple[str, ...]:
        """What stands in an equation for each variable."""
        return tuple(f"δ{name}" if scaled else name for name, scaled in zip(self.names, self._scaled(), strict=True))

    @property
    def definitions(self) -> list[str]:
        """What each scaled variable means, as text."""
        rows = zip(self.names, self.shift, self.scale, self._scaled(), strict=True)
        return [f"δ{name} = {_scaled_text(name, shift, scale)}" for name, shift, scale, scaled in rows if scaled]

    def _scaled(self) -> list[bool]:
        return [pair != (0.0, 1.0) for pair in zip(self.shift, self.scale, strict=True)]


def _scaled_text(name: str, shift: float, scale: float) -> str:
    if shift == 0:
        return f"{name} / {scale:.6g}"
    return f"({name} {'-' if shift > 0 else '+'} {abs(shift):.6g}) / {scale:.6g}"
