"""The interface of every projection: called with a context, a projection gives the operator there."""

import abc
import copy
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

import torch
import xarray as xr
from torch import Tensor, nn

from romkit.bases import Basis
from romkit.core import checks
from romkit.core.boundary import Count, Sizes, Times, validated
from romkit.core.display import Display, first_line, pairs, with_unit
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.forward import jvp
from romkit.core.types import ContextFunction
from romkit.data.context import context_array, context_columns, one_context, only_one
from romkit.data.trajectories import check_context
from romkit.data.units import in_unit, parameters_in_units
from romkit.projections.frame import Frame
from romkit.projections.operator import EncoderDecoder, Operator


def check_chain(argument: str, sizes: Sequence[int], n: int) -> None:
    """Raise unless sizes go from the latent side to the n coordinates of the state, and never down."""
    if sizes[-1] != n or list(sizes) != sorted(sizes):
        raise InputError(
            argument,
            expected=f"sizes that do not decrease from the latent side to n = {n}",
            got=str(tuple(sizes)),
            fix=f"end with {n} and start with the latent dimension",
        )


def check_embedding(sizes: Sequence[int], frame: Frame) -> None:
    """Raise unless the sizes of an embedding start with the number of context parameters."""
    p = len(frame.context_names)
    if sizes[0] != p:
        raise InputError(
            "embedding",
            expected=f"sizes that start with the {p} context parameters",
            got=str(tuple(sizes)),
            fix=f"give ({p}, ..., size of the signal)",
        )


def _training(report: Mapping[str, object]) -> dict[str, str]:
    """Facts about the training of one seed, from its report."""
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
    """Name, training range and unit of each parameter of the context."""
    low = (frame.context_shift - frame.context_scale).tolist()
    high = (frame.context_shift + frame.context_scale).tolist()
    texts = []
    for name, a, b, unit in zip(frame.context_names, low, high, frame.context_units, strict=True):
        values = f"{a:.4g} ... {b:.4g}"
        if name in frame.fixed:
            values = f"{(a + b) / 2:.4g}"
        texts.append(f"{name} {values}{with_unit(unit)}")
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
        tensor([3.1500])
        >>> ncae(F=[3.14, 3.15, 3.18]).context.shape
        torch.Size([3, 1])
        >>> ncae.name, ncae.latent_dim, ncae.idempotent
        ('ncae', 2, True)
    """

    name: ClassVar[str]
    idempotent: ClassVar[bool] = False
    trained: ClassVar[bool] = True
    takes_gaps: ClassVar[bool] = False
    chosen_by_rollouts: ClassVar[bool] = False
    latent_dim: int

    def __init__(self, frame: Frame, config: dict[str, object]):
        super().__init__()
        self.frame = frame
        self.config = config
        self.report: dict[str, object] = {}
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
        """The projection of coordinates in the basis; the projection itself without one."""
        if self.basis is None:
            return self
        return self.in_frame(self.frame.of_coordinates())

    def in_frame(self, frame: Frame) -> "Projection":
        """A copy with another frame of as many coordinates: of full states behind a basis, or of the
        coordinates in it.
        """
        moved = copy.deepcopy(self)
        moved.frame = frame
        return moved

    @classmethod
    def with_sizes(cls, **sizes: object) -> functools.partial:
        """The method with its sizes, for `romkit.fit`: `NcAE.with_sizes(layers=(2, 24, 36))`."""
        return functools.partial(cls, **sizes)

    @classmethod
    def default_layers(cls, latent_dim: int, n: int) -> tuple[int, ...]:
        """Sizes (m, ..., n) of layers where only the latent dimension is given."""
        between = (latent_dim + n) // 2
        middle = max(2 * latent_dim, min(WIDEST, between))
        return latent_dim, min(n, middle), n

    @abc.abstractmethod
    def at(self, c: Tensor) -> EncoderDecoder:
        """The maps at a context c (..., p) in normalised coordinates."""

    def penalty(self, maps: EncoderDecoder) -> Tensor:
        """A term that training adds to the loss (one value per seed) for maps from `at`: zero
        unless needed.
        """
        return torch.zeros(())

    def initialise(self, y: Tensor, c: Tensor) -> Mapping[str, object] | None:
        """Hook: called once before training with snapshots y (N, n) and their contexts c (N, p), both
        normalised, those of a trajectory one after the other.

        Returns:
            Facts for the report, or None.
        """

    def forward(self, context: Tensor | xr.Dataset | None = None, **named: object) -> Operator:
        """The operator at a context, given by name, as a tensor (..., p), or as a dataset with
        context coordinates.

        Raises:
            InputError: a name is unknown or missing, the last axis is not p, or numbers that are
                not finite.
        """
        return self.operator(self._context(context, named))

    def operator(self, c: Tensor) -> Operator:
        """The operator at a context c (..., p) in physical units; for loops and compilers."""
        maps = self.at(self.frame.normalise_context(c))
        return Operator(self.frame, maps, c, self.latent_dim, self.seeds, self.at)

    def for_law(self, data: xr.Dataset) -> "tuple[Projection, xr.Dataset]":
        """The projection and the data whose latent motion a law describes: of shapes, if shifts are
        factored out.
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

    def facts(self) -> dict[str, str]:
        """Facts that all seeds share, and the training of a single one."""
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

    def trainings(self) -> list[dict[str, str]]:
        """Facts about the training of each seed; an empty list where they are not known."""
        trainings = []
        for report in self._reports():
            if "seed" in report:
                trainings.append(_training(report))
        return trainings

    def curves(self) -> tuple[str, Sequence[Sequence[float]]]:
        """The losses of all seeds over epochs."""
        curves = []
        for report in self._reports():
            losses = report.get("losses", [])
            if len(losses):
                curves.append(losses)
        return "loss over epochs, logarithmic", curves

    def _reports(self) -> list[Mapping[str, object]]:
        return self.report.get("seeds", [self.report])

    def _context(self, context: object, named: dict[str, object]) -> Tensor:
        names, units = self.frame.context_names, self.frame.context_units
        like = self.frame.context_shift
        only_one(context, named)
        if isinstance(context, xr.Dataset):
            check_context("context", context, names)
            values = context_columns(_in_units(context, names, units), names)
        elif context is not None:
            return one_context(context, names).to(like)
        else:
            values = context_array(names, parameters_in_units(named, names, units))
        c = torch.as_tensor(values, dtype=like.dtype, device=like.device)
        # all seeds share it
        return c if self.seeds is None else c.unsqueeze(0)


