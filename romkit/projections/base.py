"""The interface of every projection: called with a context, a projection gives the operator there."""

import abc
import copy
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
import xarray as xr
from torch import Tensor, nn

from romkit.bases import Basis
from romkit.core.boundary import unchecked
from romkit.core.display import Display, append_unit, first_line, pairs
from romkit.core.types import Entries, Facts, Shape
from romkit.data.context import context_columns
from romkit.data.contexts import context_array, one_context, only_one
from romkit.data.conversions import convert_parameters, convert_values
from romkit.data.spelling import complete_keys
from romkit.data.trajectories import check_context
from romkit.projections.frame import Frame
from romkit.projections.maps import EncoderDecoder
from romkit.projections.operator import Operator


def _training(report: Mapping[str, object]) -> Facts:
    """Return facts about the training of one seed, from its report."""
    losses = report.get("losses", [])
    seconds = report.get("seconds", 0.0)
    device = report.get("device", "an unknown device")
    recipe = pairs(report.get("recipe", {}))
    loss = "none to minimise"
    if len(losses):
        loss = f"{losses[-1]:.3g} at the end"
    facts = {
        "seed": str(report["seed"]),
        "data": pairs(report.get("data", {})),
        "recipe": f"{report.get('preset', '')}: {recipe}",
        "training": f"{seconds:.3g} s on {device}",
        "loss": loss,
    }
    if report["diverged"]:
        facts["warning"] = "diverged: the parameters are the last finite ones"
    return facts


def _ranges(frame: Frame) -> list[str]:
    """Return name, training range and unit of each parameter of the context."""
    low = (frame.context_shift - frame.context_scale).tolist()
    high = (frame.context_shift + frame.context_scale).tolist()
    texts = []
    for name, a, b, unit in zip(frame.context_names, low, high, frame.context_units, strict=True):
        values = f"{a:.4g} ... {b:.4g}"
        if name in frame.fixed:
            values = f"{(a + b) / 2:.4g}"
        texts.append(f"{name} {values}{append_unit(unit)}")
    return texts


