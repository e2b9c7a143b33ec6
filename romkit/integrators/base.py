"""Latent dynamics: from a problem (operators, full-order equation, metric) to a trajectory in the
latent space.

Integrators see operators and fields as callables, never a system or a projection class. A latent
state w is z (..., m) of a first-order problem, and (z, ż) (..., 2m) of a mechanical one (see
`romkit.problem`).
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import torch
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core.boundary import Count, Times, unchecked, validated
from romkit.core.broadcast import linear_solve, matvec
from romkit.core.display import Display
from romkit.core.errors import InputError
from romkit.core.types import Facts, Field, Kwargs, Metric, Names, Shape, TensorFunction, TensorMap
from romkit.engine import Engine, Unsupported, trace
from romkit.integrators.region import Region
from romkit.projections import Operator
from romkit.projections.networks import joined
from romkit.solvers import Adaptive, Exponential, Restarted, Solution, Solver
from romkit.systems.problem import Parts, Problem

if TYPE_CHECKING:
    from romkit.systems.sampled import Rows

T0 = torch.zeros((), dtype=torch.float64)

Needs = Literal["nothing", "decoder", "tangent", "full"]

LatentRate = Callable[[Tensor, Tensor], Tensor]
"""(t, w) -> the highest latent rate (..., m): ż, or z̈ of a mechanical problem."""

Flow = Callable[[Tensor, Tensor], Tensor]
"""(w, times (T,)) -> states (..., T, d) at these times, from w (..., d) at the first one."""


class Default:
    """Default of an instance attribute that a dataclass may still declare as a field without one."""

    def __init__(self, value: object):
        self.value = value

    def __get__(self, instance: object, owner: type) -> object:
        # asked by `dataclass`, which would take a value for the field's default
        if instance is None:
            raise AttributeError("no value on the class")
        return self.value


class LatentDynamics(abc.ABC):
    """A way to move in the latent space.

    Attributes:
        needs: how much of the full model enters after the start, from less to more. "nothing":
            neither its field nor its metric (a law, or rows that have their own). "decoder": the
            field projected onto the tangents, decoder and metric (Galerkin). "tangent": the encoder
            too; the field may still be projected onto any subspace that holds the manifold, so that
            a system seen through a basis is as good (see `System.through`). "full": the whole
            residual (LSPG).
        orders: of the problems that it solves.
        order: 2 of a law that gives z̈, else 1.
        context_names, control_names: parameters and inputs that a law depends on; none of dynamics
            that are no law.
        held: whether these inputs keep their value until the next sample, as those that the law was
            fitted to; else they are straight lines. None where that is not known.
        control_unit: of all inputs, or those of each with commas between; "" where none is known.
        domain: latent states to which its field is fitted; None where that is not known or not
            limited.
        mesh: rows of the full model that it runs on; None for all.

    Example:
        >>> from romkit.integrators import DYNAMICS, LatentDynamics
        >>> all(issubclass(dynamics, LatentDynamics) for dynamics in DYNAMICS.values())
        True
        >>> DYNAMICS["hamiltonian"].orders  # for mechanical systems alone
        (2,)
    """

    orders: ClassVar[Shape] = (1, 2)
    control_names: Names = ()
    control_unit: str = ""

    if TYPE_CHECKING:  # of which a subclass may make fields or properties

        @property
        def needs(self) -> Needs: ...
        @property
        def order(self) -> int: ...
        @property
        def context_names(self) -> Names: ...
        @property
        def held(self) -> bool | None: ...
        @property
        def domain(self) -> Region | None: ...
        @property
        def mesh(self) -> "Rows | None": ...
    else:
        needs = "tangent"
        order = Default(1)
        context_names = Default(())
        held: bool | None = None
        domain: Region | None = None
        mesh = None

    def start(self, problem: Problem, t: Tensor, parts: Parts) -> Tensor:
        """Return the latent state that a trajectory from a full state starts at: the encoded one,
        unless overridden.

        Args:
            problem: what is solved.
            t: the time, a scalar tensor.
            parts: (x,), or (q, q̇) of a mechanical problem, each (..., n).
        """
        P = problem.path.at(t)
        tensors.parts("parts", parts, problem.order, P.state_size)
        return problem.encode(P, parts)

    @abc.abstractmethod
    def solve(
        self,
        problem: Problem,
        start: Tensor,
        times: Times,
        *,
        solver: Solver | None = None,
        engine: Engine = "auto",
    ) -> Solution:
        """Latent states (..., T, order · m) at `times`.

        Args:
            problem: what is solved.
            start: the latent state (..., order · m) at `times[0]`, as `start` gives it.
            times: (T,) increasing output times.
            solver: of the latent equation; `Adaptive()` by default. Methods that step in time by
                themselves take none.
            engine: "auto", "torch" or "compiled" (see `romkit.engine`).
        """


class LatentField(LatentDynamics):
    """Dynamics by a differential equation on the latent space, which a solver integrates.

    Example:
        >>> import torch
        >>> import romkit
        >>> from romkit.integrators import LatentField
        >>> class Rest(LatentField):
        ...     def latent_rate(self, problem):
        ...         return lambda t, w: torch.zeros_like(problem.split(w)[0])
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> run = romkit.follow(romkit.load("ncae-lorenz96"), data, dynamics=Rest())
        >>> bool((run.latent == run.latent.isel(time=0)).all())
        True
    """

    if TYPE_CHECKING:

        @property
        def affine(self) -> bool: ...
    else:
        affine = False
        """Whether the field is affine in the latent state and has no inputs: then its steps are exact."""

    @abc.abstractmethod
    def latent_rate(self, problem: Problem) -> LatentRate:
        """Return the highest rate of the latent coordinates, as a function of time and latent
        state.
        """

    def field(self, problem: Problem) -> Field:
        """ẇ = g(t, w), the differential equation of the latent state."""
        rate = self.latent_rate(problem)
        return lambda t, w: problem.motion(w, rate(t, w))

    def solve(
        self,
        problem: Problem,
        start: Tensor,
        times: Tensor,
        *,
        solver: Solver | None = None,
        engine: str = "auto",
    ) -> Solution:
        if solver is None:
            solver = self._default_solver(problem, engine, start)
        solver = suited(solver, problem, times)
        integrate = unchecked(solver.__call__)
        return integrate(self.field(problem), start, times, engine=engine, label="reduced model")

    def _default_solver(self, problem: Problem, engine: str, start: Tensor) -> Solver:
        """Exact steps of an affine field at a constant context, which are not compiled; else
        steps whose error is controlled.

        A member is lost far beyond its start and the samples of a law, whatever their unit.
        """
        bound = lost_beyond(self, start)
        context_stays = problem.path.operator is not None
        if self.affine and context_stays and engine != "compiled":
            return unchecked(Exponential)(divergence_threshold=bound)
        return unchecked(Adaptive)(divergence_threshold=bound)


class LearnedField(LatentField, Display):
    """A latent field that was fitted to data and does not look at the full-order one: a law.

    It depends on no time, since it is judged on segments of runs; what drives a system is an input.

    Attributes:
        order: 1 if it gives ż, 2 if it gives z̈.
        latent_dim: m.
        context_names: of the parameters that it depends on; one without any holds at every context.
        control_names: of the inputs that it depends on; it knows them as further parameters, behind
            the context.
        held: whether inputs keep their value between samples.
        source: what it was fitted to, in words.
        samples: to how many samples.
        domain: where those are; None if that is not known.

    Example:
        >>> import romkit
        >>> from romkit.integrators import LearnedField
        >>> from romkit.laws import SINDy
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.15, 3.18])
        >>> pod = romkit.fit("pod", data, latent_dim=2)
        >>> law = SINDy(degree=1, threshold=0.0).fit(pod, data)
        >>> isinstance(law, LearnedField), law.order, law.samples
        (True, 1, 150)
        >>> romkit.follow(pod, data, dynamics=law).status.values.tolist()  # no equations of the full model are needed
        [0, 0, 0]
    """

    needs = "nothing"

    __dataclass_fields__: ClassVar[Kwargs]  # a subclass is a dataclass

    source: str
    samples: int
    report: Sequence[Mapping[str, Any]]

    if TYPE_CHECKING:  # a field or a property of a law

        @property
        def latent_dim(self) -> int: ...

    @property
    def coefficient_count(self) -> int:
        """Number of fitted coefficients that are not zero, of all laws of a stack; 0 where a law
        does not tell.
        """
        return 0

    def details(self) -> list[str]:
        """Return the law in lines of text, with what is known of its errors."""
        return [repr(self)]

    def formulas(self, digits: Count = 4, most: Count | None = None) -> list[str]:
        """Return the law as formulas, a line for each latent; of one without terms, as a network,
        its description.

        Args:
            digits: of numbers.
            most: terms of each equation, the largest ones; by default all.
        """
        return self.details()

    def facts(self) -> Facts:
        """Kind and sizes, what it was fitted to, and its details."""
        facts = {
            "law": f"{type(self).__name__}, order {self.order}, {self.latent_dim} latent",
            "context": ", ".join(self.context_names) or "none",
            "source": f"{getattr(self, 'samples', 0)} samples: {getattr(self, 'source', 'unknown')}",
        }
        for row in getattr(self, "report", ()):
            # the first candidate of a kind is the best one
            tried = f"error {row['error']:.2g} in {row['seconds']:.2g} s"
            facts.setdefault(f"tried {row['law']}", tried)
        return facts | {"details": "\n".join(self.details())}

    @abc.abstractmethod
    def right_hand_side(self, c: Tensor) -> TensorMap:
        """w (..., order · m) -> the highest latent rate (..., m), at parameters c (..., p) in
        physical units.

        These are the context, and the inputs behind it where the law has some.
        """

    def flow(self, c: Tensor) -> Flow | None:
        """Exact states at parameters c (..., p) that stay, of a law that has them in closed form;
        else None.
        """
        return None

    def motion(self, c: Tensor) -> Field:
        """Return field (t, w) -> ẇ of w = z or (z, ż), at parameters c (..., p) as in
        `right_hand_side`.
        """
        g = self.right_hand_side(c)
        if self.order == 1:
            return lambda t, w: g(w)

        def motion(t: Tensor, w: Tensor) -> Tensor:
            return torch.cat([w[..., self.latent_dim :], g(w)], dim=-1)

        return motion

    def at(self, P: Operator, control: Tensor | None = None) -> TensorMap:
        """w -> the highest latent rate at the context of P and inputs (..., q).

        Raises:
            InputError: P has another number of latent coordinates or of context parameters, or
                inputs do not fit.
        """
        if P.latent_dim != self.latent_dim:
            raise InputError(
                "projection",
                expected=f"{self.latent_dim} latent coordinates",
                got=str(P.latent_dim),
                fix="use the one that the law was fitted on",
            )
        c = P.context if self.context_names else P.context[..., :0]
        names = ", ".join(self.context_names)
        checks.last_axis("projection's context", c.shape, len(self.context_names), f"({names})")
        if control is not None:
            c = joined(c, control.to(c))
        return self.right_hand_side(c)

    def latent_rate(self, problem: Problem) -> LatentRate:
        if problem.order != self.order:
            raise InputError(
                "dynamics",
                expected=f"a law of order {problem.order}, as the system",
                got=f"one of order {self.order}",
                fix="fit it on data of this system, with `acceleration` if it is mechanical",
            )
        path = problem.path
        if not self.control_names:
            law = path.each(self.at)
            return lambda t, w: path.carried(t, w, law(t)(w))
        control = self._inputs(problem)

        def rate(t: Tensor, w: Tensor) -> Tensor:
            return path.carried(t, w, self.at(path.at(t), control(t))(w))

        return rate

    def _inputs(self, problem: Problem) -> TensorMap:
        """Return the inputs of a problem.

        Raises:
            InputError: none, or others than those of the law.
        """
        control = problem.control
        names = ", ".join(self.control_names)
        if control is None:
            raise InputError(
                "control",
                expected=f"inputs {names}",
                got="none",
                fix="give them: control=..., or data with `control`",
            )
        shape = control(T0).shape
        checks.last_axis("control", shape, len(self.control_names), f"({names})")
        return control


def default_solver(problem: Problem | None = None, times: Tensor | None = None) -> Solver:
    """Return steps whose error is controlled; of a problem, with the bounds that its forcing sets."""
    solver = unchecked(Adaptive)()
    if problem is None or times is None:
        return solver
    return suited(solver, problem, times)


def tracing_pays(steps: int, engine: str, fewest: int = 50) -> bool:
    """Tell whether a run of so many steps should trace its field, which takes as long as some tens
    of steps; an engine that compiles needs the trace.
    """
    return steps >= fewest or engine == "compiled"


def lost_beyond(dynamics: LatentDynamics, *starts: Tensor, ratio: float = 1e6) -> float:
    """Return the magnitude from which on a latent state is lost: so many times that of its start
    (..., d), where that is known, and of the samples of a law, or 1, whatever their unit.
    """
    finite = [*starts]
    if dynamics.domain is not None:
        finite.append(dynamics.domain.points)
    largest = 1.0
    for x in finite:
        if x.numel():
            size = x.detach().abs().nan_to_num(0.0, 0.0, 0.0).amax()
            largest = max(largest, float(size))
    return ratio * largest


def suited(solver: Solver, problem: Problem, times: Tensor) -> Solver:
    """Return the solver with what it does not say of steps of a forced problem, for a run to
    `times` (T,).

    Inputs and contexts that move may be samples at the output times, with kinks or jumps there, so
    steps end at these. A system that depends on time is not passed over in longer steps than its
    own.
    """
    if not isinstance(solver, Adaptive):
        return solver
    jumps = solver.jump_times
    if not jumps:
        moving = problem.control is not None or problem.path.operator is None
        sampled = times[1:-1].tolist() if moving else []
        jumps = tuple(sorted({*problem.jump_times, *sampled}))
    step = solver.forced_step
    if step is None:
        step = problem.step
    if (step, jumps) == (solver.forced_step, solver.jump_times):
        return solver
    settings = {entry.name: getattr(solver, entry.name) for entry in fields(solver)}
    settings |= {"forced_step": step, "jump_times": jumps}
    # every rollout comes here, and the settings were checked when the solver was made
    return unchecked(type(solver))(**settings)


def least_squares(metric: Metric, x: Tensor, tangents: Tensor, target: Tensor) -> Tensor:
    """Return the rate r (..., m) whose image J r is nearest to the target (..., n) in the metric at
    x.
    """
    weighted = metric(x, tangents)
    return linear_solve(tangents.mT @ weighted, matvec(weighted.mT, target))


def traced(function: TensorFunction, *arguments: Tensor) -> TensorFunction:
    """Return the function as a list of calls to torch, several times faster where most of its time
    goes into derivatives.

    Forward differentiation works out at every call, and slowly, that the derivatives of constants
    are zero. It is left as it is where gradients are wanted, or where what it calls depends on
    values.
    """
    # constants of a trace have no gradients
    if torch.is_grad_enabled():
        return function
    try:
        return cast("Callable[..., Tensor]", trace(function, *arguments).module())
    except Unsupported:
        return function


@validated
@dataclass(frozen=True)
class Reencoded(LatentDynamics):
    """Dynamics that decode their latent state every `every` output times, and start again from what
    they decoded.

    With dynamics that start at the encoded state a restart replaces z by ρ(φ(z)): nothing where the
    encoder is an exact left inverse of the decoder, a small jump elsewhere, and jumps add up.
    `Galerkin` starts at the point of the manifold nearest to x, which is φ(z) itself, whatever the
    encoder is. States at the times of the restarts are those before the jump.

    Args:
        dynamics: what moves in between.
        every: output times from one restart to the next.

    Raises:
        InputError: `every` is below 1, or the dynamics have no latent field.

    Example:
        >>> import romkit
        >>> from romkit.integrators import PetrovGalerkin, Reencoded
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.1)
        >>> ncae = romkit.load("ncae-lorenz96")
        >>> often = Reencoded(PetrovGalerkin(), every=5)
        >>> stays = romkit.follow(ncae, data, dynamics=PetrovGalerkin(), rtol=1e-8)
        >>> restarts = romkit.follow(ncae, data, dynamics=often, rtol=1e-8)
        >>> bool(abs(stays.latent - restarts.latent).max() < 1e-6)  # an exact encoder does not jump
        True
    """

    dynamics: LatentField
    every: Count

    order = property(attrgetter("dynamics.order"))
    context_names = property(attrgetter("dynamics.context_names"))
    control_names = property(attrgetter("dynamics.control_names"))
    held = property(attrgetter("dynamics.held"))
    control_unit = property(attrgetter("dynamics.control_unit"))
    domain = property(attrgetter("dynamics.domain"))

    @property
    def needs(self) -> Needs:
        """Needs of the inner dynamics, and the encoder at each restart."""
        return "tangent" if self.dynamics.needs == "decoder" else self.dynamics.needs

    def start(self, problem: Problem, t: Tensor, parts: Parts) -> Tensor:
        return self.dynamics.start(problem, t, parts)

    def solve(
        self,
        problem: Problem,
        start: Tensor,
        times: Tensor,
        *,
        solver: Solver | None = None,
        engine: str = "auto",
    ) -> Solution:
        def jump(t: Tensor, w: Tensor) -> Tensor:
            return self.start(problem, t, problem.decode(problem.path.at(t), w))

        between = suited(solver or unchecked(Adaptive)(), problem, times)
        return self.dynamics.solve(
            problem, start, times, solver=Restarted(between, self.every, jump), engine=engine
        )