def _in_units(data: xr.Dataset, names: Sequence[str], units: Sequence[str]) -> xr.Dataset:
    """Data whose parameters are in these units."""
    parameters = {}
    for name, unit in zip(names, units, strict=True):
        parameters[name] = in_unit("context", name, data[name], unit).variable
    return data.assign_coords(parameters)


WIDEST = 128
"""Widest middle layer of a default architecture: it does not grow with n, so neither does the work
per component.
"""


@validated
def architecture(
    method: type[Projection],
    frame: Frame,
    *,
    latent_dim: Count | None = None,
    layers: Sizes | None = None,
    **settings: object,
) -> dict[str, object]:
    """Arguments that build `method` for this state and context.

    Args:
        method: class of the projection.
        frame: of the system, state and context that it is for.
        latent_dim: m; needed where sizes are.
        layers: sizes (m, ..., n) from the latent side to the state, for the decoder and mirrored
            for the encoder.
        **settings: any further argument of the method, for example `embedding=(1, 8, 8)`.

    Raises:
        InputError: neither `latent_dim` nor `layers` is known, sizes do not fit the state, an
            unknown setting.

    Example:
        >>> import romkit
        >>> from romkit.projections import NcAE, architecture
        >>> architecture(NcAE, romkit.load("ncae-lorenz96").frame, latent_dim=2)
        {'embedding': (1, 4, 4), 'layers': (2, 19, 36)}
    """
    accepted = arguments(method)
    for name in settings:
        checks.one_of(f"setting of {method.name}", name, accepted)
    if "embedding" in accepted and not frame.context_names:
        raise InputError(
            "data",
            expected=f"a context for {method.name}: a floating-point coordinate along trajectory",
            got="none",
            fix="add the coordinate, or fit a method without context such as 'cae'",
        )
    defaults = _defaults(method)
    sizes: dict[str, object] = {"embedding": (len(frame.context_names), 4, 4)}
    of_layers = {"latent_dim", "layers", "encoder", "decoder"} & {*accepted}
    needed = of_layers - {*settings} - defaults
    is_sized = latent_dim is not None or layers is not None
    if not of_layers:
        _warn_of_sizes(method, latent_dim=latent_dim, layers=layers)
    if is_sized or needed:
        chain = _chain(method, frame.size, latent_dim, layers)
        sizes |= _sizes_of(chain)
    # a default of the method's own is the better guess
    guessed = {"embedding", "units"} & defaults
    config = {}
    for name, size in sizes.items():
        if name in accepted and name not in guessed:
            config[name] = size
    return config | settings


def _warn_of_sizes(method: type[Projection], **sizes: object) -> None:
    """Say which sizes are left out, of a method that takes none."""
    for name, size in sizes.items():
        if size is not None:
            text = f"{name}: left out, the sizes of {method.name} are those of the state"
            warn(text, DataWarning)


def _defaults(method: type[Projection]) -> set[str]:
    """Arguments of a method that have a default."""
    names = set()
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.default is not parameter.empty:
            names.add(name)
    return names


def _sizes_of(chain: Sequence[int]) -> dict[str, object]:
    """Arguments of methods by the sizes (m, ..., n) from the latent side to the state."""
    m = chain[0]
    units = min(64, max(24, 4 * m))
    return {
        "units": (units,) * 3,
        "latent_dim": m,
        "layers": chain,
        "encoder": chain[::-1],
        "decoder": chain,
    }


def arguments(method: type[Projection]) -> list[str]:
    """Names of the arguments that build `method`, beside its frame and generator."""
    return list(inspect.signature(method).parameters)[2:]