class Projection(Display, nn.Module):
    """A family of projection operators indexed by a context: `projection(F=3.15)` is the operator
    at F = 3.15.

    A subclass implements `at`, sets `latent_dim`, and gives in `config` the arguments that rebuild
    it.

    A projection may hold a stack of independent models: every parameter then has a leading seed
    axis, and so must states, latents and context tensors (of size 1 where all seeds share them).
    See `romkit.projections.stack`.

    Attributes:
        name: what `romkit.fit` calls the method.
        frame: names, units and scaling.
        latent_dim: m.
        idempotent: whether ρ ∘ φ = id, and so P ∘ P = P, holds by construction at every context.
        trained: whether it is trained; else `initialise` makes it of states alone, and data need no
            velocities.
        takes_gaps: whether `initialise` takes snapshots of which components are NaN, and arrays and
            datasets with such states are encoded by what is there.
        chosen_by_rollouts: whether `initialise` takes rollouts at left-out contexts as well, by
            which it chooses settings.
        report: what training recorded (recipe, seed, losses, versions), empty before.

    Example:
        >>> import romkit
        >>> ncae = romkit.load("ncae-lorenz96")
        >>> ncae(F=3.15).context
        tensor([3.1500], dtype=torch.float64)
        >>> ncae(F=[3.14, 3.15, 3.18]).context.shape
        torch.Size([3, 1])
        >>> ncae.name, ncae.latent_dim, ncae.idempotent
        ('ncae', 2, True)
    """

    name: ClassVar[str]
    idempotent: bool = False
    trained: bool = True
    takes_gaps: ClassVar[bool] = False
    chosen_by_rollouts: ClassVar[bool] = False
    latent_dim: int

    def __init__(self, frame: Frame, config: Entries):
        super().__init__()
        self.frame = frame
        self.config = config
        self.report: Entries = {}
        self.seeds: int | None = None

    @property
    def basis(self) -> Basis | None:
        """The basis in front, in whose coordinates the maps work; None without one."""
        return self.frame.basis

    @property
    def parameter_count(self) -> int:
        """Stored numbers of the maps, of all seeds, and of the modes of a basis in front; scalings of
        states and contexts are not counted.
        """
        count = sum(parameter.numel() for parameter in self.parameters())
        # modes in front are as many numbers as those of POD, and tables of methods show both
        if self.basis is not None:
            count += self.basis.modes.numel()
        return count

    def of_coordinates(self) -> "Projection":
        """Return the inner projection, of basis coordinates; the projection itself without a basis."""
        if self.basis is None:
            return self
        return self.replace_frame(self.frame.of_coordinates())

    def replace_frame(self, frame: Frame) -> "Projection":
        """Return a copy with another frame of as many coordinates: of full states behind a basis,
        or of the coordinates in it.
        """
        moved = copy.deepcopy(self)
        moved.frame = frame
        return moved

    @classmethod
    def with_sizes(cls, **sizes: object) -> functools.partial:
        """Return the method with its sizes, for `romkit.fit`: `NcAE.with_sizes(layers=(2, 24,
        36))`.
        """
        return functools.partial(cls, **sizes)

    @classmethod
    def default_layers(cls, latent_dim: int, n: int, widest: int = 128) -> Shape:
        """Return sizes (m, ..., n) of layers where only the latent dimension is given.

        The middle one does not grow with n beyond `widest`, so neither does the work per component.
        """
        middle = max(2 * latent_dim, min(widest, (latent_dim + n) // 2))
        return latent_dim, min(n, middle), n

    @abc.abstractmethod
    def at(self, c: Tensor) -> EncoderDecoder:
        """Return the maps at a context c (..., p) in normalised coordinates."""

    def penalty(self, maps: EncoderDecoder) -> Tensor:
        """Return a term that training adds to the loss (one value per seed) for maps from `at`:
        zero unless needed.
        """
        return torch.zeros(())

    def initialise(self, y: Tensor, c: Tensor) -> Mapping[str, object] | None:
        """Return hook: called once before training with snapshots y (N, n) and their contexts c (N,
        p), both normalised, those of a trajectory one after the other.

        Returns:
            Facts for the report, or None.
        """

    def forward(self, context: Tensor | xr.Dataset | None = None, **named: object) -> Operator:
        """Return the operator at a context, given by name, as a tensor (..., p), or as a dataset
        with context coordinates.

        Raises:
            InputError: a name is unknown or missing, the last axis is not p, or numbers that are
                not finite.
        """
        return self.operator(self._context(context, named))

    def operator(self, c: Tensor) -> Operator:
        """Return the operator at a context c (..., p) in physical units; for loops and compilers."""
        maps = self.at(self.frame.normalise_context(c))
        return unchecked(Operator)(self.frame, maps, c, self.latent_dim, self.seeds, self.at)

    def law_space(self, data: xr.Dataset) -> "tuple[Projection, xr.Dataset]":
        """Return the projection and the data whose latent motion a law describes: of shapes, if
        shifts are factored out.
        """
        return self, data

    if TYPE_CHECKING:  # nn.Module says that a call gives Any

        def __call__(
            self, context: Tensor | xr.Dataset | None = None, **named: object
        ) -> Operator: ...

    def __repr__(self) -> str:
        frame = self.frame
        sizes = f"{self.latent_dim} latent of {len(frame.state_names)} components"
        if self.basis is not None:
            sizes += f" behind {self.basis!r}"
        context = "none"
        if frame.context_names:
            context = ", ".join(frame.context_names)
        facts = [sizes, f"context {context}"]
        if self.config:
            facts.append(pairs(self.config))
        if self.seeds is not None and self.seeds > 1:
            facts.append(f"{self.seeds} seeds")
        return f"{type(self).__name__}({'; '.join(facts)})"

    def facts(self) -> Facts:
        """Return facts that all seeds share, and the training of a single one."""
        frame = self.frame
        system = frame.system
        context = ", ".join(_ranges(frame))
        if not system:
            system = "data without a system"
        if not context:
            context = "none"
        shared = {
            "method": f"{self.name}: {first_line(type(self))}",
            "system": system,
            "dimensions": f"{self.latent_dim} latent, {len(frame.state_names)} state components",
            "context": context,
            "config": pairs(self.config),
            "parameters": str(self.parameter_count),
        }
        if self.basis is not None:
            shared["basis"] = repr(self.basis)
        trainings = self.trainings()
        if len(trainings) == 1:
            return shared | trainings[0]
        return shared | {"seeds": ", ".join(training["seed"] for training in trainings)}

    def trainings(self) -> list[Facts]:
        """Return facts about the training of each seed; an empty list where they are not known."""
        return [_training(report) for report in self._reports() if "seed" in report]

    def curves(self) -> tuple[str, Sequence[Sequence[float]]]:
        """Return the losses of all seeds over epochs."""
        curves = []
        for report in self._reports():
            losses = report.get("losses", [])
            if len(losses):
                curves.append(losses)
        return "loss over epochs, logarithmic", curves

    def _reports(self) -> list[Mapping[str, object]]:
        return self.report.get("seeds", [self.report])

    def _context(self, context: object, named: Entries) -> Tensor:
        names, units = self.frame.context_names, self.frame.context_units
        device = self.frame.context_shift.device
        only_one(context, named)
        if isinstance(context, xr.Dataset):
            check_context("context", context, names)
            values = context_columns(_convert(context, names, units), names)
        elif context is not None:
            return one_context(context, names).to(device, torch.float64)
        else:
            named = complete_keys(named, names)
            values = context_array(names, convert_parameters(named, names, units))
        # single precision may not tell contexts apart that are large beside their range
        c = torch.as_tensor(values, dtype=torch.float64, device=device)
        # all seeds share it
        return c if self.seeds is None else c.unsqueeze(0)


def _convert(data: xr.Dataset, names: Sequence[str], units: Sequence[str]) -> xr.Dataset:
    """Return data whose parameters are in these units."""
    parameters = {
        name: convert_values("context", name, data[name], unit).variable
        for name, unit in zip(names, units, strict=True)
    }
    return data.assign_coords(parameters)
