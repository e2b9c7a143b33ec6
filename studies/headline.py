"""Gate of the headline results: what they are at the present sources, beside what was committed.

`python -m studies headline` learns the thirty sets of `studies.first_afternoon`, fits the wake's two
laws, and trains the smallest models of the paper. It writes each result as it comes, with the commit
and a digest of romkit's sources, skips what the file has of the same digest, and prints a table of
differences to `headline.json` beside this module, the numbers that were committed.
"""

import contextlib
import json
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import threadpoolctl

from romkit.core.errors import FileError
from romkit.core.files import atomic
from romkit.core.sources import provenance
from romkit.engine.threads import one_thread
from studies.first_afternoon.tasks import EVERY, learned
from studies.report import table
from studies.runner import Study

COMMITTED = Path(__file__).with_name("headline.json")

SECONDS = 60.0
"""Budget of `romkit.learn`, its default."""

WAKE = {"unseen": 10, "apart": 16, "periods": 3, "rtol": 1e-8}
"""Measures of `studies.wake`: rows of its page but for the long rollouts, which cost minutes."""

PAPER = ("lorenz96-clean-ncae", "lorenz96-clean-cae", "pendulum-clean-ncae", "pendulum-clean-cae")
"""Tasks of the paper's smoke preset."""

FLOOR = 1e-5
"""Error below which forecasts are equal [deviations]: the tolerance of their solver, ten times."""

Found = dict[str, object]


def planned() -> dict[str, Callable[[], Found]]:
    """Return all results, by title, in the order in which they are computed."""
    work = {name: lambda name=name: of_set(name) for name in EVERY}
    for runs in ("ten runs", "five runs"):
        work[f"wake, {runs}"] = lambda runs=runs: of_wake(runs)
    return work | {f"paper, {name}": lambda name=name: of_paper(name) for name in PAPER}


def of_set(name: str) -> Found:
    """Return errors, claims and bars of `romkit.learn` on a set of the first afternoon."""
    found = learned(name, runs=10, seconds=SECONDS)
    return found | {"error": float(np.mean(found["romkit"]))}


def of_wake(runs: str) -> Found:
    """Median errors of Strouhal number and lift of the polynomial manifold's law [%]."""
    from studies.wake.tasks import manifold  # reads the basis

    made = manifold("polynomial-manifold", "law", runs, training={}, **WAKE)
    reference = json.loads((Path(__file__).parent / "wake" / "full.json").read_text())["full"]
    errors = {}
    for quantity in ("Strouhal", "lift"):
        truth = np.array(reference[quantity])
        errors[quantity] = (100 * np.abs(np.array(made[quantity][0]) / truth - 1)).tolist()
    seconds = made["seconds, manifold"] + made["seconds, law"][0]
    return errors | {"error": float(np.median(errors["Strouhal"])), "seconds": seconds}


def of_paper(name: str) -> Found:
    """Return position error of a training of the paper's smoke preset, mean over seeds."""
    (task,) = (task for task in Study("paper").tasks("smoke") if task.name == name)
    began = time.process_time()
    made = task.run()
    error = made["position_rmse"].sel(condition="clean", average="snapshots").mean()
    return {"error": float(error), "seconds": time.process_time() - began}


def run(file: Path, names: Sequence[str] = (), against: Path = COMMITTED) -> dict[str, Found]:
    """Compute what a file does not have of the present sources, one result after another.

    Args:
        file: JSON of the results by title, which is written after each.
        names: titles that are computed, or parts of them; all by default.
        against: JSON of the results beside which they are printed.
    """
    made_by = provenance()
    known, before = read(file), read(against)
    for title, compute in planned().items():
        if names and not any(name in title for name in names):
            continue
        if known.get(title, {}).get("sources", {}).get("digest") != made_by["digest"]:
            found = _computed(compute) | {"sources": made_by}
            known = read(file) | {title: found}  # another process may have written meanwhile
            with atomic(file) as temporary:
                temporary.write_text(json.dumps(known, indent=1, default=float) + "\n")
        print(" | ".join(row(title, known[title], before.get(title, {}))), flush=True)
    return known


def _computed(compute: Callable[[], Found]) -> Found:
    """Return a result on one thread; of one that fails, its last line."""
    try:
        with _quiet(), one_thread(), threadpoolctl.threadpool_limits(1):
            return compute()
    except Exception as error:
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {error}"}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read(file: Path) -> dict[str, Found]:
    """Return results of a file by title; none where there is no file.

    Raises:
        FileError: a file that is no JSON.
    """
    if not file.exists():
        return {}
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileError(file, problem=f"is no JSON ({error})", fix="remove it") from error


COLUMNS = ("", "error", "before", "ratio", "claimed", "true / claimed", "inside", "CPU s", "was")


def row(title: str, found: Mapping[str, object], before: Mapping[str, object]) -> list[str]:
    """Return cells of a result beside the committed one."""
    if "failed" in found:
        return [title, str(found["failed"]), *("" for _ in COLUMNS[2:])]
    pair = (found.get("error"), before.get("error"))
    cells = [*pair, ratio(*pair), found.get("claimed"), honesty(found), found.get("inside")]
    return [title, *map(_number, cells), *map(_whole, (found["seconds"], before.get("seconds")))]


def page(found: Mapping[str, Found], before: Mapping[str, Found]) -> str:
    """Return table of all results beside those before, and what the sets that both have come to."""
    titles = [title for title in planned() if title in found]
    rows = [row(title, found[title], before.get(title, {})) for title in titles]
    both = {title for title in titles if title in before}
    sums = [{"": "now"} | summary(found, both), {"": "before"} | summary(before, both)]
    return table(rows, COLUMNS) + "\n" + table(sums) + "\n"


def summary(found: Mapping[str, Found], names: Collection[str] | None = None) -> dict[str, str]:
    """Return what the results of the thirty sets come to, or of those of these names."""
    sets = [found[name] for name in EVERY if name in (found if names is None else names)]
    made = [each for each in sets if "failed" not in each]
    errors = np.array([each["error"] for each in made], dtype=float)
    kept = np.maximum(errors[np.isfinite(errors)], FLOOR)
    honest = [honesty(each) for each in made if honesty(each) is not None]
    inside = [each["inside"] for each in made if each.get("inside") is not None]
    seconds = [each["seconds"] for each in made]
    return {
        "sets": str(len(sets)),
        "lost or failed": str(len(sets) - len(kept)),
        "geometric mean of errors": _number(np.exp(np.log(kept).mean())) if len(kept) else "-",
        "true within a factor of two of claimed": f"{sum(0.5 <= h <= 2 for h in honest)} of {len(honest)}",
        "bars hold 80 to 97 %": f"{sum(0.8 <= share <= 0.97 for share in inside)} of {len(inside)}",
        "inside, pooled": f"{np.mean(inside):.1%}" if inside else "-",
        "CPU s, median": _whole(np.median(seconds)) if seconds else "-",
        "CPU s, largest": _whole(np.max(seconds)) if seconds else "-",
    }


def ratio(error: float | None, before: float | None) -> float | None:
    """Return error over the committed one; both at least `FLOOR`."""
    if error is None or before is None:
        return None
    return max(error, FLOOR) / max(before, FLOOR)


def honesty(found: Mapping[str, object]) -> float | None:
    """Return error of the forecasts over the claimed one, both in the measure of the claim."""
    return ratio(found.get("true"), found.get("claimed"))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
