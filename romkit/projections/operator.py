"""Projection operator at one context, on tensors and on labelled arrays, and the encoder and
decoder behind it.
"""

import abc
import functools
from collections.abc import Callable
from typing import NamedTuple

import dask.array as da
import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core.boundary import Count
from romkit.core.errors import InputError
from romkit.core.polynomials import Monomials
from romkit.core.types import Dual
from romkit.data import DIMS, Layout
from romkit.data.schema import check_chunks
from romkit.data.trajectories import check_components, check_grid
from romkit.engine.threads import one_thread
from romkit.projections.frame import Frame
from romkit.projections.gaps import encoded


class EncoderDecoder(abc.ABC):
    """Encoder and decoder at one context in normalised coordinates, with tangents; `Projection.at`
    returns one.

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
        """The maps to a, W (k, n) and shift (..., n), where the decoder ends with y = shift + a W;
        None elsewhere.
        """
        return None

    takes_gaps = False
    """Whether a state with NaN is encoded by least squares on what is there."""

    def polynomial(self) -> tuple[Monomials, Tensor, Tensor] | None:
        """Monomials m, W (..., K, n) and D (..., n, m), where y = Wᵀ m(z) and z = Dᵀ y; None
        elsewhere.
        """
        return None

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        """D²φ(z)(w, w), by forward differentiation of `decode_jvp`; override where that is too
        slow.
        """
        return torch.func.jvp(lambda point: self.decode_jvp(point, w).tangent, (z,), (w,))[1]


class LastLayer(NamedTuple):
    """φ(z) = shift + F a(z): the last layer of a decoder in physical units, and the operator of
    what is before.

    Attributes:
        hidden: decodes to a (..., k); it does not encode.
        factor: F (n, k), or (..., n, k) with the leading axes of the context where it follows it.
        shift: (..., n), with the leading axes of the context.
    """

    hidden: "Operator"
    factor: Tensor
    shift: Tensor


class PolynomialMaps(NamedTuple):
    """φ(z) = rowsᵀ m(z), and testᵀ ẋ as the rate of z, in physical units.

    Attributes:
        monomials: m (..., K), 1 first.
        rows: (..., K, n).
        test: (..., n, m).
        decoder: the monomials beside 1, and the last layer, as steps of a network.
    """

    monomials: Monomials
    rows: Tensor
    test: Tensor
    decoder: tuple[Callable, Callable]


class Operator:
    """P = φ ∘ ρ at a fixed context, in physical units. The hyper-network has run; calls are cheap.

    Shapes: states x (..., n), latents z (..., m), contexts (..., p); leading axes match from the
    left, seeds first, then contexts, then samples. A state with fewer axes than the context is
    evaluated at each context. `encode`, `decode` and the operator itself also take NumPy arrays,
    DataArrays and datasets, and return such. Of data in chunks of dask the result is in chunks too,
    and nothing is read until it is computed; chunks along the components are joined, unless there
    is a basis in front.

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
        frame: Frame,
        maps: EncoderDecoder,
        context: Tensor,
        latent_dim: Count,
        seeds: Count | None = None,
        at: Callable[[Tensor], EncoderDecoder]
        | None = None,  # `Projection.at`, for parts of the contexts
    ):
        self._frame, self._maps, self._seeds, self._at = frame, maps, seeds, at
        self.context, self.state_size, self.latent_dim = context, len(frame.state_names), latent_dim
        self._dtype, lead = frame.state_std.dtype, context.shape[:-1]
        self._lead = lead if seeds is None else (seeds, *lead[1:])

    def __repr__(self) -> str:
        names, number = self._frame.context_names, self.context.shape[:-1].numel()
        at = f"; {number} contexts of {', '.join(names)}" if names else ""
        if names and number == 1:
            one = zip(names, self.context.flatten().tolist(), strict=True)
            at = f"; {', '.join(f'{name}={value:.6g}' for name, value in one)}"
        return f"Operator({self.latent_dim} latent of {self.state_size} components{at})"

    def encode(self, x: Tensor) -> Tensor:
        """z = ρ(x): (..., n) -> (..., m). Of a dataset or DataArray: a DataArray along
        `latent_component`.
        """
        if not torch.is_tensor(x):
            return self._labelled("encode", x)
        x = self._checked("x", x, self.state_size)
        return self._maps.encode(self._frame.normalise(x))

    def decode(self, z: Tensor) -> Tensor:
        """x = φ(z): (..., m) -> (..., n). Of a DataArray: a dataset of the state's variables in
        their dimensions.
        """
        if not torch.is_tensor(z):
            return self._labelled("decode", z)
        z = self._checked("z", z, self.latent_dim)
        return self._frame.denormalise(self._maps.decode(z))

    def __call__(self, x: Tensor) -> Tensor:
        """P(x) = φ(ρ(x)); P(P(x)) = P(x) for every constrained projection."""
        if not torch.is_tensor(x):
            return self._labelled("__call__", x)
        return self.decode(self.encode(x))

    def encode_jvp(self, x: Tensor, v: Tensor) -> Dual:
        """ρ(x) and Dρ(x) v, each (..., m)."""
        x, v = self._checked("x", x, self.state_size), self._checked("v", v, self.state_size)
        return self._maps.encode_jvp(self._frame.normalise(x), self._frame.normalise_tangent(v))

    def decode_jvp(self, z: Tensor, w: Tensor) -> Dual:
        """φ(z) and Dφ(z) w, each (..., n)."""
        z, w = self._checked("z", z, self.latent_dim), self._checked("w", w, self.latent_dim)
        y, dy = self._maps.decode_jvp(z, w)
        return Dual(self._frame.denormalise(y), self._frame.denormalise_tangent(dy))

    def jvp(self, x: Tensor, v: Tensor) -> Dual:
        """P(x) and DP(x) v, each (..., n)."""
        return self.decode_jvp(*self.encode_jvp(x, v))

    def decode_jacobian(self, z: Tensor) -> Dual:
        """φ(z) (..., n) and Dφ(z) (..., n, m)."""
        z = self._checked("z", z, self.latent_dim)
        directions = torch.eye(self.latent_dim, dtype=z.dtype, device=z.device).expand(*z.shape, -1)
        y, columns = self._maps.decode_jvp(z.unsqueeze(-2), directions)
        x = self._frame.denormalise(y).squeeze(-2)
        return Dual(x, self._frame.denormalise_tangent(columns).mT)

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        """D²φ(z)(w, w) (..., n): the acceleration of a point that moves at constant w in latent
        coordinates.
        """
        z, w = self._checked("z", z, self.latent_dim), self._checked("w", w, self.latent_dim)
        return self._frame.denormalise_tangent(self._maps.decode_curvature(z, w))

    def last_layer(self) -> LastLayer | None:
        """The last layer of the decoder, where it is affine; None elsewhere, and for a stack."""
        split = self._maps.last_layer()
        if split is None or self._seeds is not None:
            return None
        (maps, weight, shift), frame = split, self._frame
        hidden = self.of_hidden(maps, weight.shape[-2])
        return LastLayer(hidden, frame.denormalise_tangent(weight).mT, frame.denormalise(shift))

    def of_hidden(self, maps: EncoderDecoder, size: int) -> "Operator":
        """Operator of maps to this number of units in place of the state, at the same contexts."""
        frame = self._frame
        units = [f"a{k}" for k in range(size)]
        of_units = Frame(
            frame.system, units, ["1"] * size, frame.context_names, frame.context_units
        )
        return Operator(of_units.to(frame.state_std), maps, self.context, self.latent_dim)

    def polynomial(self) -> PolynomialMaps | None:
        """The maps where the decoder is a polynomial and the encoder linear; None elsewhere, and
        for a stack.
        """
        maps = self._maps.polynomial()
        if maps is None or self._seeds is not None:
            return None
        monomials, weight, dual = maps
        frame = self._frame
        constant = frame.denormalise(weight[..., :1, :])
        rows = torch.cat([constant, frame.denormalise_tangent(weight[..., 1:, :])], dim=-2)
        unit = torch.eye(self.state_size, dtype=dual.dtype, device=dual.device)
        test = frame.normalise_tangent(unit) @ dual  # (..., n, m)
        return PolynomialMaps(monomials, rows, test, tuple(self._maps.decoder))

    def _checked(self, name: str, x: Tensor, size: int) -> Tensor:
        """x (..., size) in the precision of the projection; cheap, since fields call operators in
        loops.
        """
        usable = isinstance(x, Tensor) and x.dtype is self._dtype and x.layout is torch.strided
        if not usable or (x.is_meta and not tensors.recording()):
            x = _converted(name, x, self._dtype)
        if x.shape[-1:] == (size,) and self._leads(x.shape[:-1]):
            return x
        raise self._misshapen(name, x, size)

    def _leads(self, lead: tuple[int, ...]) -> bool:
        """Whether leading axes match those of the contexts from the left."""
        for number, of_context in zip(lead, self._lead, strict=False):
            if number != of_context and 1 not in (number, of_context):
                return False
        return True

    def _misshapen(self, name: str, x: Tensor, size: int) -> InputError:
        """Error about a tensor of another shape."""
        meaning = "state components" if size == self.state_size else "latent coordinates"
        checks.last_axis(name, x.shape, size, meaning)
        if self._seeds is not None and len(x) not in (1, self._seeds):
            expected = f"shape ({self._seeds} or 1, ..., {size}) for a stack of seeds"
            fix = "unsqueeze(0) what they share"
        else:
            lead = ", ".join(map(str, self._lead))
            expected = f"shape ({lead}, ..., {size}), {meaning}, as the contexts"
            fix = "leading axes match from the left: contexts, then samples"
        return InputError(name, expected=expected, got=f"shape {tuple(x.shape)}", fix=fix)

    # -- arrays and labelled data: peeled here, so that everything above sees tensors -------------------------------

    def _labelled(
        self, method: str, given: object
    ) -> np.ndarray | da.Array | xr.DataArray | xr.Dataset:
        """`encode`, `decode` or `__call__` of an array or labelled data, in their precision and
        with labels.
        """
        if isinstance(given, np.ndarray | da.Array):
            return self._array(method, given)
        array = _latents(given) if method == "decode" else _states(given, self._frame.fields)
        array = array.transpose("seed", *DIMS[:2], ..., array.dims[-1], missing_dims="ignore")
        values, (*lead, last) = array.data, array.dims
        coords = {name: coord for name, coord in array.coords.items() if last not in coord.dims}
        if self._seeds is not None and lead[:1] != ["seed"]:
            values, lead = values[None], ["seed", *lead]
        values = self._array(method, values)
        if method == "encode":
            attrs = {"long_name": "latent state"}
            return xr.DataArray(values, coords, (*lead, LATENT), "latent", attrs)
        if method == "__call__" and _is_plain(given):
            return _like(given, values, lead, coords)
        return self._scattered(given, values, lead, coords)

    def _scattered(
        self, given: xr.DataArray | xr.Dataset, values: object, lead: list[str], coords: dict
    ) -> xr.DataArray | xr.Dataset:
        """States as variables of the layout: one where an array of states was given."""
        layout = self._frame.fields
        variables = layout.scatter(values, lead, coords)
        # a DataArray that was decoded has latents, and states of several variables
        is_state = isinstance(given, xr.DataArray) and LATENT not in given.dims
        return variables[layout.variables[0].name] if is_state else variables

    def _array(self, method: str, values: np.ndarray | da.Array) -> np.ndarray | da.Array:
        """`encode`, `decode` or `__call__` of an array, in its precision."""
        dtype = values.dtype if values.dtype.kind == "f" else np.float64
        name = "z" if method == "decode" else "x"
        if isinstance(values, np.ndarray):
            result = self._of_numbers(method, tensors.tensor(name, values).to(self._dtype))
            return result.numpy().astype(dtype, copy=False)
        if method == "__call__":
            return self._array("decode", self._array("encode", values))
        if method == "encode":
            given, made, meaning = self.state_size, self.latent_dim, "states"
        else:
            given, made, meaning = self.latent_dim, self.state_size, "latents"
        check_chunks(name, meaning, values.shape)
        # refuses now what a chunk would refuse when it is computed
        self._checked(name, torch.empty((), dtype=self._dtype).expand(values.shape), given)
        P, basis = self, self._frame.basis
        if basis is not None and method == "encode":
            frame = self._frame.of_coordinates()
            P = Operator(frame, self._maps, self.context, self.latent_dim, self._seeds, self._at)
            values = basis.of_chunks(values, basis.mean.numpy())
        return P.in_chunks(getattr(Operator, method), values, made).astype(dtype)

    @torch.no_grad()
    def _of_numbers(self, method: str, x: Tensor) -> Tensor:
        """`encode`, `decode` or `__call__`; states with gaps by what is there, where maps take such."""
        if method == "decode" or not self._maps.takes_gaps or not bool(x.isnan().any()):
            return getattr(self, method)(x)
        z = self._encoded_with_gaps(x)
        return z if method == "encode" else self.decode(z)

    def _encoded_with_gaps(self, x: Tensor) -> Tensor:
        """z (..., m) of states (..., n) of which components are NaN."""
        frame, missing = self._frame, x.isnan()
        mean = frame.denormalise(torch.zeros_like(frame.state_shift))
        start = self.encode(torch.where(missing, mean, x))
        if not bool(missing.any()):
            return start
        std = frame.state_std

        def decode_jacobian(z: Tensor) -> Dual:
            image, J = self.decode_jacobian(z)
            return Dual(image / std, J / std.unsqueeze(-1))

        # in deviations of the components, so that units do not weigh them
        nearest = encoded(x / std, start, decode_jacobian)
        return torch.where(missing.any(-1, keepdim=True), nearest, start)

    def in_chunks(self, function: "OfChunk", values: da.Array, size: Count) -> da.Array:
        """function(P, x) (..., size) of chunks x (..., k) of dask, with P at the contexts of each;
        of k all in one.
        """
        # dask cuts no axis without entries
        c = np.insert(self.context.numpy(force=True), 0, 0.0, axis=-1)
        if self._seeds is not None:
            c = np.broadcast_to(c, (self._seeds, *c.shape[1:]))
            values = values.rechunk({0: -1})
        axes = max(values.ndim, c.ndim)
        x, c = _with_axes(values, axes), _with_axes(c, axes)
        chunks = []
        for number, of_states, cut in zip(c.shape[:-1], x.shape, x.chunks, strict=False):
            chunks.append(cut if number == of_states else -1)
        c = da.from_array(c, chunks=(*chunks, -1))
        make = functools.partial(
            Operator, self._frame, latent_dim=self.latent_dim, seeds=self._seeds
        )
        frame, at, axes = self._frame, self._at, self.context.ndim

        # contexts and operators are no entries of the graph: threads would go through all chunks
        # that wait for the same entry before they go on with one, and keep them
        def of_chunk(x: np.ndarray, c: np.ndarray) -> np.ndarray:
            c = c.reshape(*c.shape[: axes - 1], -1)[..., 1:]  # less axes of size 1 and the zero
            c = torch.from_numpy(c)
            with one_thread(), torch.no_grad():
                return function(make(maps=at(frame.normalise_context(c)), context=c), x)

        how = {"output_sizes": {"k": size}, "output_dtypes": values.dtype, "allow_rechunk": True}
        return da.apply_gufunc(of_chunk, "(n),(p)->(k)", x, c, **how)


