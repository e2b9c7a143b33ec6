"""`romkit.compare`: projections and laws in all combinations, fitted and scored on one split."""

import dataclasses
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import xarray as xr
from filelock import FileLock

from romkit import tasks
from romkit.core import checks
from romkit.core.boundary import Count, FilePath, Part, Seed, validated
from romkit.core.errors import InputError, one_line
from romkit.core.files import expanded, make_folder
from romkit.data import check_states, open_dataset, save_dataset, split
from romkit.integrators import DYNAMICS, LAWS, Estimator, LatentDynamics
from romkit.projections import METHODS, Projection
from romkit.verbs.fit import fit
from romkit.verbs.runs import rollout
from romkit.verbs.storage import load, save

DATA, KNOWN, PROJECTIONS = "data.nc", ".sha256", "projections"
"""Names in the folder of a comparison: data, their digest, and projections, which combinations share."""

MEANING = ("system", "parameters", "layout")
"""Attributes of a dataset that change what is computed; others say how it came about."""


@dataclass(frozen=True)
class Combination(tasks.Task):
    """One projection with one law, on the training trajectories of a file, scored on the held-out ones.

    `method` and `law` are names, their settings JSON.
    """

    code_version: ClassVar[int] = 1
    label: str
    data: str
    digest: str
    method: str
    method_settings: str
    law: str
    law_settings: str
    test: float
    seed: Seed

    @property
    def name(self) -> str:
        return self.label

    def run(self) -> xr.Dataset:
        train, test = split(self._data(), self.test, seed=self.seed)
        projection = self._projection(train)
        started = time.perf_counter()
        dynamics = self._dynamics(projection, train)
        seconds = time.perf_counter() - started
        scores = rollout(test, projection, dynamics=dynamics)
        scores = scores if "trajectory" in scores.dims else scores.expand_dims("trajectory")
        kept = scores[["nrmse", "nrmse_projected", "valid_time", "status"]].reset_coords(drop=True)
        text = "\n".join(dynamics.details()) if hasattr(dynamics, "details") else str(dynamics)
        found = {"seconds_projection": projection.report.get("seconds", 0.0), "seconds_law": seconds, "law": text}
        return kept.assign({key: ((), value) for key, value in found.items()})

    def _data(self) -> xr.Dataset:
        file = Path(self.data)
        data = open_dataset(file)
        if not _is_known(file, self.digest):
            fix = "give each comparison a folder of its own"
            raise InputError("folder", expected="the data of this comparison", got="those of another one", fix=fix)
        return data

    def _projection(self, train: xr.Dataset) -> Projection:
        """Load the projection that all combinations of this method share, or train and save it."""
        facts = [self.digest, self.method, self.method_settings, self.test, self.seed]
        name = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
        file = Path(self.data).parent / PROJECTIONS / f"{self.method}-{name}.safetensors"
        with FileLock(f"{file}.lock"):
            if file.exists():
                return load(file)
            projection = fit(self.method, train, seed=self.seed, **_settings(self.method_settings))
            save(projection, file)
        return projection

    def _dynamics(self, projection: Projection, train: xr.Dataset) -> LatentDynamics:
        settings = _settings(self.law_settings)
        if self.law in DYNAMICS:
            return DYNAMICS[self.law](**settings)
        return LAWS[self.law](**settings).fit(projection, train, seed=self.seed)


