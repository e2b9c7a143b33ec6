"""The normalization of a projection: names, units, and the affine map between physical and normalised coordinates."""

from dataclasses import asdict, dataclass

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from romkit.bases import Basis, check_size
from romkit.core.boundary import validated
from romkit.core.errors import InputError
from romkit.data import DIMS, Layout, check_states, context_names, context_ranges, layout_of
from romkit.data.layout import component_names


@validated
@dataclass(frozen=True)
class Signature:
    """What a projection was made for; compared with the system or data that it is used on.

    Attributes:
        system: name of the system, "" for data without one.
        state_names, state_units: one entry per state component.
        context_names, context_units: one entry per context parameter.
        layout: of the state on its axis, as text (see `romkit.data.Layout`); "" where it is a plain vector.
        fixed: the context parameters that had one value in training, of which nothing is known at another one.

    Example:
        >>> import romkit
        >>> signature = romkit.load("ncae-lorenz96").normalization.signature
        >>> signature.system, signature.context_names, signature.state_names[:3]
        ('lorenz96', ('F',), ('x0', 'x1', 'x2'))
    """

    system: str
    state_names: tuple[str, ...]
    state_units: tuple[str, ...]
    context_names: tuple[str, ...]
    context_units: tuple[str, ...]
    layout: str = ""
    fixed: tuple[str, ...] = ()

    @property
    def fields(self) -> Layout:
        """The variables and dimensions that a state has in data."""
        return Layout.from_json(self.layout) if self.layout else Layout.plain(self.state_names)

    def to_json(self) -> dict[str, object]:
        """The fields as plain values, for a file."""
        return asdict(self)

    @classmethod
    @validated
    def from_json(cls, fields: dict[str, object]) -> "Signature":
        """What `to_json` gave."""
        return cls(**{key: value if isinstance(value, str) else tuple(value) for key, value in fields.items()})


@validated
class Normalization(nn.Module):
    """x = shift + scale · y, c = c_shift + c_scale · d: y and d are what the network sees.

    An affine wrap keeps P ∘ P = P. Components of one unit share one scale (the root mean square deviation of
    their group), so that in a state of one unit the loss in y is the physical loss up to a factor. The context
    is mapped to [-1, 1] on its training range; relative to its value, if that is a single one.

    Attributes:
        basis: in front of what the network sees; None here, see `BasisNormalization`.
        state_std: (n,) standard deviation of each component over the training data, by which NRMSE is normalised.

    Example:
        >>> import torch
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.18])
        >>> normalization = romkit.projections.Normalization.from_dataset(data)
        >>> normalization.signature.context_names, normalization.state_std.shape
        (('F',), torch.Size([36]))
        >>> normalization.normalise_context(torch.tensor([[3.133], [3.193]])).flatten().round(decimals=3)
        tensor([-1.,  1.])
    """

    basis: Basis | None = None

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
    @validated
    def from_dataset(cls, data: xr.Dataset) -> "Normalization":
        """The normalization of a training set (see `romkit.data.schema`)."""
        check_states(data)
        states = data["state"].transpose(*DIMS).values.reshape(-1, data.sizes["component"])
        there = np.isfinite(states).all(-1)
        states = states if there.all() else states[there]
        normalization = cls(signature_of(data))
        units = normalization.signature.state_units
        # sums of many numbers in single precision lose all digits of a spread about a large mean
        exactly = {"axis": 0, "dtype": np.float64}
        normalization.state_shift = _float(states.mean(**exactly))
        normalization.state_std = _float(_nonzero(states.std(**exactly)))
        normalization.state_scale = _float(_nonzero(_scale_per_unit(states, _groups(units, layout_of(data)))))
        low, high = context_ranges(data)
        normalization.context_shift = _float((low + high) / 2)
        normalization.context_scale = _float(_nonzero(np.where(high > low, high - low, 2 * np.abs(low)) / 2))
        scales = normalization.state_std, normalization.state_scale, normalization.context_scale
        if not all(bool((scale > 0).all()) for scale in scales):
            fix = "measure them in a smaller unit"
            raise InputError("data", expected="states and contexts that float32 can hold", got="smaller ones", fix=fix)
        if not all(bool(buffer.isfinite().all()) for buffer in normalization.buffers()):
            fix = "measure them in a larger unit"
            raise InputError("data", expected="states and contexts that float32 can hold", got="larger ones", fix=fix)
        return normalization

    @property
    def size(self) -> int:
        """How many coordinates the network sees."""
        return len(self.signature.state_names)

    def normalise(self, x: Tensor) -> Tensor:
        """y (..., size) of a state x (..., n)."""
        return (x - self.state_shift) / self.state_scale

    def denormalise(self, y: Tensor) -> Tensor:
        """x (..., n) of coordinates y (..., size)."""
        return torch.addcmul(self.state_shift, y, self.state_scale)

    def normalise_tangent(self, v: Tensor) -> Tensor:
        """ẏ of a velocity ẋ."""
        return v / self.state_scale

    def denormalise_tangent(self, w: Tensor) -> Tensor:
        """ẋ of a velocity ẏ."""
        return w * self.state_scale

    def normalise_context(self, c: Tensor) -> Tensor:
        """d (..., p) of a context c (..., p) in physical units."""
        return (c - self.context_shift) / self.context_scale

    def denormalise_context(self, c: Tensor) -> Tensor:
        """The context (..., p) in physical units of one that is normalised."""
        return torch.addcmul(self.context_shift, c, self.context_scale)


