"""Steady fields over parameters: data without a time, and runs that do not move."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from torch import Tensor

import romkit.data as datasets
from romkit.core.boundary import FilePath, Part, validated
from romkit.core.display import Display, format_text
from romkit.core.errors import InputError
from romkit.core.files import LEARNED, atomic_folder, expanded, read_list, write_list
from romkit.core.types import Array
from romkit.data.context import contexts_of
from romkit.learning.candidates import RunsCandidate, Spaces
from romkit.learning.contexts import scaled_contexts
from romkit.learning.interpolation import InterpolatedRuns, Interpolation
from romkit.learning.reading import TWICE
from romkit.metrics import deviations
from romkit.numerics.smoothers import (
    Kriging,
    Nearest,
    Polynomial,
    Smoother,
    Spline,
    matern,
    squared_exponential,
)
from romkit.projections import Projection
from romkit.select import Policy, preferred, search
from romkit.verbs.fit import fit
from romkit.verbs.law import trial_rows
from romkit.verbs.storage import load, save

if TYPE_CHECKING:
    from romkit.learning.learned import Learned

DEGREES = (0, 1, 2, 3, 4, 5, 6, 8)
"""Total degrees of polynomials that are tried."""

REACHES = (0.3, 1.0, 3.0)
"""Distances over which fields are alike that are tried, in the ranges of the parameters."""

PROJECTION = "projection.safetensors"


RULES: dict[str, Smoother] = {
    "splines": Spline(),
    "nearest fields": Nearest(),
    **{f"polynomials of degree {degree}": Polynomial(degree) for degree in DEGREES},
    **{
        f"kriging, {covariance.__name__}, reach {reach:g}": Kriging(covariance, reach)
        for covariance in (matern, squared_exponential)
        for reach in REACHES
    },
}
"""Smoothers of the context that are tried, by name.

