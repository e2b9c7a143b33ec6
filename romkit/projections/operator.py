"""Projection operator at one context, on tensors and on labelled arrays."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core.boundary import Count, unchecked, validated
from romkit.core.errors import InputError
from romkit.core.polynomials import Monomials
from romkit.core.types import Array, Chunked, Dual, Operation, Shape
from romkit.data import DIMS
from romkit.data.schema import check_chunks
from romkit.engine.threads import one_thread
from romkit.projections.frame import Frame
from romkit.projections.gaps import encoded
from romkit.projections.labels import LATENT, is_plain, label_alike, label_latents, label_states
from romkit.projections.maps import EncoderDecoder


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
    decoder: tuple[Operation, Operation]


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

    @validated
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
        self._frame = frame
        self._maps = maps
        self._seeds = seeds
        self._at = at
        self.context = context
        self.state_size = len(frame.state_names)
        self.latent_dim = latent_dim
        self._dtype = frame.state_std.dtype
        self._lead = context.shape[:-1]
        if seeds is not None:
            self._lead = (seeds, *self._lead[1:])

    def __repr__(self) -> str:
        sizes = f"{self.latent_dim} latent of {self.state_size} components"
        return f"Operator({sizes}{self._at_contexts()})"

    def _at_contexts(self) -> str:
        """Return the context in words: its values, or how many there are."""
        names = self._frame.context_names
        number = self.context.shape[:-1].numel()
        if not names:
            return ""
        if number != 1:
            return f"; {number} contexts of {', '.join(names)}"
        values = []
        for name, value in zip(names, self.context.flatten().tolist(), strict=True):
            values.append(f"{name}={value:.6g}")
        return f"; {', '.join(values)}"

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
        x = self._checked("x", x, self.state_size)
        v = self._checked("v", v, self.state_size)
        y = self._frame.normalise(x)
        return self._maps.encode_jvp(y, self._frame.normalise_tangent(v))

    def decode_jvp(self, z: Tensor, w: Tensor) -> Dual:
        """φ(z) and Dφ(z) w, each (..., n)."""
        z = self._checked("z", z, self.latent_dim)
        w = self._checked("w", w, self.latent_dim)
        y, dy = self._maps.decode_jvp(z, w)
        return Dual(self._frame.denormalise(y), self._frame.denormalise_tangent(dy))

    def jvp(self, x: Tensor, v: Tensor) -> Dual:
        """P(x) and DP(x) v, each (..., n)."""
        return self.decode_jvp(*self.encode_jvp(x, v))

    def decode_jacobian(self, z: Tensor) -> Dual:
        """φ(z) (..., n) and Dφ(z) (..., n, m)."""
        y, J = self._maps.decode_jacobian(self._checked("z", z, self.latent_dim))
        return Dual(self._frame.denormalise(y), self._frame.denormalise_tangent(J.mT).mT)

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        """D²φ(z)(w, w) (..., n): the acceleration of a point that moves at constant w in latent
        coordinates.
        """
        z = self._checked("z", z, self.latent_dim)
        w = self._checked("w", w, self.latent_dim)
        return self._frame.denormalise_tangent(self._maps.decode_curvature(z, w))

    def last_layer(self) -> LastLayer | None:
        """Return the last layer of the decoder, where it is affine; None elsewhere, and for a
        stack.
        """
        split = self._maps.last_layer()
        if split is None or self._seeds is not None:
            return None
        maps, weight, shift = split
        return LastLayer(
            self.resize_operator(maps, weight.shape[-2]),
            self._frame.denormalise_tangent(weight).mT,
            self._frame.denormalise(shift),
        )

    def resize_operator(self, maps: EncoderDecoder, size: int) -> "Operator":
        """Operator of maps to this number of units in place of the state, at the same contexts."""
        frame = self._frame
        of_units = Frame(
            frame.system,
            [f"a{k}" for k in range(size)],
            ["1"] * size,
            frame.context_names,
            frame.context_units,
        )
        of_units = of_units.to(frame.state_std)
        return unchecked(Operator)(of_units, maps, self.context, self.latent_dim)

    def polynomial(self) -> PolynomialMaps | None:
        """Return the maps where the decoder is a polynomial and the encoder linear; None elsewhere,
        and for a stack.
        """
        maps = self._maps.polynomial()
        if maps is None or self._seeds is not None:
            return None
        monomials, weight, dual = maps
        frame = self._frame
        constant = frame.denormalise(weight[..., :1, :])
        varying = frame.denormalise_tangent(weight[..., 1:, :])
        rows = torch.cat([constant, varying], dim=-2)  # (..., K, n)
        unit = torch.eye(self.state_size, dtype=dual.dtype, device=dual.device)
        test = frame.normalise_tangent(unit) @ dual  # (..., n, m)
        return PolynomialMaps(monomials, rows, test, tuple(self._maps.decoder))

    def _checked(self, name: str, x: Tensor, size: int) -> Tensor:
        """x (..., size) in the precision of the projection; cheap, since fields call operators in
        loops.
        """
        if not self._usable(x):
            # a tensor in this precision, if nothing is lost by it
            if not torch.is_tensor(x):
                raise InputError(
                    name,
                    expected="a tensor",
                    got=checks.shown(x),
                    fix="use torch.from_numpy; encode and decode take arrays and datasets as well",
                )
            if x.dtype == torch.float64 and self._dtype == torch.float32:
                raise InputError(
                    name,
                    expected="float32, as the projection",
                    got="float64",
                    fix=f"give {name}.float(), or make the projection double: projection.double()",
                )
            x = tensors.tensor(name, x).to(self._dtype)
        if x.shape[-1:] != (size,):
            raise self._misshapen(name, x, size)
        if not self._leads(x.shape[:-1]):
            raise self._misshapen(name, x, size)
        return x

    def _usable(self, x: object) -> bool:
        """Tell whether a value is a tensor of numbers in the precision of the projection."""
        if not isinstance(x, Tensor) or x.dtype is not self._dtype:
            return False
        if x.layout is not torch.strided:
            return False
        return not x.is_meta or tensors.recording()

    def _leads(self, lead: Shape) -> bool:
        """Tell whether leading axes match those of the contexts from the left."""
        for number, of_context in zip(lead, self._lead, strict=False):
            spreads = 1 in (number, of_context)
            if number != of_context and not spreads:
                return False
        return True

    def _misshapen(self, name: str, x: Tensor, size: int) -> InputError:
        """Return error about a tensor of another shape."""
        meaning = "latent coordinates"
        if size == self.state_size:
            meaning = "state components"
        checks.last_axis(name, x.shape, size, meaning)
        got = f"shape {tuple(x.shape)}"
        if self._seeds is not None and len(x) not in (1, self._seeds):
            return InputError(
                name,
                expected=f"shape ({self._seeds} or 1, ..., {size}) for a stack of seeds",
                got=got,
                fix="unsqueeze(0) what they share",
            )
        lead = ", ".join(map(str, self._lead))
        return InputError(
            name,
            expected=f"shape ({lead}, ..., {size}), {meaning}, as the contexts",
            got=got,
            fix="leading axes match from the left: contexts, then samples",
        )

    # -- arrays and labelled data: peeled here, so that everything above sees tensors -------------------------------

    def _labelled(self, method: str, given: object) -> Array | Chunked | xr.DataArray | xr.Dataset:
        """`encode`, `decode` or `__call__` of an array or labelled data, in their precision and
        with labels.
        """
        if isinstance(given, Array | Chunked):
            return self._array(method, given)
        array = self._coordinates(method, given)
        values = array.data
        *lead, dim = array.dims
        coords = {name: coord for name, coord in array.coords.items() if dim not in coord.dims}
        if self._seeds is not None and "seed" not in lead[:1]:
            values = values[None]
            lead = ["seed", *lead]
        values = self._array(method, values)
        if method == "encode":
            dims = (*lead, LATENT)
            attrs = {"long_name": "latent state"}
            return xr.DataArray(values, coords, dims, "latent", attrs)
        if method == "__call__" and is_plain(given):
            return label_alike(given, values, lead, coords)
        layout = self._frame.fields
        variables = layout.scatter(values, lead, coords)
        # a DataArray that was decoded has latents, and states of several variables
        if isinstance(given, xr.DataArray) and LATENT not in given.dims:
            return variables[layout.variables[0].name]
        return variables

    def _coordinates(self, method: str, given: object) -> xr.DataArray:
        """Latents or states of labelled data: seeds, trajectories and times first, coordinates last."""
        if method == "decode":
            array = label_latents(given)
        else:
            array = label_states(given, self._frame)
        dim = array.dims[-1]
        return array.transpose("seed", *DIMS[:2], ..., dim, missing_dims="ignore")

    def _array(self, method: str, values: Array | Chunked) -> Array | Chunked:
        """`encode`, `decode` or `__call__` of an array, in its precision."""
        dtype = np.float64
        if values.dtype.kind == "f":
            dtype = values.dtype
        if isinstance(values, Array):
            name = "z" if method == "decode" else "x"
            numbers = tensors.tensor(name, values).to(self._dtype)
            return self._apply_numbers(method, numbers).numpy().astype(dtype, copy=False)
        if method != "decode":
            values = self._encoded_chunks(values)
        if method != "encode":
            # states (..., n) of latents (..., m) in chunks
            self._check_chunks("z", "latents", values, self.latent_dim)
            values = self.in_chunks(Operator.decode, values, self.state_size)
        return values.astype(dtype)

    def _encoded_chunks(self, states: Chunked) -> Chunked:
        """Latents (..., m) of states (..., n) in chunks."""
        self._check_chunks("x", "states", states, self.state_size)
        P = self
        basis = self._frame.basis
        if basis is not None:
            frame = self._frame.of_coordinates()
            P = unchecked(Operator)(
                frame, self._maps, self.context, self.latent_dim, self._seeds, self._at
            )
            states = basis.project_chunks(states, basis.mean.numpy())
        return P.in_chunks(Operator.encode, states, self.latent_dim)

    def _check_chunks(self, name: str, meaning: str, values: Chunked, size: int) -> None:
        """Raise unless an array in chunks has a shape that `_checked` takes."""
        check_chunks(name, meaning, values.shape)
        self._checked(name, torch.empty((), dtype=self._dtype).expand(values.shape), size)

    @torch.no_grad()
    def _apply_numbers(self, method: str, x: Tensor) -> Tensor:
        """`encode`, `decode` or `__call__`; states with gaps by what is there, where maps take such."""
        takes_gaps = method != "decode" and self._maps.takes_gaps
        if not takes_gaps or not bool(x.isnan().any()):
            return getattr(self, method)(x)
        z = self._encode_incomplete(x)
        if method == "encode":
            return z
        return self.decode(z)

    def _encode_incomplete(self, x: Tensor) -> Tensor:
        """z (..., m) of states (..., n) of which components are NaN."""
        missing = x.isnan()
        frame = self._frame
        std = tensors.divisor(self._frame.state_std)
        mean = frame.denormalise(torch.zeros_like(frame.state_shift))
        start = self.encode(torch.where(missing, mean, x))
        if not bool(missing.any()):
            return start

        def decode_jacobian(z: Tensor) -> Dual:
            image, J = self.decode_jacobian(z)
            return Dual(image / std, J / std.unsqueeze(-1))

        # in deviations of the components, so that units do not weigh them
        nearest = encoded(x / std, start, decode_jacobian)
        return torch.where(missing.any(-1, keepdim=True), nearest, start)

    def in_chunks(self, function: "OfChunk", values: Chunked, size: Count) -> Chunked:
        """function(P, x) (..., size) of chunks x (..., k) of dask, with P at the contexts of each;
        of k all in one.
        """
        if self._seeds is not None:
            values = values.rechunk({0: -1})
        x, c = self._append_contexts(values)
        frame = self._frame
        at = self._at
        axes = self.context.ndim
        make = functools.partial(Operator, frame, latent_dim=self.latent_dim, seeds=self._seeds)

        import dask.array as da  # slow to import, and seldom needed

        # contexts and operators are no entries of the graph: threads would go through all chunks
        # that wait for the same entry before they go on with one, and keep them
        def apply_chunk(x: Array, c: Array) -> Array:
            lead = c.shape[: axes - 1]
            c = c.reshape(*lead, -1)[..., 1:]  # less axes of size 1 and the zero
            c = torch.from_numpy(c)
            with one_thread(), torch.no_grad():
                return function(make(maps=at(frame.normalise_context(c)), context=c), x)

        return da.apply_gufunc(
            apply_chunk,
            "(n),(p)->(k)",
            x,
            c,
            output_sizes={"k": size},
            output_dtypes=values.dtype,
            allow_rechunk=True,
        )

    def _append_contexts(self, values: Chunked) -> tuple[Chunked, Chunked]:
        """Return values (..., k), and the contexts (..., 1 + p), a zero first, in chunks that match
        them.
        """
        import dask.array as da  # slow to import, and seldom needed

        # dask cuts no axis without entries
        c = np.insert(self.context.numpy(force=True), 0, 0.0, axis=-1)
        if self._seeds is not None:
            c = np.broadcast_to(c, (self._seeds, *c.shape[1:]))
        axes = max(values.ndim, c.ndim)
        x = _expanded(values, axes)
        c = _expanded(c, axes)
        chunks = []
        for number, of_states, cut in zip(c.shape[:-1], x.shape, x.chunks, strict=False):
            # a context that many states share goes with every chunk of them
            chunks.append(cut if number == of_states else -1)
        return x, da.from_array(c, chunks=(*chunks, -1))


def _expanded(values: Array | Chunked, axes: int) -> Array | Chunked:
    """Return values with axes of size one before the last, so many in all."""
    return values[(..., *[None] * (axes - values.ndim), slice(None))]


OfChunk = Callable[[Operator, Array], Array]
