"""SAMPLED.md from sampled.json: python -m studies.large.sampled_report."""

import json
from pathlib import Path

from romkit.core.files import atomic
from studies.markdown import table

FOLDER = Path(__file__).parent
INTRO = """# What do sampled rows save where there are no tensors?

`python -m studies.large.sampled` computes what `sampled.json` does not have yet, and `python -m
studies.large.sampled_report` writes this page of it. Seconds are CPU seconds of one thread, of the fastest of several
calls, because the machine was shared. A system that gives rows of its right-hand side (`stencil`, `rhs_rows`) is seen
through a basis by `system.through(basis, data)`: right-hand sides lie in modes of those of the training data, two
rows for each mode.
"""
REACTION = """
## A reaction in a square

u_t = Δu - μ₁/μ₂ (exp(μ₂ u) - 1) + 100 sin 2πx sin 2πy (`reaction.py`), n = {n}, 36 training contexts, 16 unseen ones
in between, from u = 0 to t = 0.05. Errors are relative to the norm of the truth over all times and unseen contexts:
of the projection of the truth onto the modes, of Galerkin projection with the whole right-hand side, and of the
sampled one. Modes of the right-hand sides leave out as much of their energy as those of the states do of theirs,
which is the default, or 100 times more, or less.

"""
FULL = """
One run of the full model by RK4 at a step near its stability limit costs {explicit:.2g} s, by exponential
differencing with sine transforms {once:.2g} s (error {error:.1e}, one step for each of the 100 outputs, of which fewer
would do where a larger error is accepted).
"""
AGAINST_N = """
## Cost against n

One step of RK4 (four evaluations) of {rank} modes and {rows} rows of the same system; states at larger n are those of
100² points as sums of their sine waves. Times of a step at different n agree within {within:.1f} %.

"""
BURGERS = """
## Burgers: sampled against exact

`Burgers2D`, n = {n}, {rank} modes of the nine training runs, at the unseen (4.56, 0.019). Its terms give exact
tensors; *from exact* is how far the coordinates of the sampled model are from theirs, relative to their norm. With
exact tensors the error is {error:.3%} and a run costs {seconds:.2g} s; the default samples {default} rows, and choosing
them takes {offline:.1f} s.

"""


DISTANCES = """
## What a run reports

The same system at n = {n} with {rank} modes and {rows} rows, at contexts in and around the training range, from 0.01
to 10 for both. *Distance* is the largest `state_distance` of a run: the residual of its rows, which needs no full
model, 1 at ten times the largest of the training data.

"""


def page(found: dict[str, dict]) -> str:
    """The text of SAMPLED.md."""
    parts = (_reaction(found["reaction, n = 10 000"]), _distances(found["distances, n = 900"]), _against_n(found))
    return INTRO + "".join(parts) + _burgers(found["Burgers, n = 20 000"])


def _distances(numbers: dict) -> str:
    rows = [
        (*each["mu"], f"{each['distance']:.2g}", f"{each['error']:.1e}", f"{each['floor']:.1e}")
        for each in numbers["runs"]
    ]
    return DISTANCES.format(**numbers) + table(("μ₁", "μ₂", "distance", "error", "of the projection"), rows)


def _reaction(numbers: dict) -> str:
    full = numbers["full"]
    head = (
        "modes",
        "energy left",
        "rows",
        "projection",
        "Galerkin",
        "sampled",
        "one run",
        "over RK4",
        "over exponential",
    )
    rows = []
    once = full["exponential, 1 steps"]
    for found in numbers["reduced"]:
        for name, each in found.items():
            if "energy left" in name:
                errors = (found["floor"], found["whole right-hand side"], each["error"])
                rows.append([found["rank"], f"{each['tolerance']:.0e}", each["rows"], *(f"{e:.2e}" for e in errors)])
                speed = (full["explicit, seconds"] / each["seconds"], once["seconds"] / each["seconds"])
                rows[-1] += [f"{each['seconds'] * 1e3:.2f} ms", *(f"{ratio:.0f}" for ratio in speed)]
    times = {"explicit": full["explicit, seconds"], "once": once["seconds"], "error": once["error"]}
    return REACTION.format(n=numbers["n"]) + table(head, rows) + FULL.format(**times)


def _against_n(found: dict[str, dict]) -> str:
    pieces = [numbers for name, numbers in found.items() if name.startswith("step, n")]
    steps = [numbers["step, seconds"] for numbers in pieces]
    head = ("n", "a step", "decoding a state", "choosing rows, once")
    rows = [
        (
            each["n"],
            f"{each['step, seconds'] * 1e6:.3f} µs",
            f"{each['decoding, seconds'] * 1e3:.3g} ms",
            f"{each['choosing rows, seconds']:.2g} s",
        )
        for each in pieces
    ]
    within = 100 * (max(steps) / min(steps) - 1)
    return AGAINST_N.format(rank=pieces[0]["rank"], rows=pieces[0]["rows"], within=within) + table(head, rows)


def _burgers(numbers: dict) -> str:
    def rows(name: str) -> list[list[str]]:
        return [
            [
                f"{each['tolerance']:.0e}" if "tolerance" in each else "",
                *(str(each[count]) for count in ("modes", "rows")),
                f"{each['from exact']:.2e}",
                f"{each['error']:.3%}",
                f"{each['seconds'] * 1e3:.1f} ms",
            ]
            for each in numbers[name]
        ]

    head = ("energy left", "modes of right-hand sides", "rows", "from exact", "error", "one run")
    exact = numbers["exact"] | {"default": numbers["rows by default"], "offline": numbers["sampling, seconds"]}
    text = BURGERS.format(n=numbers["n"], rank=numbers["rank"], **exact) + table(head, rows("by tolerance"))
    text += "\nMore rows for the same modes:\n\n" + table(head[1:], [row[1:] for row in rows("by rows")])
    text += "\nAs many modes of right-hand sides at the states themselves, and not at what the basis sees of them:\n\n"
    return text + table(head[1:], [row[1:] for row in rows("right-hand sides of the truth")])


def main() -> None:
    """Write the page."""
    found = json.loads((FOLDER / "sampled.json").read_text(encoding="utf-8"))
    with atomic(FOLDER / "SAMPLED.md") as file:
        file.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
