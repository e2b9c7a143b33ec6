"""The tasks that train: one method under one condition, all seeds in one stack, and everything measured on it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.projections import Projection
from romkit.projections.constrained import Modulated
from romkit.tasks import Task
from romkit.training.batches import batches_per_epoch
from studies.paper import datasets
from studies.paper.config import Settings
from studies.paper.evaluation import evaluate, evaluate_clean, latent_orbits, parameter_count
from studies.paper.propositions import check_propositions
from studies.recipes import resolved

CURVE = 100
"""Epochs of which the training loss is kept."""
UNSCALED = [-1.0, 1.0]
"""The training range that leaves a context as it is."""


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
        parts = (self.system, self.kind, self.condition if self.condition != "clean" else "", self.method, self.label)
        return "-".join(part.replace(" ", "-") for part in parts if part)

    @property
    def resolved(self) -> Mapping[str, object]:
        system = datasets.system(self.system, self.parameters)
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
        """The result of this task from its trained stack."""
        test = datasets.test_set(self.system, self.parameters, self.test_every)
        data = evaluate_clean(model, test) if self.condition != "clean" else self._measure_all(model, test)
        return data.assign(_history(model)).assign_coords(seed=list(self.seeds)).assign_attrs(self._facts(model, train))

    def _measure_all(self, model: Projection, test: xr.Dataset) -> xr.Dataset:
        beyond = datasets.ood_set(self.system, self.parameters, self.test_every)
        data = evaluate(model, test, beyond)
        data["latent_orbits"] = latent_orbits(model, test)
        if isinstance(model, Modulated) and model.idempotent:
            data = data.assign({name: ("seed", v) for name, v in check_propositions(model, test).items()})
        return data

    def _facts(self, model: Projection, train: xr.Dataset) -> dict[str, object]:
        recipe = model.report["seeds"][0]["recipe"]
        used, terms = recipe["snapshots"], {term["term"]: term for term in recipe["loss"]}
        snapshots = train.sizes["trajectory"] * -(-train.sizes["time"] // used["every"])
        facts = {key: value for key, value in asdict(self).items() if isinstance(value, str | int)}
        facts |= {name: used[name] for name in ("epochs", "batch_size", "optimizer", "learning_rate", "noise_unit")}
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
    return train.assign_coords({name: train[name].assign_attrs(training_range=UNSCALED) for name in names})


def _history(model: Projection) -> dict[str, object]:
    """Losses (seed, epoch) of some of the epochs, and which seeds diverged."""
    reports: Sequence[Mapping[str, object]] = model.report["seeds"]
    losses = torch.tensor([report["losses"] for report in reports]).numpy()
    kept = np.unique(np.linspace(0, losses.shape[1] - 1, CURVE).round().astype(int))
    return {
        "loss": (("seed", "epoch"), losses[:, kept].astype(np.float32), {}),
        "epoch": ("epoch", kept + 1),
        "diverged": ("seed", np.array([report["diverged"] for report in reports], dtype=np.int8)),
    }
