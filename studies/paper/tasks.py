"""Tasks of the study: one method trained under one condition, all seeds in one stack, and
everything measured on it.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.data import snapshots
from romkit.engine.threads import one_thread
from romkit.projections import METHODS as KINDS
from romkit.projections import Projection
from romkit.projections.constrained import Constrained, Modulated
from romkit.tasks import Task
from romkit.training import Penalty
from romkit.training.batches import batches_per_epoch
from romkit.verbs.presets import PRESETS
from studies.paper import datasets
from studies.paper.datasets import METHODS, NOISE_KINDS, NOISE_UNIT, SIGMAS, VELOCITY_TERM
from studies.paper.evaluation import evaluate, evaluate_clean, latent_orbits, parameter_count
from studies.paper.propositions import check_propositions
from studies.recipes import make_system, resolved
from studies.runner import Settings, Study, frozen

ABLATIONS = ("ncae-bias", "ncae-slope")
"""One modulation channel of the NcAE at a time."""
CONTEXT_FREE = ("cae", "ae")
"""Methods that context noise does not reach."""
DATA_SEED_METHODS = ("ncae", "cae", "ae")
"""Methods of which the effect of the training set is measured."""
CURVE = 100
"""Epochs of which the training loss is kept."""
UNSCALED = [-1.0, 1.0]
"""The training range that leaves a context as it is."""
HELD_OUT, VALIDATION_EVERY = 5, 10
"""Each how many-th training trajectory, and each how many-th snapshot of it, is for validation
during the trials.
"""
RATES = (0.1, 0.3, 1.0, 3.0)
"""Learning rates of methods without a penalty, in units of the recipe's."""
RATES_WITH_PENALTY, PENALTIES = (0.3, 1.0), (1.0, 10.0)
"""Learning rates and penalty weights of the others, in units of the recipe's."""


@dataclass(frozen=True)
class Plan:
    """A system of a preset, and what is trained on it; presets.toml says what each field is."""

    system: str
    recipe: str
    data_seed: int
    seeds: int = 10
    shared: Settings = ()
    settings: Settings = ()
    parameters: Settings = ()
    test_every: int = 1
    data_seeds: tuple[int, ...] = ()
    decays: tuple[float, ...] = ()
    trial_seeds: tuple[int, ...] = (100, 101, 102)
    sigmas: tuple[float, ...] = SIGMAS
    transients: tuple[float, ...] = (100.0, 200.0)
    tuned: tuple[str, ...] = METHODS

    def clean(self) -> Iterator[Task]:
        """Clean training of every method; the unconstrained ones with and without the velocity
        term.
        """
        for method in METHODS + ABLATIONS:
            yield self.training("clean", method)
        for method, weight in VELOCITY_TERM.items():
            yield self.training("clean", method, velocity_weight=1.0 - weight)

    def noisy(self) -> Iterator[Task]:
        """Training under noise; context noise does not reach methods without a context."""
        for kind, method, sigma in itertools.product(NOISE_KINDS, METHODS, self.sigmas):
            if kind == "state" or method not in CONTEXT_FREE:
                yield self.training("noise", method, f"{kind} {sigma:.2f}", **_noise(kind, sigma))

    def choices(self) -> Iterator[Task]:
        """Yield the effect of what the paper leaves open: training set, transient, context scaling."""
        for seed, method in itertools.product(self.data_seeds, DATA_SEED_METHODS):
            yield replace(self, data_seed=seed).training("data", method, label=f"set {seed}")
        for transient in self.transients:
            parameters = (
                *((k, v) for k, v in self.parameters if k != "transient"),
                ("transient", transient),
            )
            yield replace(self, parameters=parameters).training(
                "transient", "ncae", label=f"{transient:g}"
            )
        yield replace(self.training("scaling", "ncae", label="none"), context_scaling="none")

    def units(self) -> Iterator[Task]:
        """Yield the effect of the unit of σ at training, half the range of the context here; for
        states both are the same.

        Physical units are left out: at evaluation, where they cost nothing, they miss the published
        values by far.
        """
        for kind, sigma in itertools.product(("both", "context"), self.sigmas):
            noise = _noise(kind, sigma, unit="scale")
            yield self.training("unit", "ncae", f"{kind} {sigma:.2f}", label="scale", **noise)

    def training(
        self, kind: str, method: str, condition: str = "clean", label: str = "", **settings: object
    ) -> "Training":
        """Training with settings of `romkit.fit` beyond those of the plan."""
        weight = settings.setdefault("velocity_weight", VELOCITY_TERM.get(method, 1.0))
        if method in VELOCITY_TERM:
            label = f"{label} velocity {weight:g}".strip()
        whole = (*self.shared, *self.settings, *settings.items())
        return self.task(Training, kind, method, settings=whole, condition=condition, label=label)

    def task(self, cls: type, kind: str, method: str, **more: object) -> "Training":
        """Task on the data of the plan."""
        own = {
            name: getattr(self, name)
            for name in ("recipe", "data_seed", "parameters", "test_every")
        }
        return cls(kind, self.system, method, seeds=tuple(range(self.seeds)), **own, **more)