@validated
def compare(
    data: xr.Dataset,
    methods: Sequence[str] | Mapping[str, Mapping[str, object]],
    laws: Sequence[str | Estimator] | Mapping[str, str | Estimator],
    *,
    folder: FilePath = "runs/compare",
    test: Part = 0.25,
    seed: Seed = 0,
    workers: Count | None = None,
    **settings: object,
) -> xr.Dataset:
    """Fit every method with every law, and score them on held-out trajectories.

    Each combination is a file in the folder; what is complete there for the same data and settings is not computed
    again, so that a comparison that was interrupted goes on, and one that is extended computes what is new.

    Args:
        data: in romkit's schema.
        methods: names of `romkit.projections.METHODS`; or for each label its settings, with `method` where the label is
            no name: `{"pod": {}, "wide": {"method": "ncae", "layers": (2, 40, 200)}}`.
        laws: names of `LAWS`, or of `DYNAMICS` for data that name their system, or estimators; or those by labels.
        folder: of the results; it is made.
        test: share of the contexts that is held out.
        seed: of the split and of the fits.
        workers: processes; by default all is computed in this one, one after the other.
        **settings: of `romkit.fit` for all methods: `latent_dim=2`, `epochs=100`.

    Returns:
        `nrmse` (projection, law, trajectory, time), `nrmse_projected` (projection, trajectory, time), the error of the
        projection alone, `valid_time` (projection, law, trajectory), `diverged` (projection, law), how many
        trajectories were lost, `seconds_projection` (projection), `seconds_law` and `equations`, the law as text,
        (projection, law). A combination that failed is NaN; the attribute `failed` says where its traceback is.

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
    chosen, wanted = _methods(methods, settings), _laws(laws)
    make_folder(folder / PROJECTIONS)
    digest = _written(check_states(data), folder / DATA)
    table = {
        (method, law): Combination(
            f"{method}+{law}", str(folder / DATA), digest, *chosen[method], *wanted[law], test, seed
        )
        for method in chosen
        for law in wanted
    }
    executor = tasks.Executor() if workers is None else tasks.Executor("local", min(workers, len(table)))
    sweep = tasks.run(table.values(), folder, executor)
    return _assembled(table, folder, sweep)


def _methods(methods: object, common: Mapping[str, object]) -> dict[str, tuple[str, str]]:
    """Name and settings of each method, by label."""
    found = {}
    for label in _several("methods", methods):
        own = dict(common) | dict(methods[label] if isinstance(methods, Mapping) else {})
        name = checks.one_of("methods", own.pop("method", label), METHODS)
        found[label] = name, _json("methods", own)
    return found


def _laws(laws: object) -> dict[str, tuple[str, str]]:
    """Name and settings of each law, by label."""
    several = _several("laws", laws)
    if not isinstance(laws, Mapping):
        labels = [law if isinstance(law, str) else _name(law) for law in several]
        laws = dict(zip(_several("laws", labels), several, strict=True))
    found = {}
    for label, law in laws.items():
        own = {} if isinstance(law, str) else {f.name: getattr(law, f.name) for f in dataclasses.fields(law)}
        name = checks.one_of("laws", law, [*LAWS, *DYNAMICS]) if isinstance(law, str) else _name(law)
        found[label] = name, _json("laws", own)
    return found


def _name(law: object) -> str:
    for name, kind in LAWS.items():
        if type(law) is kind:
            return name
    fix = f"give one of {', '.join([*LAWS, *DYNAMICS])}, or an instance of it"
    raise InputError("laws", expected="laws of romkit", got=repr(law)[:60], fix=fix)


def _several(argument: str, value: object) -> list:
    """The entries, or the labels of a dict."""
    several = [value] if isinstance(value, str | Estimator) else list(value)
    names = [x if isinstance(x, str) else repr(x) for x in several]
    if several and len(set(names)) == len(names):
        return several
    raise InputError(argument, expected="one or more, each once", got=repr(value)[:60], fix="name them by a dict")


def _json(argument: str, settings: Mapping[str, object]) -> str:
    try:
        return json.dumps(dict(settings), sort_keys=True)
    except TypeError as error:
        fix = "give numbers, text and tuples, or compare by hand"
        raise InputError(argument, expected="settings that are plain values", got=str(error), fix=fix) from error


def _settings(text: str) -> dict[str, object]:
    return {name: _tuples(value) for name, value in json.loads(text).items()}


def _tuples(value: object) -> object:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _written(data: xr.Dataset, file: Path) -> str:
    """A digest of the data, which are in the file then."""
    numbers = hashlib.sha256(json.dumps([str(data.attrs.get(name)) for name in MEANING]).encode())
    for name in sorted(map(str, data.variables)):
        variable = data[name]
        declared = sorted((str(key), str(value)) for key, value in variable.attrs.items())
        numbers.update(f"{name} {variable.dims} {variable.dtype} {declared}".encode())
        values = variable.values.astype(str) if variable.dtype.kind == "O" else variable.values
        numbers.update(np.ascontiguousarray(values).tobytes())
    digest = numbers.hexdigest()
    if not (file.exists() and _is_known(file, digest)):
        known = file.with_suffix(KNOWN)
        known.unlink(missing_ok=True)  # first, so that it is never that of other data than the file has
        save_dataset(data, file)
        known.write_text(digest)
    return digest


def _is_known(file: Path, digest: str) -> bool:
    """Whether this is the digest of the data that are in a file."""
    known = file.with_suffix(KNOWN)
    return known.exists() and known.read_text() == digest


def _assembled(table: Mapping[tuple[str, str], Combination], folder: Path, sweep: tasks.Sweep) -> xr.Dataset:
    rows = {
        key: open_dataset(folder / f"{task.name}.nc") for key, task in table.items() if task.name not in sweep.failed
    }
    failed = {name: str(log) for name, log in sweep.failed.items()}
    if not rows:
        log = next(iter(sweep.failed.values()))
        why = one_line(log.read_text().strip().splitlines()[-1])
        expected, fix = "a combination of methods, laws and settings that works on these data", f"see {log}"
        raise InputError("data", expected=expected, got=f"{len(failed)} that failed ({why[:300]})", fix=fix)
    like = next(iter(rows.values()))
    empty = like[["nrmse", "nrmse_projected", "valid_time"]] * np.nan
    methods, laws = (list(dict.fromkeys(key[k] for key in table)) for k in (0, 1))
    grid = []
    for method in methods:
        row = [_entry(rows.get((method, law)), empty) for law in laws]
        grid.append(xr.concat(row, xr.DataArray(laws, dims="law", name="law"), coords="minimal", compat="override"))
    found = xr.concat(
        grid, xr.DataArray(methods, dims="projection", name="projection"), coords="minimal", compat="override"
    )
    for name in ("nrmse_projected", "seconds_projection"):  # the same for all laws
        found[name] = found[name].mean("law", keep_attrs=True)
    return found.assign_attrs(folder=str(folder), failed=json.dumps(failed))


def _entry(scores: xr.Dataset | None, empty: xr.Dataset) -> xr.Dataset:
    if scores is None:
        facts = {"diverged": np.nan, "seconds_projection": np.nan, "seconds_law": np.nan, "equations": "failed"}
        return empty.assign(facts)
    lost = float((scores["status"] != 0).sum())
    return scores.drop_vars("status").rename(law="equations").assign(diverged=lost).drop_attrs(deep=False)