def _with_axes(values: np.ndarray | da.Array, axes: int) -> np.ndarray | da.Array:
    """Values with axes of size one before the last, so many in all."""
    return values[(..., *[None] * (axes - values.ndim), slice(None))]


OfChunk = Callable[[Operator, np.ndarray], np.ndarray]


def _converted(name: str, value: object, dtype: torch.dtype) -> Tensor:
    """A tensor in this precision, if nothing is lost by it."""
    if not torch.is_tensor(value):
        fix = "use torch.from_numpy; encode and decode take arrays and datasets as well"
        raise InputError(name, expected="a tensor", got=checks.shown(value), fix=fix)
    if value.dtype == torch.float64 and dtype == torch.float32:
        fix = f"give {name}.float(), or make the projection double: projection.double()"
        raise InputError(name, expected="float32, as the projection", got="float64", fix=fix)
    return tensors.tensor(name, value).to(dtype)


LATENT, FULL = "latent_component", "component"


def _latents(z: object) -> xr.DataArray:
    """Latents along the last axis."""
    if not isinstance(z, xr.DataArray) or LATENT not in z.dims:
        got, fix = type(z).__name__, "give a tensor, an array, or what encode returned"
        raise InputError("z", expected=f"latents along {LATENT!r}", got=got, fix=fix)
    return z.transpose(..., LATENT)


