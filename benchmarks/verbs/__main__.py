"""python -m benchmarks verbs COMMIT [VERB ...]: CPU seconds of each verb beside those of a commit of
this repository, in turns; writes results.json and RESULTS.md.
"""

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ROUNDS = 3
SLOWER = 1.1
"""Ratio from which on a verb is called slower."""

ROUNDING = 0.02
"""CPU seconds below which two verbs take the same time: the clock of a process counts hundredths."""

SIZES = ("small", "middle")


class Version:
    """A process with one version of romkit.

    Args:
        folder: that holds the package.
    """

    def __init__(self, folder: Path):
        environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=folder,
        )
        self.about = self._answer()

    def _answer(self) -> dict[str, object]:
        line = self._process.stdout.readline()
        if not line:
            return {"failed": "the process ended"}
        return json.loads(line)

    def take(self, verb: str, size: str) -> dict[str, object]:
        self._process.stdin.write(f"{verb}\t{size}\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def measured(before: Version, now: Version, verb: str, size: str) -> dict[str, object]:
    """Return the first call and the least of the later ones, of both versions in turns."""
    rounds = {"before": [], "now": []}
    for _ in range(ROUNDS):
        for name, version in (("before", before), ("now", now)):
            rounds[name].append(version.take(verb, size))
    found: dict[str, object] = {"verb": verb, "size": size}
    for name, answers in rounds.items():
        failed = [answer["failed"] for answer in answers if "failed" in answer]
        if failed:
            found[name] = {"failed": failed[0]}
            continue
        seconds = [answer["seconds"] for answer in answers]
        found[name] = {
            "first": seconds[0],
            "again": min(seconds[1:]),
            "error": answers[-1]["error"],
        }
    return found


def with_entry(entries: list[dict[str, object]], new: dict[str, object]) -> list[dict[str, object]]:
    """Entries with a new one in the place of that of the same task."""
    task = new["verb"], new["size"]
    others = [entry for entry in entries if (entry["verb"], entry["size"]) != task]
    order = verbs()
    together = [*others, new]
    return sorted(together, key=lambda e: (SIZES.index(e["size"]), order.index(e["verb"])))


def row(found: dict[str, object]) -> str:
    """Return a line of the table."""
    before, now = found["before"], found["now"]
    cells = [found["verb"], found["size"]]
    for one in (before, now):
        if "failed" in one:
            cells.append("-")
        else:
            cells.append(f"{one['first']:.2f}, {one['again']:.2f}")
    cells.append(ratio(found))
    errors = [one.get("error") for one in (before, now)]
    cells.append(", ".join("-" if error is None else f"{error:.2g}" for error in errors))
    if errors == [None, None]:
        cells[-1] = ""
    return "| " + " | ".join(cells) + " |"


def ratio(found: dict[str, object]) -> str:
    """Time of a repeated call in that of the commit, in bold where it is longer."""
    before, now = found["before"], found["now"]
    if "failed" in before or "failed" in now:
        return "fails" if "failed" in now else "new"
    if abs(now["again"] - before["again"]) <= ROUNDING:
        return "1"
    value = now["again"] / max(before["again"], ROUNDING)
    text = f"{value:.2f}"
    return f"**{text}**" if value > SLOWER else text


def page(results: dict[str, object]) -> str:
    """RESULTS.md."""
    heads = sorted({entry["head"] for entry in results["verbs"]})
    lines = [
        "# Verbs beside an earlier commit",
        "",
        f"CPU seconds (the first call in a process, and the least of {ROUNDS - 1} later ones) at commit "
        f"{results['commit']} and at {', '.join(heads)}, in turns on one machine; the ratio of the later ones, bold above "
        f"{SLOWER}. Differences of {ROUNDING} s are none. Errors are those of the task, where it has one: mean NRMSE of "
        "forecasts, or distance from the true forcing.",
        "",
        f"`python -m benchmarks verbs {results['commit']}` measures them again.",
        "",
        "![CPU time of repeated calls of both versions](times.png)",
        "",
        "| verb | task | before | now | ratio | errors |",
        "|---|---|---|---|---|---|",
    ]
    lines += [row(found) for found in results["verbs"]]
    return "\n".join(lines) + "\n"


def draw(results: dict[str, object]) -> "Figure":
    """Draw seconds of repeated calls, of both versions."""
    from studies.report import dots  # matplotlib

    seconds: dict[str, dict[str, float]] = {}
    for found in results["verbs"]:
        before, now = found["before"], found["now"]
        if "failed" in before or "failed" in now:
            continue
        seconds[f"{found['verb']}, {found['size']}"] = {
            f"at {results['commit']}": max(before["again"], ROUNDING),
            "now": max(now["again"], ROUNDING),
        }
    return dots(seconds, "CPU time of a repeated call, s", "Verbs beside an earlier commit")


def write(results: dict[str, object]) -> None:
    """Write the page and its picture."""
    from studies.report import save_png  # matplotlib

    (HERE / "RESULTS.md").write_text(page(results))
    save_png(draw(results), HERE / "times.png")


def git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@functools.cache
def verbs() -> list[str]:
    """Return names in tasks.py, read by a process of its own."""
    code = "import tasks, json; print(json.dumps(list(tasks.TASKS)))"
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}"}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
    )
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks verbs")
    parser.add_argument("commit", help="the last release, say")
    parser.add_argument("verbs", nargs="*")
    parser.add_argument("--size", choices=SIZES, action="append")
    given = parser.parse_args()
    commit = git("rev-parse", "--short", given.commit)
    results = {"commit": commit, "verbs": []}
    file = HERE / "results.json"
    if file.exists() and json.loads(file.read_text())["commit"] == commit:
        results = json.loads(file.read_text())
    head = git("rev-parse", "--short", "HEAD")
    with tempfile.TemporaryDirectory() as folder:
        git("worktree", "add", "--detach", folder, commit)
        before, now = Version(Path(folder)), Version(ROOT)
        try:
            for size in given.size or SIZES:
                for verb in given.verbs or verbs():
                    found = measured(before, now, verb, size)
                    print(row(found), flush=True)
                    # as it goes, since a middle task may take minutes
                    results["verbs"] = with_entry(results["verbs"], found | {"head": head})
                    file.write_text(json.dumps(results, indent=1) + "\n")
                    write(results)
        finally:
            before.close()
            now.close()
            git("worktree", "remove", "--force", folder)


if __name__ == "__main__":
    main()