All are linear in the fields, so that coordinates in a basis of all fields have the same weights: they
are POD with interpolation.
"""


@dataclass(frozen=True)
class FieldInterpolation(Interpolation):
    """Way between steady fields."""

    def __str__(self) -> str:
        """Return name of the rule."""
        (name,) = [name for name, smoother in RULES.items() if smoother == self.smoother]
        return name


@dataclass(frozen=True, eq=False)
class SteadyModel(Display):
    """Fields as functions of parameters, which `romkit.learn` returns for data without a time.

    Attributes:
        runs: fields that are interpolated, with their intervals.
        rule: smoother of the context, by name; `report` has a row for each that was tried.
        report: rows of candidates.
        errors: of each field that was left out, of the prediction, of the nearest field, and of the
            mean of the fields [deviations of the data].

    Source: Ly, Tran (2001), Modeling and control of physical processes using proper orthogonal
    decomposition (POD with interpolation).

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> import romkit
        >>> mu, x = np.linspace(1, 3, 9), np.linspace(0, 1, 20)
        >>> u = xr.DataArray(np.exp(-mu[:, None] * x), {"mu": mu, "x": x}, ("mu", "x"), name="u")
        >>> model = romkit.learn(u.to_dataset(), "mu")
        fields   9 without a time, n = 20: u (x 20), float64
        context  mu 1 ... 3 (float)
        >>> bool(abs(model.predict(mu=2.1).u - np.exp(-2.1 * x)).max() < 1e-4)
        True
    """

    runs: InterpolatedRuns
    rule: str
    report: Sequence[Mapping[str, object]]
    errors: Mapping[str, Array]

    @property
    def error(self) -> float:
        """Mean error of predictions at contexts that were left out [deviations of the data]."""
        return float(np.mean(self.errors["prediction"]))

    @property
    def projection(self) -> Projection:
        """Names, units and ranges of the data."""
        return self.runs.projection

    @validated
    def predict(
        self, *, level: Part = 0.9, context: dict[str, object] | None = None, **named: object
    ) -> xr.Dataset:
        """Return the fields at a context, with `lower` and `upper` of an interval where there are
        enough fields to tell.

        Args:
            level: share of the truth that is to be within the interval.
            context: parameters by name, where one is called like an argument.
            **named: the context by name.
        """
        run = self.runs.forecast(duration=1.0, dt=1.0, level=level, context=context, **named)
        return datasets.fields(run).isel(time=0, drop=True)

    @validated
    def save(self, folder: FilePath) -> Path:
        """Write the model into a folder, which is made."""
        folder = expanded(folder)
        errors = {name: values.tolist() for name, values in self.errors.items()}
        with atomic_folder(folder) as staged:
            save(self.projection, staged / PROJECTION)
            self.runs.save(staged)
            write_list(
                staged / LEARNED,
                {"rule": self.rule, "report": list(self.report), "errors_of_fields": errors},
            )
        return folder

    @classmethod
    @validated
    def load(cls, folder: FilePath) -> "SteadyModel":
        """Read what `save` wrote.

        Raises:
            FileError: files that are missing, changed, or of another save.
        """
        folder = expanded(folder)
        content = read_list(folder / LEARNED)
        runs = InterpolatedRuns.load(folder, load(folder / PROJECTION))
        errors = {name: np.array(row) for name, row in content["errors_of_fields"].items()}
        runs = replace(runs, smoother=RULES[content["rule"]])
        return cls(runs, content["rule"], content["report"], errors)

    def facts(self) -> dict[str, str]:
        """Return what a person reads first, by name: kind, error beside baselines, and choice."""
        number = self.runs.runs.sizes["trajectory"]
        lines = [f"{self.error:.2g} at contexts that were left out [standard deviations]"]
        for name, errors in self.errors.items():
            if name != "prediction":
                lines.append(f"{np.mean(errors):<8.2g}without a model: the {name}")
        return {
            "learned": f"{number} fields by {self.rule}",
            "error": "\n".join(lines),
            "choice": f"out of {len(self.report)} candidates",
        }

    def __repr__(self) -> str:
        return format_text(self.facts())


def require_motion(model: "Learned | SteadyModel") -> "Learned":
    """Return a model of runs that move; refuse one of steady fields."""
    if isinstance(model, SteadyModel):
        got = "fields without a time, or that do not move"
        fix = "learn them in Python, romkit.learn(data, context).predict(...)"
        raise InputError("data", expected="runs that move", got=got, fix=fix)
    return model


def steady_fields(data: xr.Dataset, *, settled: float = 1e-6) -> xr.Dataset | None:
    """Return the first states of runs that do not move, at two times, and print what they are; None
    for others.

    `settled`: range along time, in the deviation of the data, up to which a component is at rest.

    Raises:
        InputError: values that are missing.
    """
    if "control" in data:
        return None
    least = settled * deviations(data)
    states = data["state"].values
    # most runs move by their ends, and need no look at all of them
    if (np.abs(states[:, -1] - states[:, 0]) > least).any():
        return None
    spans = np.fmax.reduce(states, axis=1) - np.fmin.reduce(states, axis=1)  # (C, n)
    if (spans > least).any():
        return None
    fields = data[["state"]].isel(time=[0, 0]).assign_coords(time=TWICE)
    if not np.isfinite(fields["state"].values).all():
        fix = "fill them, or leave these fields out"
        raise InputError("state", expected="numbers in each field", got="missing ones", fix=fix)
    lines = datasets.summary(fields).splitlines()
    about_states, about_context = (line.split(maxsplit=1)[1] for line in lines[1:3])
    count, n = data.sizes["trajectory"], data.sizes["component"]
    print(f"fields   {count} without a time, n = {n}: {about_states}\ncontext  {about_context}")
    return fields


def learned_steady(
    spaces: Spaces, test: xr.Dataset | None, seconds: float, policy: Policy
) -> SteadyModel:
    """Choose a smoother by fields that are left out, and interpolate all fields by it.

    Args:
        spaces: of fields as of `steady_fields`, each context a fold: a fit costs next to nothing.
        test: fields that judge the model in place of left-out ones; None for these.
        seconds: of the processor, about.
        policy: rule of the choice.
    """
    train = spaces.data
    folds = spaces.folds
    smoothers = _determined(*contexts_of(train).shape)
    candidates = [
        RunsCandidate(spaces, FieldInterpolation(smoother), least=0.0) for smoother in smoothers
    ]
    order = preferred(search((), len(folds), policy, seconds, candidates), policy)
    best = order[0].candidate
    projection = fit("identity", best.spaces.data)
    runs = best.interpolation.fitted(projection, best.spaces.data)
    if test is None:
        prediction = np.concatenate([best.errors(fold) for fold in range(len(folds))])
        baselines = [
            _baseline_errors(spaces.kept(fold), train, rows) for fold, rows in enumerate(folds)
        ]
    else:
        followed = runs.follow(best.spaces.like(test))["state"].values
        prediction = _distance(followed[:, 0] - test["state"].values[:, 0], train)
        baselines = [_baseline_errors(train, test, np.arange(test.sizes["trajectory"]))]
    nearest, mean = (np.concatenate(errors) for errors in zip(*baselines, strict=True))
    errors = {"prediction": prediction, "nearest field": nearest, "mean of the fields": mean}
    return SteadyModel(runs, str(best.interpolation), trial_rows(order, best, policy), errors)


def _determined(fields: int, parameters: int, *, oversampling: int = 2) -> list[Smoother]:
    """List the smoothers that so many fields determine.

    `oversampling`: fields for each term of a polynomial, at least. Source: Hosder, Walters,
    Balch (2007), Efficient sampling for non-intrusive polynomial chaos applications, which
    finds two.
    """
    smoothers = []
    for smoother in RULES.values():
        terms = 0
        if isinstance(smoother, Polynomial):
            terms = math.comb(smoother.degree + parameters, parameters)
        if oversampling * terms <= fields:
            smoothers.append(smoother)
    return smoothers


def _baseline_errors(train: xr.Dataset, test: xr.Dataset, rows: Array | Tensor) -> tuple:
    """Return errors (k,) of the nearest field and of the mean in place of some of other data."""
    truth = test["state"].values[np.asarray(rows), 0]
    states = train["state"].values[:, 0]
    contexts = scaled_contexts(train, train)
    wanted = scaled_contexts(test, train)[np.asarray(rows)]
    nearest = np.linalg.norm(wanted[:, None] - contexts, axis=-1).argmin(1)
    return _distance(states[nearest] - truth, train), _distance(states.mean(0) - truth, train)


def _distance(error: Array, train: xr.Dataset) -> Array:
    """Return the root mean square (k,) of errors (k, n) over components [deviations of the data]."""
    return np.sqrt(np.square(error / deviations(train)).mean(-1))
