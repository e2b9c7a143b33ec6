"""A model along one parameter of its context, in unknowns that have the size of one."""

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from scipy.optimize import least_squares
from torch import Tensor

from romkit.branches.arclength import Branch
from romkit.branches.equations import Equilibria, ForcedOrbits, Orbits, Scaled
from romkit.branches.flow import TimeMap
from romkit.branches.sizes import SMALL, sizes
from romkit.core.types import Array, Field, Floats, Kwargs, Variables
from romkit.data import Contexts
from romkit.engine.threads import one_thread
from romkit.models.fields import Model

PLACES = (0.0, 0.37, 1.0)
"""Places in the range of the parameter where a field is asked for its force."""


def probes(
    state: Array, size: Array, copies: int, *, displaced: Floats = (0.0, 0.1, 1.0)
) -> Tensor:
    """Return states (B, d) near a state (d,), so many times each.

    `displaced`: displacements of the states at which a field is looked at, relative to their
    size.
    """
    rng = np.random.default_rng(0)
    states = []
    for displacement in displaced:
        direction = rng.standard_normal(len(state))
        states.append(state + displacement * size * direction)
    return torch.from_numpy(np.tile(states, (copies, 1)))


def is_forced(
    field: Field, states: Tensor, scale: float, span: float, *, same: float = 1e-9
) -> bool:
    """Tell whether f(t, y) differs between times at any of the states (B, d).

    Args:
        field: f(t, y).
        states: where it is looked at.
        scale: time scale of the model.
        span: of its runs, in which a pulse may hide.
        same: difference of rates, relative to the largest one, that counts as rounding.
    """
    reference = _rates(field, np.zeros(1), states)
    rates = _rates(field, _times(scale, span), states)
    is_finite = np.isfinite(reference)
    largest = np.abs(reference[is_finite]).max(initial=0.0)
    reference = reference[:, is_finite[0]]
    rates = rates[:, is_finite[0]]
    rounding = same * (largest + np.abs(rates))
    is_same = np.abs(rates - reference) <= rounding
    return not bool(is_same.all())


def _times(scale: float, span: float, *, decades: int = 8, within_span: int = 200) -> Array:
    """Return times of all decades about the time scale, and times in the span of a run.

    `decades`: powers of ten that times are spread over, about the time scale of the model.

    `within_span`: times in the span of a run.
    """
    powers = np.linspace(-decades / 2, decades / 2, 4 * decades + 1)
    # irrational factors, so that no period divides all times
    numbers = np.arange(len(powers))
    factors = np.sqrt(2 + numbers)
    times = scale * 10**powers * factors
    within = (np.arange(within_span) + 0.5) / within_span
    return np.concatenate([times, span * within])


def forcing_period(
    field: Field, states: Tensor, near: float, *, periodic: float = 1e-6, within: float = 0.05
) -> float | None:
    """Return period T near a given one with f(t + T, y) = f(t, y) for all t; None where there is
    none.

    `periodic`: difference of rates after a period, relative to what the force changes.

    `within`: part of a given period in which the exact one is sought.
    """
    numbers = np.arange(32) + np.sqrt(0.5)
    times = near * numbers / 20.3
    rates = _rates(field, times, states)
    is_finite = np.isfinite(rates).all(0)
    spread = rates.max(0) - rates.min(0)
    change = float(spread[is_finite].max(initial=0.0))
    if change == 0:
        return None

    def defects(period: Array) -> Array:
        later = _rates(field, times + near * period[0], states)
        defect = (later - rates)[:, is_finite]
        return (defect / change).ravel()

    bounds = (1 - within, 1 + within)
    best = least_squares(defects, [1.0], jac="3-point", bounds=bounds, xtol=1e-15, gtol=1e-15)
    if np.abs(best.fun).max() > periodic:
        return None
    return near * float(best.x[0])


def _rates(field: Field, times: Array, states: Tensor) -> Array:
    """f (T, B, d) at times (T,) and states (B, d)."""
    rates = []
    with torch.no_grad(), one_thread():
        for t in torch.from_numpy(times):
            rates.append(field(t, states).numpy())
    return np.stack(rates)


