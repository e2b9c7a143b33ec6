"""`romkit.compare`: projections and laws in all combinations, fitted and scored on one split."""

import dataclasses
import hashlib
import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import xarray as xr
from filelock import FileLock

from romkit import tasks
from romkit.core import checks
from romkit.core.boundary import Count, FilePath, Part, Seed, validated
from romkit.core.errors import InputError, one_line
from romkit.core.files import expanded, make_folder, plain
from romkit.core.parallel import Pool
from romkit.core.types import Entries, NameSequence, Settings
from romkit.data import check_states, open_dataset, save_dataset, split
from romkit.data.schema import add_trajectories
from romkit.integrators import DYNAMICS, LatentDynamics
from romkit.laws import LAWS, Estimator
from romkit.projections import METHODS, Projection
from romkit.verbs.fit import check_settings, fit
from romkit.verbs.rollout import rollout
from romkit.verbs.storage import load, save

PROJECTIONS = "projections"
"""Subfolder of a comparison for projections, which combinations share."""

MEANING = ("system", "parameters", "layout")
"""Attributes of a dataset that change what is computed; others say how it came about."""

OF_THE_PROJECTION = ("nrmse_projected", "parameters", "seconds_projection")
"""Scores that do not depend on the law."""


@dataclass(frozen=True)
class Combination(tasks.Task):
    """One projection with one law, on the training trajectories of a file, scored on the held-out
    ones.

    `method` and `law` are names, with their settings beside them; the digest of the data is in the
    name of the file.
    """

    # raised with each score that is added, so that rows of older files are computed anew
    code_version: ClassVar[int] = 3
    label: str
    data: str
    method: str
    method_settings: Entries
    law: str
    law_settings: Entries
    test: float
    seed: Seed

    @property
    def name(self) -> str:
        return self.label

    def run(self) -> xr.Dataset:
        train, test = split(open_dataset(self.data), self.test, seed=self.seed)
        projection = self._projection(train)
        started = time.perf_counter()
        dynamics = self._dynamics(projection, train)
        seconds = time.perf_counter() - started
        run = add_trajectories(rollout(test, projection, dynamics=dynamics))
        scores = run[["nrmse", "nrmse_projected", "valid_time"]]
        # contexts stay with the data, of which each file would have a copy
        scores = scores.reset_coords(drop=True)
        return scores.drop_attrs(deep=False).assign(
            diverged=((), float((run["status"] != 0).sum())),
            parameters=((), projection.parameter_count),
            seconds_projection=((), projection.report.get("seconds", 0.0)),
            seconds_law=((), seconds),
            equations=((), _describe(dynamics)),
        )

    def _projection(self, train: xr.Dataset) -> Projection:
        """Load the projection that all combinations of this method share, or train and save it."""
        facts = [self.data, self.method, self.method_settings, self.test, self.seed]
        text = json.dumps(facts, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        folder = Path(self.data).parent / PROJECTIONS
        file = folder / f"{self.method}-{name}.safetensors"
        with FileLock(f"{file}.lock"):
            if file.exists():
                return load(file)
            projection = fit(self.method, train, seed=self.seed, **self.method_settings)
            save(projection, file)
        return projection

    def _dynamics(self, projection: Projection, train: xr.Dataset) -> LatentDynamics:
        if self.law in DYNAMICS:
            return DYNAMICS[self.law](**self.law_settings)
        return LAWS[self.law](**self.law_settings).fit(projection, train, seed=self.seed)


def _describe(dynamics: LatentDynamics) -> str:
    """Equations of a law, or the name and settings of other dynamics."""
    if hasattr(dynamics, "details"):
        return "\n".join(dynamics.details())
    return str(dynamics)


@validated
def compare(
    data: xr.Dataset,
    methods: NameSequence | Mapping[str, Settings],
    laws: Sequence[str | Estimator] | Mapping[str, str | Estimator],
    *,
    folder: FilePath = "runs/compare",
    test: Part = 0.25,
    seed: Seed = 0,
    workers: Count | None = None,
    executor: Pool | None = None,
    **settings: object,
) -> xr.Dataset:
    """Fit every method with every law, and score them on held-out trajectories.

    Each combination is a file in the folder; what is complete there for the same data and settings
    is not computed again, so that a comparison that was interrupted goes on, and one that is
    extended computes what is new.

    Args:
        data: in romkit's schema.
        methods: names of `romkit.projections.METHODS`; or for each label its settings, with
            `method` where the label is no name: `{"pod": {}, "wide": {"method": "ncae", "layers":
            (2, 40, 200)}}`.
        laws: names of `LAWS`, or of `DYNAMICS` for data that name their system, or estimators; or
            those by labels.
        folder: of the results; it is made.
        test: share of the contexts that is held out.
        seed: of the split and of the fits.
        workers: processes; by default all is computed in this one, one after the other.
        executor: computes combinations elsewhere, in place of `workers`; its processes must see the
            folder.
        **settings: of `romkit.fit` for all methods: `latent_dim=2`, `epochs=100`.

    Returns:
        `nrmse` (projection, law, trajectory, time), `nrmse_projected` (projection, trajectory,
        time), the error of the projection alone, `valid_time` (projection, law, trajectory),
        `diverged` (projection, law), how many trajectories were lost, `parameters` (projection),
        the stored numbers of the projection (`Projection.parameter_count`), `seconds_projection`
        (projection), `seconds_law` and `equations`, the law as text, (projection, law). A
        combination that failed is NaN; the attribute `failed` says where its traceback is.

    Raises:
        InputError: an unknown method, law or setting, or settings that are no plain values.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.15, 3.16, 3.18])
        >>> table = romkit.compare(data, ["pod"], ["dmd", "galerkin"], latent_dim=2, folder="comparison")
        >>> table.nrmse.dims
        ('projection', 'law', 'trajectory', 'time')
        >>> table.law.values.tolist()
        ['dmd', 'galerkin']
    """
    folder = expanded(folder).absolute()
    method_settings = _methods(methods, settings)
    law_settings = _laws(laws)
    make_folder(folder / PROJECTIONS)
    file = folder / f"data-{digest(check_states(data))[:16]}.nc"
    if not file.exists():
        save_dataset(data, file)
    table = {}
    for (method, fitted), (law, estimated) in itertools.product(
        method_settings.items(), law_settings.items()
    ):
        label = f"{method}+{law}"
        table[method, law] = Combination(label, str(file), *fitted, *estimated, test, seed)
    if executor is None and workers is not None:
        executor = tasks.processes(min(workers, len(table)))
    sweep = tasks.run(table.values(), folder, executor)
    return _score_table(table, folder, sweep)


def check_names(methods: NameSequence, laws: NameSequence, settings: Settings) -> None:
    """Raise InputError for an unknown method, law or setting, before data are made for them."""
    _methods(methods, settings)
    _laws(laws)


Named = tuple[str, dict[str, object]]
"""Name of a method or law, and its settings."""


def _methods(methods: object, common: Settings) -> dict[str, Named]:
    """Return name and settings of each method, by label."""
    named = {}
    for label, entry in _labelled("methods", methods, str).items():
        settings = dict(common)
        if isinstance(entry, Mapping):
            settings |= entry
        method = checks.one_of("methods", settings.pop("method", label), METHODS)
        check_settings(METHODS[method], settings)
        named[label] = (method, plain("methods", settings))
    return named


def _laws(laws: object) -> dict[str, Named]:
    """Return name and settings of each law, by label."""
    named = {}
    for label, law in _labelled("laws", laws, _name).items():
        settings = {}
        if not isinstance(law, str):
            settings = {field.name: getattr(law, field.name) for field in dataclasses.fields(law)}
        named[label] = (_name(law), plain("laws", settings))
    return named


def _name(law: object) -> str:
    """Return name of a law, or of the class of an estimator."""
    names = [*LAWS, *DYNAMICS]
    if isinstance(law, str):
        return checks.one_of("laws", law, names)
    for name, kind in LAWS.items():
        if type(law) is kind:
            return name
    raise InputError(
        "laws",
        expected="laws of romkit",
        got=repr(law)[:60],
        fix=f"give one of {', '.join(names)}, or an instance of it",
    )


def _labelled(argument: str, value: object, label: Callable[[object], str]) -> Entries:
    """Return the entries by their labels, which a dict has already."""
    if isinstance(value, str | Estimator):
        value = [value]
    if isinstance(value, Mapping):
        labelled = dict(value)
    else:
        labelled = {label(entry): entry for entry in value}
    if len(labelled) < len(value) or not labelled:
        raise InputError(
            argument,
            expected="one or more, each once",
            got=repr(value)[:60],
            fix="name them by a dict",
        )
    return labelled


def digest(data: xr.Dataset) -> str:
    """SHA-256 of the numbers of a dataset, and of the attributes that change what is computed from
    them.
    """
    meaning = [str(data.attrs.get(name)) for name in MEANING]
    numbers = hashlib.sha256(json.dumps(meaning).encode())
    for name in sorted(map(str, data.variables)):
        variable = data[name]
        declared = sorted((str(key), str(value)) for key, value in variable.attrs.items())
        kind = f"{name} {variable.dims} {variable.dtype} {declared}"
        numbers.update(kind.encode())
        values = variable.values
        if values.dtype.kind == "O":  # text of any length, whose bytes are addresses
            values = values.astype(str)
        numbers.update(np.ascontiguousarray(values).tobytes())
    return numbers.hexdigest()


def _score_table(
    table: Mapping[tuple[str, str], Combination], folder: Path, sweep: tasks.Sweep
) -> xr.Dataset:
    """Scores of all combinations by projection and law; NaN where one failed."""
    rows = {
        key: open_dataset(folder / f"{task.name}.nc").drop_attrs(deep=False)
        for key, task in table.items()
        if task.name not in sweep.failed
    }
    if not rows:
        log = next(iter(sweep.failed.values()))
        why = one_line(log.read_text(encoding="utf-8").strip().splitlines()[-1])
        raise InputError(
            "data",
            expected="a combination of methods, laws and settings that works on these data",
            got=f"{len(sweep.failed)} that failed ({why[:300]})",
            fix=f"see {log}",
        )
    projections = list(dict.fromkeys(projection for projection, _ in table))
    laws = list(dict.fromkeys(law for _, law in table))
    scores = _arrange(rows, projections, laws)  # each variable (P, L, ...)
    scores["equations"] = scores["equations"].astype(object).fillna("failed").astype(str)
    for name in OF_THE_PROJECTION:
        # all laws have the same number, but for those that failed, which have none
        scores[name] = scores[name].mean("law", keep_attrs=True)
    failed = {name: str(log) for name, log in sweep.failed.items()}
    return scores.assign_attrs(folder=str(folder), failed=json.dumps(failed))


def _arrange(
    rows: Mapping[tuple[str, str], xr.Dataset], projections: NameSequence, laws: NameSequence
) -> xr.Dataset:
    """Return rows as one table, in the order in which methods and laws were named; NaN where there
    is none.
    """
    labels = pd.MultiIndex.from_tuples(rows, names=("projection", "law"))
    cases = xr.Coordinates.from_pandas_multiindex(labels, "case")
    stacked = xr.concat(rows.values(), "case", data_vars="all", coords="minimal", compat="override")
    table = stacked.assign_coords(cases).unstack("case")
    # unstacking sorts the names
    table = table.reindex(projection=projections, law=laws)
    return table.transpose("projection", "law", ...)