def tasks(preset: str) -> list[Task]:
    """Tasks of a preset, the most valuable first."""
    table = Study("paper").presets[preset]
    systems, shared = table.pop("systems"), frozen(table.pop("settings", {}))
    plans = lorenz96, pendulum = [
        Plan(name, shared=shared, **{key: frozen(value) for key, value in (table | own).items()})
        for name, own in systems.items()
    ]
    found = [
        Bifurcation(parameters=lorenz96.parameters),
        *lorenz96.clean(),
        *pendulum.clean(),
        *lorenz96.noisy(),
    ]
    found += [*lorenz96.choices(), *lorenz96.units(), *pendulum.noisy(), *pendulum.units()]
    for plan in plans:  # the effect of the weight decay on NcAE
        found += [
            plan.training("decay", "ncae", label=f"{decay:g}", weight_decay=decay)
            for decay in plan.decays
        ]
    for plan in plans:
        more = {"settings": shared, "trial_seeds": plan.trial_seeds}
        found += [plan.task(Tuned, "tuned", method, **more) for method in plan.tuned]
    return found


def _noise(kind: str, sigma: float, unit: str = NOISE_UNIT) -> dict[str, object]:
    """Return settings of `romkit.fit` for noise of this kind and level."""
    levels = {f"{part}_noise": sigma for part in ("state", "context") if kind in (part, "both")}
    return levels if kind == "state" else {**levels, "noise_unit": unit}


@dataclass(frozen=True)
class Bifurcation(Task):
    """Dominant wave numbers over a grid of F, and the state over time at the first and the last."""

    code_version: ClassVar[int] = 1
    parameters: Settings = ()
    members: int = 61
    every: int = 5

    @property
    def name(self) -> str:
        return "lorenz96-bifurcation"

    def run(self) -> xr.Dataset:
        model = make_system("lorenz96", self.parameters)
        F = model.context[0]
        data = model.dataset(F=np.linspace(F.low, F.high, self.members))
        ends = data["state"].values[[0, -1], :: self.every].astype(np.float32)
        return xr.Dataset(
            {
                "wave_number": ("forcing", data["wave_number"].values.astype(np.int8)),
                "state": (("end", "time", "component"), ends),
            },
            coords={"forcing": data["F"].values, "time": data["time"].values[:: self.every]},
            attrs={"kind": "bifurcation", "transient": model.transient},
        )


