"""The normalization of a projection: names, units, and the affine map between physical and normalised coordinates."""

from dataclasses import asdict, dataclass

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from romkit.data import DIMS, context_names, context_ranges


@dataclass(frozen=True)
class Signature:
    """What a projection was made for; compared with the system or data that it is used on.

    Attributes:
        system: name of the system, "" for data without one.
        state_names, state_units: one entry per state component.
        context_names, context_units: one entry per context parameter.
    """

    system: str
    state_names: tuple[str, ...]
    state_units: tuple[str, ...]
    context_names: tuple[str, ...]
    context_units: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, object]) -> "Signature":
        return cls(**{key: value if isinstance(value, str) else tuple(value) for key, value in fields.items()})


class Normalization(nn.Module):
    """x = shift + scale · y, c = c_shift + c_scale · d: y and d are what the network sees.

    An affine wrap keeps P ∘ P = P. Components of one unit share one scale (the root mean square deviation of
    their group), so that in a state of one unit the loss in y is the physical loss up to a factor. The context
    is mapped to [-1, 1] on its training range.

    Attributes:
        state_std: (n,) standard deviation of each component over the training data, by which NRMSE is normalised.
    """

    def __init__(self, signature: Signature):
        super().__init__()
        self.signature = signature
        n, p = len(signature.state_names), len(signature.context_names)
        for name, size, value in (
            ("state_shift", n, 0.0),
            ("state_scale", n, 1.0),
            ("state_std", n, 1.0),
            ("context_shift", p, 0.0),
            ("context_scale", p, 1.0),
        ):
            self.register_buffer(name, torch.full((size,), value))

    @classmethod
    def from_dataset(cls, data: xr.Dataset) -> "Normalization":
        """The normalization of a training set (see `romkit.data.schema`)."""
        states = data["state"].transpose(*DIMS).values.reshape(-1, data.sizes["component"])
        names, units = _components(data)
        normalization = cls(
            Signature(
                str(data.attrs.get("system", "")),
                names,
                units,
                context_names(data),
                tuple(str(data[name].attrs.get("units", "")) for name in context_names(data)),
            )
        )
        normalization.state_shift = _float(states.mean(0))
        normalization.state_std = _float(_nonzero(states.std(0)))
        normalization.state_scale = _float(_nonzero(_scale_per_unit(states, units)))
        low, high = context_ranges(data)
        normalization.context_shift = _float((low + high) / 2)
        normalization.context_scale = _float(_nonzero((high - low) / 2))
        return normalization

    def normalise(self, x: Tensor) -> Tensor:
        return (x - self.state_shift) / self.state_scale

    def denormalise(self, y: Tensor) -> Tensor:
        return torch.addcmul(self.state_shift, y, self.state_scale)

    def normalise_context(self, c: Tensor) -> Tensor:
        return (c - self.context_shift) / self.context_scale

    def denormalise_context(self, c: Tensor) -> Tensor:
        return torch.addcmul(self.context_shift, c, self.context_scale)


def _components(data: xr.Dataset) -> tuple[tuple[str, ...], tuple[str, ...]]:
    n = data.sizes["component"]
    names = data["component"].values if "component" in data.coords else [f"x{k}" for k in range(n)]
    units = (
        data["component_units"].values
        if "component_units" in data.coords
        else [data["state"].attrs.get("units", "")] * n
    )
    return tuple(map(str, names)), tuple(map(str, units))


def _scale_per_unit(states: np.ndarray, units: tuple[str, ...]) -> np.ndarray:
    variance = states.var(0)
    return np.array(
        [np.sqrt(np.mean([v for v, u in zip(variance, units, strict=True) if u == unit])) for unit in units]
    )


def _nonzero(scale: np.ndarray) -> np.ndarray:
    return np.where(scale > 0, scale, 1.0)


def _float(values: np.ndarray) -> Tensor:
    return torch.as_tensor(values, dtype=torch.get_default_dtype())
