"""The one interface: a projection, called with a context, gives the projection operator at that context."""

import abc
import copy
import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from romkit import arrays, checks
from romkit.arrays import Axes
from romkit.bases import Basis
from romkit.boundary import Count, Hooks, checked, hook
from romkit.converters import anything
from romkit.data import Layout, context_array, context_names, is_declared
from romkit.data.context import one_context, only_one
from romkit.errors import InputError
from romkit.projections import labelled
from romkit.projections.described import Described
from romkit.projections.maps import EncoderDecoder
from romkit.projections.normalization import BasisNormalization, Normalization
from romkit.types import Dual


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


Given = Annotated[Tensor, anything]
"""What the methods of an operator look at themselves: tensors at once, and anything with labels."""


@hook
class Operator:
    """P = φ ∘ ρ at a fixed context, in physical units. The hyper-network has run; calls are cheap.

    Shapes: states x (..., n), latents z (..., m), contexts (..., p); leading axes match from the left, seeds
    first, then contexts, then samples. A state with fewer axes than the context is evaluated at each context.
    `encode`, `decode` and the operator itself also take NumPy arrays, DataArrays and datasets, and return such.

    Attributes:
        context: (..., p) in physical units.
        state_size, latent_dim: n and m.
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

    @hook
    def encode(self, x: Given) -> Tensor:
        """z = ρ(x): (..., n) -> (..., m). Of a dataset or DataArray: a DataArray along `latent_component`."""
        if not torch.is_tensor(x):
            return labelled.encoded(self.encode, *self._labels, x)
        x = self._given("x", x, self.state_size)
        return self._maps.encode(self._normalization.normalise(x))

    @hook
    def decode(self, z: Given) -> Tensor:
        """x = φ(z): (..., m) -> (..., n). Of a DataArray: a dataset of the state's variables in their dimensions."""
        if not torch.is_tensor(z):
            return labelled.decoded(self.decode, *self._labels, z)
        z = self._given("z", z, self.latent_dim)
        return self._normalization.denormalise(self._maps.decode(z))

    @hook
    def __call__(self, x: Given) -> Tensor:
        """P(x) = φ(ρ(x)); P(P(x)) = P(x) for every constrained projection."""
        if not torch.is_tensor(x):
            return labelled.projected(self, *self._labels, x)
        return self.decode(self.encode(x))

    @hook
    def encode_jvp(self, x: Given, v: Given) -> Dual:
        """ρ(x) and Dρ(x) v, each (..., m)."""
        x, v = self._pair(("x", "v"), x, v, self.state_size)
        return self._maps.encode_jvp(self._normalization.normalise(x), self._normalization.normalise_tangent(v))

    @hook
    def decode_jvp(self, z: Given, w: Given) -> Dual:
        """φ(z) and Dφ(z) w, each (..., n)."""
        return self._decode_jvp(*self._pair(("z", "w"), z, w, self.latent_dim))

    @hook
    def jvp(self, x: Given, v: Given) -> Dual:
        """P(x) and DP(x) v, each (..., n)."""
        return self._decode_jvp(*self.encode_jvp(x, v))

    @hook
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

    @hook
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
        if not known or (value.is_meta and not arrays.recording()):
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
            arrays.broadcast(**dict(zip(names, found, strict=True)))
        return found


def _converted(name: str, value: object, dtype: torch.dtype) -> Tensor:
    """In this precision, if nothing is lost by it; NumPy arrays and datasets are converted both ways."""
    if not torch.is_tensor(value):
        got, fix = checks.shown(value), "use torch.from_numpy; encode and decode take arrays and datasets as well"
        raise InputError(name, expected="a tensor", got=got, fix=fix)
    if value.dtype == torch.float64 and dtype == torch.float32:
        fix = f"give {name}.float(), or make the projection double: projection.double()"
        raise InputError(name, expected="float32, as the projection", got="float64", fix=fix)
    return arrays.tensor(name, value).to(dtype)


Context = Annotated[Tensor, Axes("normalization.signature.context_names", like="normalization.context_shift")]
Rows = Annotated[Tensor, Axes(None, "normalization.size", only=True)]