def _chain(
    method: type[Projection], n: int, latent_dim: int | None, layers: Sequence[int] | None
) -> tuple[int, ...]:
    """Sizes (m, ..., n) from the latent side to the state, as given or by default."""
    if layers is None:
        if latent_dim is None:
            raise InputError(
                "latent_dim",
                expected="the number of latent coordinates",
                got="none",
                fix="add latent_dim=... (or layers=...)",
            )
        layers = method.default_layers(latent_dim, n)
        check_chain("latent_dim", layers, n)
        return layers
    if latent_dim not in (None, layers[0]):
        raise InputError(
            "latent_dim",
            expected=f"{layers[0]}, as layers begin",
            got=latent_dim,
            fix="drop one of the two",
        )
    check_chain("layers", layers, n)
    return layers


T = TypeVar("T")

STEP = 1e-6
"""Half the interval of the difference that is the rate of a context, as a share of the time of the
run.
"""


class Path:
    """Operators P(t) = projection(c(t)) along a context c(t), with the motion of their manifold.

    `Path.constant(P)` is the path of a context that stays; it costs nothing.

    Args:
        projection: in float64, since rates are differences.
        context: t, a scalar tensor, to c (..., p) in physical units; smooth in t.
        times: (T,) of a run; the context is evaluated between the first and the last one.

    Attributes:
        operator: P of a constant path, else None.

    Raises:
        InputError: a projection in float32, or a single time.

    Example:
        >>> import torch
        >>> import romkit
        >>> from romkit.projections import Path
        >>> ncae = romkit.load("ncae-lorenz96").double()
        >>> path = Path(ncae, lambda t: 3.14 + 0.01 * t.reshape(1), torch.linspace(0, 5, 6))
        >>> path.at(torch.tensor(1.0)).context
        tensor([3.1500])
        >>> path.decoder_rate(torch.tensor(1.0), torch.zeros(2)).shape
        torch.Size([36])
        >>> P = ncae(F=3.15)
        >>> Path.constant(P).at(torch.tensor(5.0)) is P
        True
    """

    operator: Operator | None = None

    @validated
    def __init__(self, projection: Projection, context: ContextFunction, times: Times):
        dtype = projection.frame.state_std.dtype
        if dtype != torch.float64:
            raise InputError(
                "projection",
                expected="one in float64",
                got=str(dtype).removeprefix("torch."),
                fix="give copy.deepcopy(projection).double()",
            )
        if len(times) < 2:
            raise InputError(
                "times",
                expected="two or more",
                got="one",
                fix="give Path.constant(projection(...)) for a context that stays",
            )
        self.context = context
        self._family = projection.operator
        self._first = float(times[0])
        self._last = float(times[-1])

    @classmethod
    def constant(cls, operator: Operator) -> "Path":
        """The path of an operator at a context that stays.

        Raises:
            InputError: no operator.
        """
        if not hasattr(operator, "decode"):
            raise InputError(
                "operator",
                expected="an operator",
                got=checks.shown(operator),
                fix="a projection at a context is one: projection(F=3.15)",
            )
        path = cls.__new__(cls)
        path.operator = operator
        return path

    def mapped(self, change: Callable[[Operator], Operator]) -> "Path":
        """The path of changed operators t -> change(P(t))."""
        path = copy.copy(self)
        if self.operator is None:
            path._family = lambda c: change(self._family(c))
        else:
            path.operator = change(self.operator)
        return path

    def at(self, t: Tensor) -> Operator:
        """The operator at the context of the time t, a scalar tensor."""
        if self.operator is not None:
            return self.operator
        return self._family(self.context(t))

    def each(self, make: Callable[[Operator], T]) -> Callable[[Tensor], T]:
        """t -> make(P(t)), made once where the operator stays."""
        if self.operator is None:
            return lambda t: make(self.at(t))
        made = make(self.operator)
        return lambda t: made

    def relative(self, t: Tensor, z: Tensor, rate: Tensor) -> Tensor:
        """`rate` (..., n) of the state without the motion ∂ₜφ(z) of the manifold itself."""
        if self.operator is not None:
            return rate
        return rate - self.decoder_rate(t, z)

    def carried(self, t: Tensor, z: Tensor, rate: Tensor) -> Tensor:
        """The latent `rate` (..., m) of a law for fixed contexts, plus D_cρ ċ = -D_xρ ∂ₜφ for the
        moving manifold.
        """
        if self.operator is not None:
            return rate
        P = self.at(t)
        moving = self.decoder_rate(t, z)
        _, inside = P.encode_jvp(P.decode(z), moving)
        return rate - inside

    def decoder_rate(self, t: Tensor, z: Tensor) -> Tensor:
        """∂ₜ φ(z; c(t)) = D_cφ ċ (..., n), the rate of the decoded state at fixed z (..., m)."""
        if self.operator is not None:
            return torch.zeros_like(self.operator.decode(z))
        step = STEP * (self._last - self._first)
        before = (t - step).clamp(min=self._first)
        after = (t + step).clamp(max=self._last)
        difference = self.context(after) - self.context(before)
        rate = difference / (after - before)

        def decoded(c: Tensor) -> Tensor:
            return self._family(c).decode(z)

        _, moving = jvp(decoded, (self.context(t),), (rate,))
        return moving
