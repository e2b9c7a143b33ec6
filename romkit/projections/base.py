"""The one interface: a projection, called with a context, gives the projection operator at that context."""

import abc
import copy
import functools
from typing import TYPE_CHECKING, Annotated, ClassVar

import torch
import xarray as xr
from torch import Tensor, nn

from romkit.arrays import Axes
from romkit.bases import Basis
from romkit.boundary import Hooks, checked, hook
from romkit.data import context_array
from romkit.data.context import context_columns, one_context, only_one
from romkit.data.matching import check_context
from romkit.errors import InputError
from romkit.projections.described import Described
from romkit.projections.maps import EncoderDecoder
from romkit.projections.normalization import BasisNormalization, Normalization
from romkit.projections.operator import Operator

Context = Annotated[Tensor, Axes("normalization.signature.context_names", like="normalization.context_shift")]
Rows = Annotated[Tensor, Axes(None, "normalization.size", only=True)]


class Projection(Hooks, Described, nn.Module):
    """A family of projection operators indexed by a context: `projection(F=3.15)` is the operator at F = 3.15.

    A subclass implements `at`, sets `latent_dim`, and gives in `config` the arguments that rebuild it.

    A projection may hold a stack of independent models: every parameter then has a leading seed axis, and so
    must states, latents and context tensors (of size 1 where all seeds share them). See `romkit.projections.stack`.

    Attributes:
        name: what `romkit.fit` calls the method.
        normalization: names, units and scaling.
        latent_dim: m.
        idempotent: whether ρ ∘ φ = id, and so P ∘ P = P, holds by construction at every context.
        trained: whether it is trained; else `initialise` makes it of states alone, and data need no velocities.
        report: what training recorded (recipe, seed, losses, versions), empty before.

    Example:
        >>> import romkit
        >>> ncae = romkit.load("ncae-lorenz96")
        >>> ncae(F=3.15).context
        tensor([3.1500])
        >>> ncae(F=[3.14, 3.15, 3.18]).context.shape
        torch.Size([3, 1])
        >>> ncae.name, ncae.latent_dim, ncae.idempotent
        ('ncae', 2, True)
    """

    name: ClassVar[str]
    idempotent: ClassVar[bool] = False
    trained: ClassVar[bool] = True
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
        """A projection of coordinates as one of full states: with the basis of a normalization in front.

        Raises:
            InputError: a basis of another number of modes.
        """
        if normalization.size != self.normalization.size:
            expected = f"one with a basis of {self.normalization.size} modes, as the projection has coordinates"
            fix = "take the basis that the projection was trained behind"
            raise InputError("normalization", expected=expected, got=f"{normalization.size} modes", fix=fix)
        full = copy.deepcopy(self)
        full.normalization = normalization
        return full

    def of_coordinates(self) -> "Projection":
        """The projection behind the basis, of the coordinates in it; the projection itself where there is none."""
        if self.basis is None:
            return self
        given = self.normalization
        return copy.deepcopy(self, {id(given): copy.deepcopy(given.inner)})  # the basis is large, and not needed

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
            check_context("context", context, names)
            c = context_columns(context, names)
            return self._shared(torch.as_tensor(c, dtype=like.dtype, device=like.device))
        if context is not None:
            return one_context(context, names).to(like)
        return self._shared(torch.as_tensor(context_array(names, named), dtype=like.dtype, device=like.device))

    def _shared(self, c: Tensor) -> Tensor:
        return c if self.seeds is None else c.unsqueeze(0)