def _states(x: object, layout: Layout) -> xr.DataArray:
    """States of romkit's schema, or of variables of the user's own in the dimensions of the layout."""
    if not isinstance(x, xr.DataArray | xr.Dataset):
        got, fix = type(x).__name__, "give a tensor, an array, or a dataset"
        raise InputError("x", expected="states", got=got, fix=fix)
    if _is_plain(x):
        return _plain_states(x, layout)
    first = layout.variables[0].name
    data = x.to_dataset(name=first) if isinstance(x, xr.DataArray) else x
    if first not in data:
        got = f"variables {sorted(map(str, data.data_vars))}"
        fix = "give data like those of the training"
        raise InputError("x", expected=f"a variable {first!r}", got=got, fix=fix)
    places = {dim for variable in layout.variables for dim in variable.dims}
    lead = [dim for dim in data[first].dims if dim not in places]
    coords = {name: c for name, c in data.coords.items() if set(c.dims) <= set(lead)}
    return xr.DataArray(layout.gather(data, lead), coords, (*lead, FULL))


def _plain_states(x: xr.DataArray | xr.Dataset, layout: Layout) -> xr.DataArray:
    """States of romkit's schema."""
    check_components("x", x, layout.names)
    if isinstance(x, xr.DataArray):
        return x.transpose(..., FULL)
    check_grid(x, layout)
    return x["state"].transpose(..., FULL)


def _like(
    given: xr.DataArray | xr.Dataset, values: object, lead: list[str], coords: dict
) -> xr.DataArray | xr.Dataset:
    """States of romkit's schema with the labels of those that were given."""
    along = {name: coord for name, coord in given.coords.items() if coord.dims == (FULL,)}
    labels = {**coords, **along}
    if isinstance(given, xr.DataArray):
        return xr.DataArray(values, labels, (*lead, FULL), "state", given.attrs)
    state = xr.DataArray(values, labels, (*lead, FULL), "state", given["state"].attrs)
    return state.to_dataset().assign_attrs(given.attrs)


def _is_plain(x: xr.DataArray | xr.Dataset) -> bool:
    """Whether states are in romkit's schema."""
    return FULL in x.dims and (isinstance(x, xr.DataArray) or "state" in x)
