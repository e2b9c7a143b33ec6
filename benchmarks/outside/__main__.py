"""python -m benchmarks outside [board ...] [--minutes 30] [--column now] [--rivals] [--again]: measure
boards, all by default, and write results.json and RESULTS.md. Each task is written as it comes;
what an interrupted call, or one whose minutes were over, left is done by the next one, as is all
that other sources of the package did. `report` in place of boards writes RESULTS.md alone.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from benchmarks.outside import bounded, burgers, chaos, ctf, labels, ours
from benchmarks.outside.page import draw, page
from romkit.core import runtime
from romkit.core.sources import provenance
from studies.report import save_png, write_text

HERE = Path(__file__).parent

BOARDS: dict[str, Callable[[], dict]] = {
    **{name: partial(labels.tasks, name) for name in labels.FAMILIES},
    "Burgers 1D": partial(burgers.tasks, "Burgers 1D"),
    "Burgers 2D": partial(burgers.tasks, "Burgers 2D"),
    "Lorenz": partial(ctf.tasks, "Lorenz"),
    "dysts": chaos.tasks,
    "KS": partial(ctf.tasks, "KS"),
    "bounded": bounded.tasks,
}
"""Tasks of each board by name, and of each task the methods that do it."""


def outcome(work: Callable[[], dict[str, float]]) -> dict[str, object]:
    """Return numbers of a method, or why it has none."""
    began = time.process_time()
    try:
        found = work()
    except Exception as error:  # whatever a method raises is its result
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return {"refused": reason[:200], "seconds": time.process_time() - began}
    found = {"seconds": time.process_time() - began} | found
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def measure(boards: list[str], column: str, minutes: float, with_rivals: bool, again: bool) -> None:
    """Do what is missing of the boards as long as there is time [CPU minutes], and write results
    after each task.
    """
    file = HERE / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    packages = ("numpy", "scipy", "torch", "pysindy", "dysts")
    results |= {"device": runtime.device_name("cpu"), "versions": runtime.versions(*packages)}
    done = results.setdefault("columns", {}).setdefault(column, {})
    beside = results.setdefault("rivals", {})
    made_by = provenance()
    for board in boards:
        if again or done.get(board, {}).get("digest") != made_by["digest"]:
            done[board] = made_by | {"tasks": {}}
        own, others = done[board]["tasks"], beside.setdefault(board, {})
        for task, methods in BOARDS[board]().items():
            for method, work in methods.items():
                ownership = own if method.startswith(ours.NAME) else others
                kept = ownership.setdefault(task, {})
                if method in kept or (ownership is others and not with_rivals):
                    continue
                if time.process_time() > 60 * minutes:
                    continue
                kept[method] = outcome(work)
                print(board, task, method, kept[method], flush=True)
                write_text(file, json.dumps(results, indent=1) + "\n")
    report(results)


def report(results: dict) -> None:
    """Write the page and its picture."""
    write_text(HERE / "RESULTS.md", page(results))
    save_png(draw(results), HERE / "scores.png")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks outside")
    parser.add_argument("boards", nargs="*", metavar="board", help=", ".join(BOARDS))
    parser.add_argument("--minutes", type=float, default=30, help="of the processor, at most")
    parser.add_argument("--column", default="now", help="of the table: now, or before")
    parser.add_argument("--rivals", action="store_true", help="measure other methods, too")
    parser.add_argument("--again", action="store_true", help="measure what is done already, too")
    given = parser.parse_args()
    if given.boards == ["report"]:
        report(json.loads((HERE / "results.json").read_text()))
        return
    unknown = [name for name in given.boards if name not in BOARDS]
    if unknown:
        parser.error(f"{unknown[0]!r} is none of {', '.join(BOARDS)}")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    measure(given.boards or list(BOARDS), given.column, given.minutes, given.rivals, given.again)


if __name__ == "__main__":
    main()
