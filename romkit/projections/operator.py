"""The projection operator at one context, on tensors and on labelled arrays, and the encoder and decoder behind it."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core.boundary import Count
from romkit.core.errors import InputError
from romkit.core.types import Dual
from romkit.data import DIMS, Layout
from romkit.data.trajectories import check_components, check_grid
from romkit.projections.frame import Normalization


class EncoderDecoder(abc.ABC):
    """Encoder and decoder at one context in normalised coordinates, with tangents: what `Projection.at` returns.

    Example:
        >>> import torch
        >>> from romkit.projections import EncoderDecoder
        >>> from romkit.types import Dual
        >>> class Ends(EncoderDecoder):
        ...     def encode(self, y):
        ...         return y[..., [0, -1]]
        ...     def decode(self, z):
        ...         return torch.cat([z[..., :1], z.mean(-1, keepdim=True), z[..., 1:]], dim=-1)
        ...     def encode_jvp(self, y, v):
        ...         return Dual(self.encode(y), self.encode(v))
        ...     def decode_jvp(self, z, w):
        ...         return Dual(self.decode(z), self.decode(w))
        >>> Ends().decode(Ends().encode(torch.tensor([1.0, 5.0, 3.0])))
        tensor([1., 2., 3.])
    """

    @abc.abstractmethod
    def encode(self, y: Tensor) -> Tensor:
        """z = ρ(y)."""

    @abc.abstractmethod
    def decode(self, z: Tensor) -> Tensor:
        """y = φ(z)."""

    @abc.abstractmethod
    def encode_jvp(self, y: Tensor, v: Tensor) -> Dual:
        """ρ(y) and Dρ(y) v. The leading axes of v may be larger than those of y wherever y has a 1."""

    @abc.abstractmethod
    def decode_jvp(self, z: Tensor, w: Tensor) -> Dual:
        """φ(z) and Dφ(z) w. The leading axes of w may be larger than those of z wherever z has a 1."""

    def last_layer(self) -> tuple["EncoderDecoder", Tensor, Tensor] | None:
        """The maps to a, W (k, n) and shift (..., n), where the decoder ends with y = shift + a W; None elsewhere."""
        return None

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        """D²φ(z)(w, w), by forward differentiation of `decode_jvp`; override where that is too slow."""
        return torch.func.jvp(lambda point: self.decode_jvp(point, w).tangent, (z,), (w,))[1]


LATENT = "latent_component"
FULL = "component"

Map = Callable[[Tensor], Tensor]


def encoded(encode: Map, layout: Layout, stacked: bool, dtype: torch.dtype, x: object) -> np.ndarray | xr.DataArray:
    """ρ of an array (..., n), or of labelled states: the latents, labelled."""
    if isinstance(x, np.ndarray):
        return _mapped(encode, x, dtype)
    values, lead, coords = _labelled(x, layout)
    return _latent(*_through(encode, values, lead, stacked, dtype), coords)


def decoded(decode: Map, layout: Layout, stacked: bool, dtype: torch.dtype, z: object) -> np.ndarray | xr.Dataset:
    """φ of an array (..., m), or of labelled latents: the variables of the state, in their own dimensions."""
    if isinstance(z, np.ndarray):
        return _mapped(decode, z, dtype)
    if not isinstance(z, xr.DataArray) or LATENT not in z.dims:
        got, fix = type(z).__name__, "give a tensor, an array, or what encode returned"
        raise InputError("z", expected=f"latents along {LATENT!r}", got=got, fix=fix)
    lead = _lead(z.dims, LATENT)
    known = stacked and lead[:1] == ["seed"]
    values, lead = _through(decode, z.transpose(*lead, LATENT).values, lead, stacked and not known, dtype)
    return layout.scatter(values, lead, _without(z.coords, LATENT))


def projected(
    project: Map, layout: Layout, stacked: bool, dtype: torch.dtype, x: object
) -> np.ndarray | xr.DataArray | xr.Dataset:
    """P of an array or of labelled states, as what came in."""
    if isinstance(x, np.ndarray):
        return _mapped(project, x, dtype)
    values, lead, coords = _labelled(x, layout)
    values, lead = _through(project, values, lead, stacked, dtype)
    if _is_plain(x):
        state = xr.DataArray(values, {**coords, **_only(x.coords, FULL)}, (*lead, FULL), "state", _attrs(x))
        return state if isinstance(x, xr.DataArray) else state.to_dataset().assign_attrs(x.attrs)
    found = layout.scatter(values, lead, coords)
    return found[layout.variables[0].name] if isinstance(x, xr.DataArray) else found


def _through(
    apply: Map, values: np.ndarray, lead: Sequence[str], stacked: bool, dtype: torch.dtype
) -> tuple[np.ndarray, list[str]]:
    """The image of values (*lead, k), with a leading axis for the seeds of a stack."""
    if not stacked:
        return _mapped(apply, values, dtype), list(lead)
    return _mapped(apply, values[None], dtype), ["seed", *lead]


def _mapped(apply: Map, values: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """Through tensors of this precision, and back to the one that came."""
    tensors.tensor("z" if getattr(apply, "__name__", "") == "decode" else "x", values)
    own = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
    with torch.no_grad():
        return apply(torch.from_numpy(np.array(values, dtype=own)).to(dtype)).numpy().astype(own, copy=False)


def _labelled(x: object, layout: Layout) -> tuple[np.ndarray, list[str], dict[str, object]]:
    """Values (*lead, n), the dimensions in front, and the coordinates along them."""
    if not isinstance(x, xr.DataArray | xr.Dataset):
        got, fix = type(x).__name__, "give a tensor, an array, or a dataset"
        raise InputError("x", expected="states", got=got, fix=fix)
    if _is_plain(x):
        check_components("x", x, layout.names)
        if isinstance(x, xr.Dataset):
            check_grid(x, layout)
        values = x if isinstance(x, xr.DataArray) else x["state"]
        lead = _lead(values.dims, FULL)
        return values.transpose(*lead, FULL).values, lead, _without(values.coords, FULL)
    data = x.to_dataset(name=layout.variables[0].name) if isinstance(x, xr.DataArray) else x
    own = {dim for variable in layout.variables for dim in variable.dims}
    first = layout.variables[0].name
    if first not in data:
        got, fix = f"variables {sorted(map(str, data.data_vars))}", "give data like those of the training"
        raise InputError("x", expected=f"a variable {first!r}", got=got, fix=fix)
    lead = _lead([dim for dim in data[first].dims if dim not in own], FULL)
    coords = {name: c for name, c in data.coords.items() if set(c.dims) <= set(lead)}
    return layout.gather(data, lead), lead, coords


def _is_plain(x: xr.DataArray | xr.Dataset) -> bool:
    return FULL in x.dims and (isinstance(x, xr.DataArray) or "state" in x)


def _lead(dims: Sequence[str], last: str) -> list[str]:
    """Dimensions in front of the last: seeds, trajectories and time first, as operators want them."""
    order = ("seed", *DIMS[:2])
    rest = [dim for dim in dims if dim != last]
    return [dim for dim in order if dim in rest] + [dim for dim in rest if dim not in order]


def _latent(values: np.ndarray, lead: Sequence[str], coords: dict[str, object]) -> xr.DataArray:
    return xr.DataArray(values, coords, (*lead, LATENT), "latent", {"long_name": "latent state"})


def _without(coords: xr.Coordinates, dim: str) -> dict[str, object]:
    return {name: coord for name, coord in coords.items() if dim not in coord.dims}


def _only(coords: xr.Coordinates, dim: str) -> dict[str, object]:
    return {name: coord for name, coord in coords.items() if coord.dims == (dim,)}


def _attrs(x: xr.DataArray | xr.Dataset) -> dict[str, object]:
    return x.attrs if isinstance(x, xr.DataArray) else x["state"].attrs


class LastLayer(NamedTuple):
    """φ(z) = shift + F a(z): the last layer of a decoder in physical units, and the operator of what is before.

    Attributes:
        hidden: decodes to a (..., k); it does not encode.
        factor: F (n, k), the same at every context.
        shift: (..., n), with the leading axes of the context.
    """

    hidden: "Operator"
    factor: Tensor
    shift: Tensor


Given = Tensor
"""What the methods of an operator look at themselves: tensors at once, and anything with labels."""


class Operator:
    """P = φ ∘ ρ at a fixed context, in physical units. The hyper-network has run; calls are cheap.

    Shapes: states x (..., n), latents z (..., m), contexts (..., p); leading axes match from the left, seeds
    first, then contexts, then samples. A state with fewer axes than the context is evaluated at each context.
    `encode`, `decode` and the operator itself also take NumPy arrays, DataArrays and datasets, and return such.

    Attributes:
        context: (..., p) in physical units.
        state_size, latent_dim: n and m.

    Example:
        >>> import torch
        >>> import romkit
        >>> P = romkit.load("ncae-lorenz96")(F=3.15)
        >>> x = 3.15 + torch.rand(10, 36)
        >>> P.encode(x).shape, P(x).shape, P.decode_jacobian(P.encode(x)).tangent.shape
        (torch.Size([10, 2]), torch.Size([10, 36]), torch.Size([10, 36, 2]))
    """

    def __init__(
        self,
        normalization: Normalization,
        maps: EncoderDecoder,
        context: Tensor,
        latent_dim: Count,
        seeds: Count | None = None,
    ):
        self._normalization, self._maps, self._seeds = normalization, maps, seeds
        self.context = context
        self.state_size = len(normalization.signature.state_names)
        self.latent_dim = latent_dim

    def __repr__(self) -> str:
        names, number = self._normalization.signature.context_names, self.context.shape[:-1].numel()
        at = f"; {number} contexts of {', '.join(names)}" if names else ""
        if names and number == 1:
            one = zip(names, self.context.flatten().tolist(), strict=True)
            at = f"; {', '.join(f'{name}={value:.6g}' for name, value in one)}"
        return f"Operator({self.latent_dim} latent of {self.state_size} components{at})"

    def encode(self, x: Given) -> Tensor:
        """z = ρ(x): (..., n) -> (..., m). Of a dataset or DataArray: a DataArray along `latent_component`."""
        if not torch.is_tensor(x):
            return encoded(self.encode, *self._labels, x)
        x = self._given("x", x, self.state_size)
        return self._maps.encode(self._normalization.normalise(x))

    def decode(self, z: Given) -> Tensor:
        """x = φ(z): (..., m) -> (..., n). Of a DataArray: a dataset of the state's variables in their dimensions."""
        if not torch.is_tensor(z):
            return decoded(self.decode, *self._labels, z)
        z = self._given("z", z, self.latent_dim)
        return self._normalization.denormalise(self._maps.decode(z))

    def __call__(self, x: Given) -> Tensor:
        """P(x) = φ(ρ(x)); P(P(x)) = P(x) for every constrained projection."""
        if not torch.is_tensor(x):
            return projected(self, *self._labels, x)
        return self.decode(self.encode(x))

    def encode_jvp(self, x: Given, v: Given) -> Dual:
        """ρ(x) and Dρ(x) v, each (..., m)."""
        x, v = self._pair(("x", "v"), x, v, self.state_size)
        return self._maps.encode_jvp(self._normalization.normalise(x), self._normalization.normalise_tangent(v))

    def decode_jvp(self, z: Given, w: Given) -> Dual:
        """φ(z) and Dφ(z) w, each (..., n)."""
        return self._decode_jvp(*self._pair(("z", "w"), z, w, self.latent_dim))

    def jvp(self, x: Given, v: Given) -> Dual:
        """P(x) and DP(x) v, each (..., n)."""
        return self._decode_jvp(*self.encode_jvp(x, v))

    def decode_jacobian(self, z: Given) -> Dual:
        """φ(z) (..., n) and Dφ(z) (..., n, m)."""
        z = self._given("z", z, self.latent_dim)
        directions = torch.eye(self.latent_dim, dtype=z.dtype, device=z.device).expand(*z.shape, -1)
        x, columns = self._decode_jvp(z.unsqueeze(-2), directions)
        return Dual(x.squeeze(-2), columns.mT)

    def last_layer(self) -> LastLayer | None:
        """The last layer of the decoder, where it is affine and the same for all members; None elsewhere."""
        split = self._maps.last_layer()
        if split is None or split[1].ndim != 2:
            return None
        maps, weight, shift = split
        names = tuple(f"a{k}" for k in range(len(weight)))
        units = ("1",) * len(weight)
        signature = replace(self._normalization.signature, state_names=names, state_units=units)
        hidden = Operator(Normalization(signature).to(weight), maps, self.context, self.latent_dim)
        factor = self._normalization.denormalise_tangent(weight).mT
        return LastLayer(hidden, factor, self._normalization.denormalise(shift))

    def decode_curvature(self, z: Given, w: Given) -> Tensor:
        """D²φ(z)(w, w) (..., n): the acceleration of a point that moves at constant w in latent coordinates."""
        z, w = self._pair(("z", "w"), z, w, self.latent_dim)
        return self._normalization.denormalise_tangent(self._maps.decode_curvature(z, w))

    def _decode_jvp(self, z: Tensor, w: Tensor) -> Dual:
        """`decode_jvp` of what has been looked at."""
        y, dy = self._maps.decode_jvp(z, w)
        return Dual(self._normalization.denormalise(y), self._normalization.denormalise_tangent(dy))

    @property
    def _labels(self) -> tuple[Layout, bool, torch.dtype]:
        normalization = self._normalization
        return normalization.signature.fields, self._seeds is not None, normalization.state_std.dtype

    def _given(self, name: str, value: object, size: int) -> Tensor:
        """The argument in the precision of the projection; quick, since fields call it at every evaluation."""
        own, like = self._normalization.state_std.dtype, self.context
        known = isinstance(value, Tensor) and value.dtype is own and value.layout is torch.strided
        if not known or (value.is_meta and not tensors.recording()):
            value = _converted(name, value, own)
        meaning = "state components" if size == self.state_size else "latent coordinates"
        if value.shape[-1:] != (size,):
            checks.last_axis(name, value.shape, size, meaning)
        if self._seeds is not None and value.ndim > 1 and len(value) not in (1, self._seeds):
            expected, fix = (
                f"shape ({self._seeds} or 1, ..., {size}) for a stack of seeds",
                "unsqueeze(0) what they share",
            )
            raise InputError(name, expected=expected, got=f"shape {tuple(value.shape)}", fix=fix)
        lead, contexts = value.shape[:-1], like.shape[:-1]
        if any(a != b and a != 1 and b != 1 for a, b in zip(lead, contexts, strict=False)):
            expected = f"shape ({', '.join(map(str, contexts))}, ..., {size}), {meaning}, as the contexts"
            fix = "leading axes match from the left: contexts, then samples"
            raise InputError(name, expected=expected, got=f"shape {tuple(value.shape)}", fix=fix)
        return value

    def _pair(self, names: tuple[str, str], point: object, direction: object, size: int) -> tuple[Tensor, Tensor]:
        """A point and a direction there, whose leading axes have to go with each other."""
        found = tuple(self._given(name, value, size) for name, value in zip(names, (point, direction), strict=True))
        if found[0].shape != found[1].shape:
            tensors.broadcast(**dict(zip(names, found, strict=True)))
        return found


def _converted(name: str, value: object, dtype: torch.dtype) -> Tensor:
    """In this precision, if nothing is lost by it; NumPy arrays and datasets are converted both ways."""
    if not torch.is_tensor(value):
        got, fix = checks.shown(value), "use torch.from_numpy; encode and decode take arrays and datasets as well"
        raise InputError(name, expected="a tensor", got=got, fix=fix)
    if value.dtype == torch.float64 and dtype == torch.float32:
        fix = f"give {name}.float(), or make the projection double: projection.double()"
        raise InputError(name, expected="float32, as the projection", got="float64", fix=fix)
    return tensors.tensor(name, value).to(dtype)