class Line:
    """A model along one parameter, which counts from 0 at `low` to 1 at `low + width`.

    Args:
        model: full or reduced.
        name: of the parameter.
        ends: of its range.
        others: values of the other parameters.
        steps: Runge-Kutta steps in a period; by default as many as the error asks for.

    Attributes:
        size: (d,) of the states: unknowns are states divided by it.
        period: unit of periods; the period itself where the field is forced.
        forced: whether the field depends on the time.
    """

    def __init__(
        self,
        model: Model,
        name: str,
        ends: Sequence[float],
        others: Kwargs,
        steps: int | None = None,
    ):
        self.model = model
        self.name = name
        self.others = others
        self.steps = steps
        self.low = ends[0]
        self.width = ends[1] - ends[0]
        values = {name: self.low, **others}
        context = Contexts.build(model.context_names, values, torch.zeros(1))
        self._fixed = context.initial
        self.size = np.ones(len(model.names))
        self.period = 1.0
        self.forced = False

    def measure(self, states: Array, period: float = 0.0) -> None:
        """Set sizes of components by states (k, d), and see whether the field is forced.

        `period` is that of an orbit, 0 of an equilibrium.
        """
        start = torch.from_numpy(states[:1]).repeat(2, 1)
        t = torch.zeros((), dtype=torch.float64)
        with torch.no_grad():
            first, final = self._field(PLACES[::2])(t, start).numpy()
        moved = np.abs(first) * period / (2 * np.pi)
        self.size = sizes(states, lambda count: self._field(np.zeros(count)), moved, final - first)
        self._detect_force(states[0])

    def resume(self, states: Array, size: Array) -> None:
        """Set sizes of components by states (k, d) of a branch, and by the sizes (d,) that it was
        followed in; see whether the field is forced.
        """
        # a component that is zero all along has what Newton's method left of it, and not its size
        largest = np.abs(states).max(0)
        self.size = np.where(largest > SMALL * size, largest, size)
        self._detect_force(states[0])

    def _detect_force(self, state: Array) -> None:
        """Set whether the field depends on the time near a state (d,)."""
        field, near = self._probed(state)
        self.forced = is_forced(field, near, self.period, self.model.span)

    def take_period(self, state: Array, near: float) -> bool:
        """Set the period, or its unit, near a given one; whether it is one of the force."""
        self.period = near
        if not self.forced:
            return True
        exact = forcing_period(*self._probed(state), near)
        if exact is None:
            return False
        self.period = exact
        return True

    def double(self) -> None:
        """Take twice the period, and twice the steps in it."""
        self.period *= 2
        if self.steps is not None:
            self.steps *= 2

    def contexts(self, parameter: Array) -> torch.Tensor:
        """(B, p)."""
        c = self._fixed.repeat(len(parameter), 1)
        column = self.model.context_names.index(self.name)
        values = self.physical(parameter)
        c[:, column] = torch.from_numpy(values)
        return c

    def field(self, parameter: Array) -> Scaled:
        """Return field of scaled states (B, d)."""
        # unknowns of the size of one, so that one tolerance suits all of them
        return Scaled(self.model.field(self.contexts(parameter)), torch.from_numpy(self.size))

    def flow(self, parameter: Array, w: torch.Tensor, time: float) -> torch.Tensor:
        """Scaled states (B, d) after a time, in the steps of the latest `branch`."""
        c = self.contexts(parameter)
        size = torch.from_numpy(self.size)
        # a system's own solver knows its field in physical units
        end = self._flow(c, size * w, time)
        return end / size

    def course(self, parameter: Array, w: torch.Tensor, time: float) -> torch.Tensor:
        """Scaled states (N, d) at even times up to a time, the first one (1, d) left out."""
        size = torch.from_numpy(self.size)
        return self._flow.course(self.contexts(parameter), size * w, time) / size

    def branch(self, kind: str) -> Branch:
        """Branches of equilibria or orbits of the model, in its sizes and periods of now."""
        self._flow = TimeMap(self.model, self.size, self.steps, self.forced)
        if kind == "equilibria":
            return Branch(Equilibria(self.field))
        if self.forced:
            return Branch(ForcedOrbits(self.field, self.flow, self.course, self.period))
        return Branch(Orbits(self.field, self.flow, self.course, self.period))

    def physical(self, place: float | Array) -> float | Array:
        """Return the parameter at a place in its range."""
        return self.low + self.width * place

    def unknowns(self, branch: xr.Dataset, state: str) -> Array:
        """(K, k) unknowns of the points of a branch, or of its special points."""
        parameter_name = self.name
        period_name = "period"
        if state.startswith("special_"):
            parameter_name = "special_parameter"
            period_name = "special_period"
        columns = [branch[state].values / self.size]
        if period_name in branch and not self.forced:
            period = branch[period_name].values
            columns.append(period / self.period)
        parameter = branch[parameter_name].values
        place = (parameter - self.low) / self.width
        return np.column_stack([*columns, place])

    def states(self, u: Array) -> Array:
        """Return states (K, d) of unknowns (K, k)."""
        return u[:, : len(self.size)] * self.size

    def variables(self, u: Array, dim: str, kind: str, prefix: str = "") -> Variables:
        """State, period and parameter of unknowns (K, k)."""
        variables: Variables = {f"{prefix}state": ((dim, "component"), self.states(u))}
        if kind == "orbits":
            period = u[:, len(self.size)]
            if self.forced:
                # that of the force, where there is a solution
                is_missing = np.isnan(u[:, 0])
                period = np.where(is_missing, np.nan, 1.0)
            variables[f"{prefix}period"] = (dim, self.period * period)
        parameter = self.physical(u[:, -1])
        variables[f"{prefix}parameter"] = (dim, parameter)
        return variables

    def named(self, data: xr.Dataset) -> xr.Dataset:
        """Return a dataset with the parameters of the context as coordinates, and what leads back
        to them.
        """
        ends = [self.low, self.low + self.width]
        data = data.assign_attrs(parameter=self.name, range=ends, size=self.size.tolist())
        data["parameter"].attrs["units"] = self.model.units[self.name]
        coordinates = [self.name, "special_kind", "special_parameter"]
        data = data.rename(parameter=self.name).set_coords(coordinates)
        return data.assign_coords(self.others)

    def _probed(self, state: Array) -> tuple[Field, torch.Tensor]:
        """Return the field, and states near this one, at both ends of the range and between them."""
        near = probes(state, self.size, len(PLACES))
        copies = len(near) // len(PLACES)
        parameter = np.repeat(PLACES, copies)
        return self._field(parameter), near

    def _field(self, parameter: Sequence[float] | Array) -> Field:
        """Return field of states (B, d) at places (B,) in the range of the parameter."""
        return self.model.field(self.contexts(np.asarray(parameter)))