@dataclass(frozen=True)
class Training(Task):
    """One method, trained and measured.

    Attributes:
        kind: which part of the study this is.
        system, method: by name.
        condition: of the training: "clean", or kind and level of its noise.
        recipe: romkit's training preset.
        settings: of `romkit.fit`, on top of the recipe.
        seeds: of the models.
        data_seed: of the training set.
        parameters: of the system, where they differ from its defaults.
        test_every: each how many-th test snapshot is evaluated.
        context_scaling: "range" maps the training range to [-1, 1], "none" leaves physical units.
        label: what tells this task from others of its kind, for the name.
    """

    code_version: ClassVar[int] = 1
    kind: str
    system: str
    method: str
    recipe: str
    seeds: tuple[int, ...]
    data_seed: int
    condition: str = "clean"
    settings: Settings = ()
    parameters: Settings = ()
    test_every: int = 1
    context_scaling: str = "range"
    label: str = ""

    @property
    def name(self) -> str:
        parts = (
            self.system,
            self.kind,
            self.condition if self.condition != "clean" else "",
            self.method,
            self.label,
        )
        return "-".join(part.replace(" ", "-") for part in parts if part)

    @property
    def resolved(self) -> Mapping[str, object]:
        system = make_system(self.system, self.parameters)
        return resolved(self.method, system, {"preset": self.recipe, **dict(self.settings)})

    def run(self) -> xr.Dataset:
        train = datasets.train_set(self.system, self.parameters, self.data_seed)
        model = romkit.fit(
            self.method,
            _with_scaling(train, self.context_scaling),
            seeds=self.seeds,
            preset=self.recipe,
            **dict(self.settings),
        )
        return self.measure(model, train)

    def measure(self, model: Projection, train: xr.Dataset) -> xr.Dataset:
        """Return the result of this task from its trained stack."""
        test = datasets.test_set(self.system, self.parameters, self.test_every)
        data = (
            evaluate_clean(model, test)
            if self.condition != "clean"
            else self._measure_all(model, test)
        )
        return (
            data.assign(_history(model))
            .assign_coords(seed=list(self.seeds))
            .assign_attrs(self._facts(model, train))
        )

    def _measure_all(self, model: Projection, test: xr.Dataset) -> xr.Dataset:
        beyond = datasets.ood_set(self.system, self.parameters, self.test_every)
        data = evaluate(model, test, beyond)
        data["latent_orbits"] = latent_orbits(model, test)
        if isinstance(model, Modulated) and model.idempotent:
            data = data.assign(
                {name: ("seed", v) for name, v in check_propositions(model, test).items()}
            )
        return data

    def _facts(self, model: Projection, train: xr.Dataset) -> dict[str, object]:
        recipe = model.report["seeds"][0]["recipe"]
        used, terms = recipe["snapshots"], {term["term"]: term for term in recipe["loss"]}
        snapshots = train.sizes["trajectory"] * -(-train.sizes["time"] // used["every"])
        facts = {key: value for key, value in asdict(self).items() if isinstance(value, str | int)}
        facts |= {
            name: used[name]
            for name in ("epochs", "batch_size", "optimizer", "learning_rate", "noise_unit")
        }
        facts |= {
            "velocity_weight": terms["Reconstruction"]["velocity_weight"],
            "penalty_weight": terms["Penalty"]["weight"] if "Penalty" in terms else 0.0,
            "parameter_count": parameter_count(model),
            "steps": used["epochs"] * batches_per_epoch(snapshots, used["batch_size"]),
        }
        if "F" in train.coords:
            facts["training_contexts"] = sorted(train["F"].values.tolist())
        return facts


def _with_scaling(train: xr.Dataset, scaling: str) -> xr.Dataset:
    if scaling == "range":
        return train
    names = romkit.data.context_names(train)
    return train.assign_coords(
        {name: train[name].assign_attrs(training_range=UNSCALED) for name in names}
    )


def _history(model: Projection) -> dict[str, object]:
    """Return losses (seed, epoch) of some of the epochs, and which seeds diverged."""
    reports = model.report["seeds"]
    losses = torch.tensor([report["losses"] for report in reports]).numpy()
    kept = np.unique(np.linspace(0, losses.shape[1] - 1, CURVE).round().astype(int))
    return {
        "loss": (("seed", "epoch"), losses[:, kept].astype(np.float32), {}),
        "epoch": ("epoch", kept + 1),
        "diverged": ("seed", np.array([report["diverged"] for report in reports], dtype=np.int8)),
    }


@dataclass(frozen=True)
class Tuned(Training):
    """Four trials on a part of the training contexts, then a training on all of them with the
    settings that won.

    The position and velocity terms weigh the same for all methods. `trial_seeds` are not among
    `seeds`.
    """

    trial_seeds: tuple[int, ...] = ()

    @property
    def resolved(self) -> Mapping[str, object]:
        return {**super().resolved, "trials": trials(self.recipe, self.system, self.method)}

    def run(self) -> xr.Dataset:
        train = datasets.train_set(self.system, self.parameters, self.data_seed)
        held_out = np.arange(train.sizes["trajectory"]) % HELD_OUT == HELD_OUT // 2
        part, validation = train.isel(trajectory=~held_out), train.isel(trajectory=held_out)
        grid = trials(self.recipe, self.system, self.method)
        scores = [self._score(part, validation, trial) for trial in grid]
        best = grid[int(np.argmin(scores))]
        model = self._fit(train, self.seeds, best)
        facts = {
            "trial_rates": [dict(t)["learning_rate"] for t in grid],
            "trial_scores": [float(s) for s in scores],
        }
        return self.measure(model, train).assign_attrs(
            facts | {"trial_penalties": [dict(t)["penalty_weight"] for t in grid]}
        )

    def _score(self, part: xr.Dataset, validation: xr.Dataset, trial: Settings) -> float:
        """Median over the trial seeds of the loss on the validation trajectories; infinite if that
        overflows.
        """
        losses = validation_loss(self._fit(part, self.trial_seeds, trial), validation)
        return float(np.nan_to_num(np.median(losses), nan=np.inf))

    def _fit(self, data: xr.Dataset, seeds: tuple[int, ...], trial: Settings) -> Projection:
        settings = {**dict(self.settings), **dict(trial), "velocity_weight": 1.0}
        return romkit.fit(self.method, data, seeds=seeds, preset=self.recipe, **settings)


def trials(recipe: str, system: str, method: str) -> list[Settings]:
    """Return the settings of the four trials of a method."""
    base = PRESETS[recipe](system, method)
    rate, penalty = (
        base.snapshots.learning_rate,
        next(t.weight for t in base.loss if isinstance(t, Penalty)),
    )
    penalised = issubclass(KINDS[method], Constrained)
    pairs = (
        itertools.product(RATES_WITH_PENALTY, PENALTIES)
        if penalised
        else ((times, 1.0) for times in RATES)
    )
    return [
        (("learning_rate", times * rate), ("penalty_weight", factor * penalty))
        for times, factor in pairs
    ]


def validation_loss(model: Projection, data: xr.Dataset) -> np.ndarray:
    """(S,) mean of ‖x - P(x)‖² + ‖ẋ - DP(x) ẋ‖², in physical units."""
    x, v, c = (tensor.float().unsqueeze(0) for tensor in snapshots(data, every=VALIDATION_EVERY))
    with torch.inference_mode(), one_thread():
        value, tangent = model(c).jvp(x, v)
        return ((x - value).square() + (v - tangent).square()).sum(-1).mean(-1).numpy()