@validated
class BasisNormalization(Normalization):
    """x = x̄ + V (shift + scale · y): a basis in front, and the normalization of its r coordinates behind it.

    The columns of V are orthonormal in the metric of the basis, so P ∘ P = P is kept here too.

    Attributes:
        basis: shared by all copies, in float64 whatever the precision of the network.
        inner: of the coordinates.

    Example:
        >>> import torch
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> cae = romkit.fit("cae", data, basis=6, latent_dim=2, epochs=1, verbose=False)
        >>> type(cae.normalization).__name__, cae.normalization.size
        ('BasisNormalization', 6)
        >>> cae.normalization.normalise(torch.zeros(10, 36)).shape
        torch.Size([10, 6])
    """

    def __init__(self, signature: Signature, basis: Basis, inner: Normalization):
        for argument, own, wanted, of in (
            ("basis", basis.size, len(signature.state_names), "components of the state"),
            ("inner", inner.size, basis.rank, "coordinates in the basis"),
        ):
            if own != wanted:
                fix = "take the basis of these data, and the normalization of their coordinates in it"
                raise InputError(argument, expected=f"the {wanted} {of}", got=own, fix=fix)
        nn.Module.__init__(self)  # without buffers for shift and scale: those of the coordinates count
        self.signature, self.basis, self.inner = signature, basis, inner
        self.register_buffer("state_std", torch.ones(len(signature.state_names)))

    @classmethod
    @validated
    def from_dataset(cls, data: xr.Dataset, basis: Basis, inner: Normalization) -> "BasisNormalization":
        """That of full states, for a normalization of the same data in the coordinates of the basis."""
        check_size(basis, data)
        found = cls(signature_of(data), basis, inner)
        state, mean = data["state"].transpose(*DIMS), basis.mean.numpy()
        moments, count = np.zeros((2, basis.size)), 0
        for k in range(state.sizes["trajectory"]):  # one at a time, for data that are larger than memory
            deviation = state.isel(trajectory=k).values - mean
            deviation = deviation[np.isfinite(deviation).all(-1)]
            moments += deviation.sum(0), (deviation**2).sum(0)
            count += len(deviation)
        first, second = moments / count
        found.state_std = _float(_nonzero(np.sqrt(np.maximum(second - first**2, 0))))
        return found

    @property
    def size(self) -> int:
        return self.basis.rank

    def normalise(self, x: Tensor) -> Tensor:
        return self.inner.normalise(self.basis.encode(x))

    def denormalise(self, y: Tensor) -> Tensor:
        return self.basis.decode(self.inner.denormalise(y))

    def normalise_tangent(self, v: Tensor) -> Tensor:
        return self.inner.normalise_tangent(self.basis.encode_tangent(v))

    def denormalise_tangent(self, w: Tensor) -> Tensor:
        return self.basis.decode_tangent(self.inner.denormalise_tangent(w))

    @property
    def context_shift(self) -> Tensor:
        """(p,) of the inner normalization, as all that concerns the context."""
        return self.inner.context_shift

    @property
    def context_scale(self) -> Tensor:
        """(p,) of the inner normalization."""
        return self.inner.context_scale


def signature_of(data: xr.Dataset) -> Signature:
    """What a projection of these data is made for."""
    names, units = _components(data)
    return Signature(
        str(data.attrs.get("system", "")),
        names,
        units,
        context_names(data),
        tuple(str(data[name].attrs.get("units", "")) for name in context_names(data)),
        "" if (layout := layout_of(data)).is_plain else layout.to_json(),
        tuple(
            name for name, (low, high) in zip(context_names(data), context_ranges(data).T, strict=True) if low == high
        ),
    )


def _components(data: xr.Dataset) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names, given = component_names(data), data.coords.get("component_units")
    units = [data["state"].attrs.get("units", "")] * len(names) if given is None else given.values
    return names, tuple(map(str, units))


def _groups(units: tuple[str, ...], layout: Layout) -> tuple[str, ...]:
    """What shares a scale: components of one unit; without a unit, those of one variable."""
    owners = [variable.name for variable in layout.variables for _ in range(variable.size)]
    return tuple(unit or f"of {owner}" for unit, owner in zip(units, owners, strict=True))


def _scale_per_unit(states: np.ndarray, units: tuple[str, ...]) -> np.ndarray:
    groups: dict[str, list[float]] = {}
    for variance, unit in zip(states.var(0, dtype=np.float64), units, strict=True):
        groups.setdefault(unit, []).append(variance)
    scale = {unit: np.sqrt(np.mean(group)) for unit, group in groups.items()}
    return np.array([scale[unit] for unit in units])


def _nonzero(scale: np.ndarray) -> np.ndarray:
    return np.where(scale > 0, scale, 1.0)


def _float(values: np.ndarray) -> Tensor:
    return torch.as_tensor(values, dtype=torch.get_default_dtype())
