"""Fits, rollouts, laws and files in one process for an hour: memory stays flat, and no file is left open.

python -m tests.endurance.soak 60        # minutes; writes soak.json
"""

import gc
import json
import os
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from tqdm import tqdm

import romkit
from romkit.core import runtime
from romkit.core.files import atomic
from romkit.integrators import SINDy

RESULTS = Path(__file__).with_name("soak.json")
WARM = 0.25
"""Share of the time in which compilers and allocators fill their caches."""


def one_round(folder: Path, number: int) -> None:
    """What a session does: data to a file and back, four trainings, their files, a law, rollouts on both engines."""
    system = romkit.systems.Lorenz96(transient=2.0)
    romkit.data.save_dataset(system.dataset(F=[3.14, 3.15, 3.16], duration=1.0), folder / "data.nc")
    data = romkit.data.open_dataset(folder / "data.nc")
    for method in ("ncae", "flow", "film-ae", "pod"):
        fitted = romkit.fit(method, data, latent_dim=2, epochs=2, seed=number, verbose=False)
        model = romkit.load(romkit.save(fitted, folder / f"{method}.safetensors"))
        romkit.rollout(system, model, F=3.15, duration=0.5, engine="torch")
    law = SINDy(degree=2).fit(model, data)
    romkit.load(romkit.save(law, folder / "law.safetensors"))
    romkit.rollout(data, model, dynamics=law)
    romkit.rollout(system, romkit.load("ncae-lorenz96"), F=3.15, duration=5.0, engine="compiled")


def state() -> dict[str, float]:
    """Memory in MiB and open files of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    memory = pages * resource.getpagesize() / 2**20
    return {"memory": round(memory, 1), "files": len(os.listdir("/proc/self/fd"))}


def main(minutes: float) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found, began = [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder, tqdm(total=minutes, unit="min") as bar:
        while (passed := (time.monotonic() - began) / 60) < minutes:
            one_round(Path(folder), len(found))
            found.append({"minutes": round(passed, 2), **state()})
            bar.update(passed - bar.n)
            record(found, minutes)
    print(RESULTS.read_text()[:600])


def record(found: list[dict[str, float]], minutes: float) -> None:
    """Growth is that of the mean memory of the last tenth against that just after the first quarter."""
    late = [each for each in found if each["minutes"] >= WARM * minutes] or found
    tenth = max(1, len(late) // 10)
    first, last = (sum(each["memory"] for each in part) / tenth for part in (late[:tenth], late[-tenth:]))
    files = sorted({each["files"] for each in late})
    summary = {"rounds": len(found), "growth_of_memory": round(last / first - 1, 5), "open_files": files}
    summary |= {"versions": runtime.versions(), "device": runtime.device_name("cpu")}
    with atomic(RESULTS) as temporary:
        temporary.write_text(json.dumps(summary | {"states": found[:: max(1, len(found) // 60)]}, indent=1) + "\n")


if __name__ == "__main__":
    main(float(sys.argv[1]))
