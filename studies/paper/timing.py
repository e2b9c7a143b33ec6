"""What a preset would take, from a few epochs of one task per system: NcAE on clean data, all seeds.

python -m studies.paper.timing paper

Writes results/timing.json; an entry is a preset, a system and a device.
"""

import json
import sys
import time
from pathlib import Path

import torch

import romkit
from romkit.core import runtime
from romkit.core.files import atomic
from romkit.projections import Projection
from romkit.verbs.presets import PRESETS
from studies.paper import datasets
from studies.paper.tasks import Config, SystemPlan, config, tasks

RESULTS = Path(__file__).parent / "results" / "timing.json"
EPOCHS = {"lorenz96": 60, "pendulum": 6}


def main(plans: Config, results: Path = RESULTS) -> None:
    """Time a task of each system on the GPU if there is one, else on one core, and add it to the file."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for plan in plans.systems:
        entry = {f"{plans.name}/{plan.name}/{device}": measure(plans, plan, EPOCHS[plan.name], device)}
        found = json.loads(results.read_text()) if results.exists() else {}
        with atomic(results) as temporary:
            temporary.write_text(json.dumps(found | entry, indent=1) + "\n")
        print(json.dumps(entry, indent=1), flush=True)


def measure(
    plans: Config, plan: SystemPlan, epochs: int, device: str, *, engine: str = "compiled"
) -> dict[str, object]:
    """Seconds per epoch after compiling, and hours for the training and for all trainings of this system.

    A tuned variant counts as one training more, which is about what its trials take.
    """
    seconds = []
    for number in (1, 2, 2 + epochs):  # the first compiles
        started = _clock(device)
        model = _fit(plans, plan, number, engine)
        seconds.append(_clock(device) - started)
    per_epoch = (seconds[2] - seconds[1]) / epochs
    settings = dict(plans.settings)
    whole = settings.get("epochs", PRESETS[plans.recipe](plan.name, "ncae").snapshots.epochs)
    hours = per_epoch * whole / 3600
    recipe = model.report["seeds"][0]["recipe"]["snapshots"]
    trainings = sum(2 if t.kind == "tuned" else 1 for t in tasks(plans.name) if getattr(t, "system", None) == plan.name)
    return {
        "seconds_per_epoch": per_epoch,
        "epochs": whole,
        "seeds": len(plans.seeds),
        "hours_per_training": hours,
        "trainings": trainings,
        "hours_in_all": hours * trainings,
        "batch_size": recipe["batch_size"],
        "optimizer": recipe["optimizer"],
        "device": runtime.device_name(device),
        "versions": runtime.versions(),
    }


def _fit(plans: Config, plan: SystemPlan, epochs: int, engine: str) -> Projection:
    train = datasets.train_set(plan.name, plan.parameters, plan.data_seed)
    settings = {**dict(plans.settings), "epochs": epochs}
    return romkit.fit("ncae", train, seeds=plans.seeds, preset=plans.recipe, engine=engine, **settings)


def _clock(device: str) -> float:
    """CPU time on a core, which other work does not disturb; wall time on a GPU."""
    return time.process_time() if device == "cpu" else time.perf_counter()


if __name__ == "__main__":
    main(config(sys.argv[1] if sys.argv[1:] else "paper"))
