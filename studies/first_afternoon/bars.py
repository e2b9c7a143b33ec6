"""Bars of forecasts at contexts that no model has seen: python -m studies.first_afternoon.bars NAMES.

Each set is learned once more, with bars. Its forecasts are compared with runs at eighteen values of the
parameter, evenly over its range, two in each gap between the ten runs. Those of sets with noise are
measurements, as bars are. Without names all sets are computed that are not yet in bars.json, and
BARS.md is written anew.
"""

import json
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

import romkit
from romkit.metrics import deviations
from studies.first_afternoon.sets import measure
from studies.first_afternoon.tasks import EVERY, LEVEL, UNSEEN_CONTEXTS, unseen

HERE = Path(__file__).parent
NUMBERS, PAGE = HERE / "bars.json", HERE / "BARS.md"

LEAST, MOST, WIDEST = 0.8, 0.97, 4.0
"""Shares inside, and a width in errors, between which bars are called good."""


class Bars(NamedTuple):
    """Share of the truth inside of bars, and their half width beside the error.

    Attributes:
        inside: share over all runs, times and components.
        least: that of the run with the smallest one.
        width: half width in the error, each root mean square over components, mean over times and
            runs.
        error: mean over times and runs [deviations].
        lost: number of forecasts that are lost, and left out.
        seconds: of the processor, for `romkit.learn`.
    """

    inside: float
    least: float
    width: float
    error: float
    lost: int
    seconds: float

    @property
    def are_good(self) -> bool:
        """Whether bars hold about what their level says, and are not too wide for it."""
        return LEAST <= self.inside <= MOST and self.width <= WIDEST


def bars(name: str) -> Bars:
    """Bars of a set."""
    source = EVERY[name]
    measured, _ = measure(source)
    model = romkit.learn(measured, source.parameter)
    runs = unseen(name)
    band = model.intervals.follow(runs, level=LEVEL)
    truth = runs["state"].values
    middle = band["state"].transpose(*runs["state"].dims).values
    half = (band["upper"] - band["lower"]).transpose(*runs["state"].dims).values / 2
    is_kept = np.isfinite(half).all((1, 2)) & np.isfinite(middle).all((1, 2))
    apart = (truth - middle)[is_kept]
    half = half[is_kept]
    inside = (np.abs(apart) <= half).mean((1, 2))
    scale = deviations(model.train)
    error = _size(apart / scale)
    return Bars(
        inside=float(inside.mean()),
        least=float(inside.min()),
        width=_size(half / scale) / error,
        error=error,
        lost=int((~is_kept).sum()),
        seconds=model.seconds,
    )


def _size(values: np.ndarray) -> float:
    """Root mean square over components, mean over times and runs (C, T, n)."""
    return float(np.sqrt(np.square(values).mean(-1)).mean())


def page(found: dict[str, dict]) -> str:
    """Return table of all sets, from numbers of a file."""
    rows = {name: Bars(**row) for name, row in found.items()}
    good = sum(row.are_good for row in rows.values())
    pooled = np.mean([row.inside for row in rows.values()])
    lines = [
        "# Bars at unseen parameters",
        f"Intervals of level {LEVEL:.0%} of `romkit.learn` on ten runs of each set, beside {UNSEEN_CONTEXTS} runs "
        "at parameters evenly over the range, made by `python -m studies.first_afternoon.bars`. "
        '"Inside" is the share of the states within their bars, "worst run" that of the run with the '
        'smallest one, and "half width" that of the bars in the error of the forecast. '
        f"{pooled:.0%} of all states are inside, and {good} of {len(rows)} sets have {LEAST:.0%} to "
        f"{MOST:.0%} inside of bars that are at most {WIDEST:.0f} errors wide.",
        "| set | inside | worst run | half width | error | lost | CPU seconds |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        + "\n".join(
            f"| {name} | {row.inside:.2f} | {row.least:.2f} | {row.width:.1f} | {row.error:.2g} | "
            f"{row.lost} | {row.seconds:.0f} |"
            for name, row in sorted(rows.items())
        ),
    ]
    return "\n\n".join(lines) + "\n"


def main(names: list[str]) -> None:
    """Compute sets, write numbers and page."""
    for name in names or list(EVERY):
        rows = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
        if name not in rows or names:
            row = bars(name)
            # others may have been computed meanwhile
            rows = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
            rows[name] = row._asdict()
            NUMBERS.write_text(json.dumps(dict(sorted(rows.items())), indent=1) + "\n")
            print(name, row, flush=True)
    PAGE.write_text(page(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