class Projection(Hooks, nn.Module, Described):
    """A family of projection operators indexed by a context: `projection(F=3.15)` is the operator at F = 3.15.

    A subclass implements `at`, sets `latent_dim`, and gives in `config` the arguments that rebuild it.

    A projection may hold a stack of independent models: every parameter then has a leading seed axis, and so
    must states, latents and context tensors (of size 1 where all seeds share them). See `romkit.projections.stack`.

    Attributes:
        name: what `romkit.fit` calls the method.
        normalization: names, units and scaling.
        latent_dim: m.
        idempotent: whether ρ ∘ φ = id, and so P ∘ P = P, holds by construction at every context.
        report: what training recorded (recipe, seed, losses, versions), empty before.
    """

    name: ClassVar[str]
    idempotent: ClassVar[bool] = False
    latent_dim: int

    def __init__(self, normalization: Normalization, config: dict[str, object]):
        super().__init__()
        self.normalization = normalization
        self.config = config
        self.report: dict[str, object] = {}
        self.seeds: int | None = None

    @property
    def basis(self) -> Basis | None:
        """The basis in front, whose coordinates the maps see; None without one."""
        return self.normalization.basis

    @checked
    def behind(self, normalization: BasisNormalization) -> "Projection":
        """A projection of coordinates as one of full states: with the basis of a normalization in front."""
        full = copy.deepcopy(self)
        full.normalization = normalization
        return full

    def of_coordinates(self) -> "Projection":
        """The projection behind the basis, of the coordinates in it; the projection itself where there is none."""
        if self.basis is None:
            return self
        inner = copy.deepcopy(self)
        inner.normalization = inner.normalization.inner
        return inner

    @classmethod
    def with_sizes(cls, **sizes: object) -> functools.partial:
        """The method with its sizes, for `romkit.fit`: `NcAE.with_sizes(layers=(2, 24, 36))`."""
        return functools.partial(cls, **sizes)

    @hook
    @abc.abstractmethod
    def at(self, c: Context) -> EncoderDecoder:
        """The maps at a context c (..., p) in normalised coordinates."""

    @hook
    def penalty(self, maps: EncoderDecoder) -> Tensor:
        """A term that training adds to the loss (one value per seed) for maps from `at`: zero unless needed."""
        return torch.zeros(())

    @hook
    def initialise(self, y: Rows) -> None:
        """Hook: called once before training with the snapshots y (N, n) in normalised coordinates."""

    def forward(self, context: Tensor | xr.Dataset | None = None, **named: object) -> Operator:
        """The operator at a context, given by name, as a tensor (..., p), or as a dataset with context coordinates.

        Raises:
            InputError: a name is unknown or missing, the last axis is not p, or numbers that are not finite.
        """
        return self.operator(self._context(context, named))

    @hook
    def operator(self, c: Context) -> Operator:
        """The operator at a context c (..., p) in physical units; for loops and compilers."""
        maps = self.at(self.normalization.normalise_context(c))
        return Operator(self.normalization, maps, c, self.latent_dim, self.seeds)

    if TYPE_CHECKING:  # nn.Module says that a call gives Any

        def __call__(self, context: Tensor | xr.Dataset | None = None, **named: object) -> Operator: ...

    def _context(self, context: object, named: dict[str, object]) -> Tensor:
        names, like = self.normalization.signature.context_names, self.normalization.context_shift
        only_one(context, named)
        if isinstance(context, xr.Dataset):
            return self._shared(torch.as_tensor(_of_dataset(context, names), dtype=like.dtype, device=like.device))
        if context is not None:
            return one_context(context, names).to(like)
        return self._shared(torch.as_tensor(context_array(names, named), dtype=like.dtype, device=like.device))

    def _shared(self, c: Tensor) -> Tensor:
        return c if self.seeds is None else c.unsqueeze(0)


def _of_dataset(data: xr.Dataset, names: tuple[str, ...]) -> np.ndarray:
    """Context (trajectories, p), or (trajectories, times, p), of a dataset, by the names that a projection knows."""
    found = context_names(data)
    if set(found) != set(names) and (is_declared(data) or not set(names) <= set(map(str, data.variables))):
        raise InputError("context", expected=f"coordinates {names}", got=str(found), fix="use matching data")
    if not names:
        return np.zeros((data.sizes.get("trajectory", 1), 0))
    columns = xr.broadcast(*(data[name] for name in names))
    return np.stack([column.transpose("trajectory", "time", ..., missing_dims="ignore") for column in columns], axis=-1)
