"""RESULTS.md from the result files: python -m studies.large.report."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from romkit.core.files import atomic
from studies.markdown import table

HERE = Path(__file__).parent
FULL = ("implicit, general sparse solver", "implicit, one sweep", "explicit RK4")
Results = dict[str, dict]

PUBLISHED = (
    ("POD-LSPG, 153 modes", "0.040 %", "64.5 s"),
    ("quadratic manifold, 17 latents", "0.84 %", "26.9 s"),
    ("POD and autoencoder, 10 latents", "0.30 %", "6.0 s"),
    ("ten local POD-RBF models", "0.86 %", "1.9 s"),
)
"""Errors and run times at (4.56, 0.019) that others report; their full model takes 94 s. The README has the source."""


def page(results: Results, out_of_core: dict | None) -> str:
    """The page."""
    full = {name.rsplit("n = ", 1)[1]: found for name, found in results.items() if name.startswith("full models")}
    full = dict(sorted(full.items(), key=lambda item: item[1]["n"]))
    small, large = full["20 000"], full["500 000"]
    parts = [
        "# Results\n\nWritten by report.py from the result files beside it; the README says what is measured and how.",
        "## Full models\n\nCPU seconds of 500 steps at (4.56, 0.019).\n",
        table(("full model", *(f"n = {n}" for n in full)), [_full(name, full) for name in FULL]),
        "## Reduced models, n = 20 000\n\nErrors relative to the norm of the truth over all times; times faster than"
        " each of the full models, in their order.\n",
        table(_HEAD, list(_reduced(results, small, "n = 500 000", within=False))),
        "LSPG on reduced meshes (energy-conserving sampling and weighting); on all rows a run is extrapolated from a"
        " few steps.\n",
        table(_MESH, [_mesh(name, found) for name, found in results.items() if "rows" in found]),
        *_unresolved(results["unresolved share, 64 modes"]),
        "Published, at (4.56, 0.019):\n",
        table(("model", "error", "one run"), PUBLISHED),
        "## Reduced models, n = 500 000\n",
        table(_HEAD, list(_reduced(results, large, "n = 500 000", within=True))),
        "The full model on coarser grids, against n = 500 000, each of its cells with one value:\n",
        table(("n", "error", "implicit, one sweep"), list(_coarser(results["coarser grids, n = 500 000"], full))),
        "## Cost against n\n\nPOD-Galerkin with 32 modes, RK4.\n",
        table(
            ("n", "one step", "decoding one state", "tensors, once"), [_step(results[name]) for name in _steps(results)]
        ),
        "## A hundred thousand components\n",
        *_hundred_thousand(results["n = 100 000"]),
        *(() if out_of_core is None else _out_of_core(out_of_core)),
        f"{small['device']}.\n",
    ]
    return "\n".join(parts)


_HEAD = (
    "model", "seeds", "parameters", "error at (4.56, 0.019)", "mean over contexts", "largest", "one run",
    "times faster", "tensors, once", "training, per seed",
)  # fmt: skip


_MESH = ("model", "tolerance", "rows", "components seen", "choosing them", "one run", "on all rows")


def _mesh(name: str, found: dict) -> list[str]:
    whole = found["all rows, seconds of a step"] * found["steps"]
    seen = [f"{found[what]} of {found['n']}" for what in ("rows", "components seen")]
    costs = [f"{seconds:.3g} s" for seconds in (found["choosing, seconds"], found["seconds"], whole)]
    return [name, f"{found['tolerance']:g}", *seen, *costs]


_OF = ("errors", "shares")


def _unresolved(found: dict) -> Iterator[str]:
    yield (
        f"Share of the full velocity outside of the subspace (`unresolved`), POD-Galerkin of {found['modes']} modes,"
        f" mean over times. It takes {found['first call, seconds']:.2g} s once and"
        f" {found['one state, seconds'] * 1e6:.2g} µs a state, and its rank correlation with the errors of all contexts"
        f" is {found['rank correlation']:.2f}.\n"
    )
    rows = [
        (
            f"{len(found[f'errors {where}'])} {where} of the training range",
            *(_span(found[f"{of} {where}"]) for of in _OF),
        )
        for where in ("inside", "outside")
    ]
    yield table(("contexts", "error", "unresolved share"), rows)


def _span(values: Sequence[float]) -> str:
    return f"{100 * min(values):.2g} to {100 * max(values):.2g} %"


def _full(name: str, full: Results) -> list[str]:
    return [name, *(f"{found[name]:.3g} s" if name in found else "-" for found in full.values())]


def _reduced(results: Results, full: dict, mark: str, within: bool) -> Iterator[list[str]]:
    """A row for each reduced model whose name has the mark, or has it not."""
    for name, found in results.items():
        if "errors" in found and (mark in name) == within:
            yield _model(name.removesuffix(f", {mark}"), found, full)


def _model(name: str, found: dict, full: dict) -> list[str]:
    errors, cost = np.atleast_2d(found["errors"]), np.median(found["seconds"])
    faster = [
        f"{full[each] / cost:.2g}" if full[each] < 10 * cost else f"{full[each] / cost:.0f}"
        for each in FULL
        if each in full
    ]
    first, mean = _percents(errors[:, 0]), _percents(errors.mean(1))
    tensors, training = found.get("tensors, seconds"), found.get("training, seconds per seed")
    return [
        name, str(len(errors)), str(found.get("parameters", "-")), first, mean, _percents([errors.max()]),
        f"{cost:.3g} s", " / ".join(faster), *("-" if s is None else f"{s:.2g} s" for s in (tensors, training)),
    ]  # fmt: skip


def _coarser(found: dict, full: Results) -> Iterator[list[str]]:
    seconds = {each["n"]: each["implicit, one sweep"] for each in full.values()}
    for n, error in found["errors by n"].items():
        yield [n, _percents([error]), f"{seconds[int(n)]:.3g} s"]


def _percents(errors: Sequence[float]) -> str:
    return ", ".join(f"{100 * error:.3g} %" for error in errors)


def _steps(results: Results) -> list[str]:
    return sorted((name for name in results if name.startswith("step, ")), key=lambda name: results[name]["n"])


def _step(found: dict) -> list[str]:
    decoding, tensors = found["decoding, seconds"], found["tensors, seconds"]
    return [str(found["n"]), f"{found['step, seconds'] * 1e6:.3g} µs", f"{decoding * 1e3:.2g} ms", f"{tensors:.2g} s"]


def _hundred_thousand(found: dict) -> Iterator[str]:
    calls = [name for name, cost in found.items() if isinstance(cost, dict) and "CPU seconds" in cost]
    yield f"n = {found['n']}, {found['snapshots']} snapshots, {found['largest memory, GB']:.1f} GB of memory at most.\n"
    yield table(("call", "CPU seconds"), [(name, f"{found[name]['CPU seconds']:.3g}") for name in calls])


def _out_of_core(found: dict) -> Iterator[str]:
    basis, resumed = found["basis"], found["resumed"]
    yield "## A basis of data larger than memory\n"
    yield (
        f"{found['gigabytes']:.1f} GB, n = {found['n']}, {found['modes']} modes. Snapshots consist of cosines, so that"
        " singular values and modes are known.\n"
    )
    rows = [
        ("making the file", f"{found['making, seconds'] / 60:.1f} min"),
        ("copying the file", f"{found['copying, seconds'] / 60:.1f} min"),
        ("the basis", f"{basis['seconds'] / 60:.1f} min, {basis['CPU seconds'] / 60:.1f} of CPU"),
        ("its memory", f"{basis['memory, GB']:.2f} GB"),
        ("largest error of a singular value, of the first", f"{found['singular values, error']:.1e}"),
        ("sine of the largest angle between subspaces", f"{found['subspace, sine of the largest angle']:.1e}"),
        ("killed after", ", ".join(f"{s:.0f} s" for s in found["killed after, seconds"])),
        (
            "to go on from (pass, block)",
            ", ".join("the start" if at is None else f"{tuple(at)}" for at in found["where it was"]),
        ),
        ("the rest after the last of these", f"{resumed['seconds'] / 60:.1f} min"),
        ("equal to the bit, resumed and not", "yes" if found["equal to the bit"] else "no"),
    ]
    yield table(("", ""), rows)


def main() -> None:
    """Writes the page."""
    results = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    other = HERE / "out_of_core.json"
    found = json.loads(other.read_text(encoding="utf-8")) if other.exists() else None
    with atomic(HERE / "RESULTS.md") as file:
        file.write_text(page(results, found), encoding="utf-8")


if __name__ == "__main__":
    main()
