"""What README and the pages say was measured: each statement holds in committed results, and none
is without them.

The pages of results are those of their result files, see `tests/studies/test_committed.py`.
"""

import functools
import json
import math
import re
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    (ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/*/*.md"))
)
PAGES = [
    page.relative_to(ROOT).as_posix()
    for page in PAGES
    if page.parent.name not in ("measured", "reference")
]

LARGE, SAMPLED, WAKE = (
    "studies/large/RESULTS.md",
    "studies/large/SAMPLED.md",
    "studies/wake/RESULTS.md",
)
SAMPLING = "studies/sampling/RESULTS.md"
EXACT, SPEED, CUDA = (
    "studies/exactness/results/REPORT.md",
    "benchmarks/rollout/RESULTS.md",
    "benchmarks/rollout/RESULTS-cuda.md",
)
TRAINING, ACCURACY, START = (
    "benchmarks/training/RESULTS.md",
    "studies/accuracy/RESULTS.md",
    "# Results",
)
ROMKIT, STEP = "romkit, RK4", "µs per step, trajectory"


@functools.cache
def rows(page, heading, number=0):
    """Return rows (name, {column: numbers}) of a table under a heading; the name is the text of the
    first cell.
    """
    text = (
        (ROOT / page).read_text(encoding="utf-8").split(f"{heading}\n", 1)[1].split("\n## ", 1)[0]
    )
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    head, _, *lines = (
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in tables[number].splitlines()
    )
    parsed = lambda cell: [float(each) for each in re.findall(r"\d+(?:\.\d+)?(?:e[-+]\d+)?", cell)]  # noqa: E731
    return [(line[0], dict(zip(head, map(parsed, line), strict=True))) for line in lines]


def cells(page, heading, name, column, number=0):
    """Return numbers of a column in all rows whose name starts so."""
    return [
        x for row, each in rows(page, heading, number) if row.startswith(name) for x in each[column]
    ]


def burgers(name, column="mean over contexts"):
    return cells(LARGE, "## Reduced models, n = 20 000", name, column)


def wake(name, column):
    return cells(WAKE, "## Reduced models", name, column)[0]


def exact(system, name, column, median=2):
    """Median over seeds; 0 for the mean."""
    return cells(EXACT, f"## {system}, size equal", name, column)[median]


WAKE_ERRORS = ("Strouhal, median (largest) error", "lift, median (largest) error")
FLOW, LINEAR, FOLDED = "flow, 10 latents", "POD-Galerkin, 80 modes", "NcAE, 10 latents"


def burgers_by_modes():
    """Tell whether 80 linear modes have the error of the flow at a lower cost, and networks that
    are cheaper have a larger one.
    """
    networks = (FOLDED, "FiLM+AE")
    as_accurate = 0.7 < burgers(LINEAR)[0] / max(burgers(FLOW)) < 1.1
    cheaper = burgers(LINEAR, "one run") < burgers(FLOW, "one run")
    fast = all(burgers(name, "one run") < burgers(LINEAR, "one run") for name in networks)
    worse = all(min(burgers(name)) > burgers(LINEAR)[0] for name in networks)
    return as_accurate and cheaper and fast and worse


def sampled_rows_of_the_reaction():
    fine = [
        each
        for _, each in rows(SAMPLED, "## A reaction in a square")
        if each["sampled"] < [1.15 * each["Galerkin"][0]]
    ]
    return {each["modes"][0] for each in fine} == {5, 10, 20, 30} and all(
        each["over RK4"][0] > 100 for each in fine
    )


def sampled_rows_of_burgers():
    text = " ".join((ROOT / SAMPLED).read_text(encoding="utf-8").split())
    error, seconds = map(
        float, re.search(r"the error is ([\d.]+)% and a run costs ([\d.]+) s", text).groups()
    )
    found = [each for _, each in rows(SAMPLED, "## Burgers: sampled against exact")]
    return any(each["error"][0] <= error and each["one run"][0] < 1e3 * seconds for each in found)


def states_themselves():
    """Return distance from the exact tensors with modes at the states themselves, over that at the
    projected ones.
    """
    seen, own = (
        {
            each["modes of right-hand sides"][0]: each["from exact"][0]
            for _, each in rows(SAMPLED, "## Burgers: sampled against exact", k)
        }
        for k in (0, 2)
    )
    return [own[modes] / seen[modes] for modes in own if modes >= 99]


def sindy_on_a_million():
    """Seconds of the fits of SINDy: on a GPU, on a core, and by pysindy."""
    page, heading = "benchmarks/sindy/RESULTS-cuda.md", "## 1 problem of 1000000 samples"
    names = ("romkit, SINDy.fit on the GPU", "romkit, SINDy.fit", "pysindy, SINDy.fit")
    known = {name: columns["wall time, ms"][0] for name, columns in rows(page, heading)}
    return [round(known[name] / 1000, 2 if k == 0 else 1) for k, name in enumerate(names)]


def cards():
    """Devices of the GPU numbers of rollouts."""
    text = (ROOT / "benchmarks/rollout/results-cuda.json").read_text(encoding="utf-8")
    return {name for name in re.findall(r'"device": "([^"]*)"', text) if "NVIDIA" in name}


def times_of_adaptive_steps_on_a_gpu():
    """Return how many times as long torchdiffeq's Dopri5 takes as the default, by number of
    contexts.
    """
    headings = {1: "## 1 context", 1000: "## 1000 contexts", 10_000: "## 10000 contexts"}
    rival, default = "torchdiffeq, dopri5", "romkit, adaptive"
    return {
        contexts: round(
            cells(CUDA, heading, rival, STEP)[0] / cells(CUDA, heading, default, STEP)[0]
        )
        for contexts, heading in headings.items()
    }


def wake_headline():
    """Speed, frequency and lift of the law from ten runs, as the start page rounds them."""
    name = "polynomial-manifold, law, ten"
    frequency, lift = (wake(name, error) for error in WAKE_ERRORS)
    return round(wake(name, "speed-up"), -3) == 143_000 and (frequency, lift) == (0.01, 0.13)


def kept_aside(words):
    """Return number of sets that were kept aside of which a row of first_afternoon's summary holds,
    and of all.
    """
    summary = rows("studies/first_afternoon/RESULTS.md", START)
    return next(row["sets kept aside"] for name, row in summary if name.startswith(words))


PACKAGES = {
    "PySINDy": ("pysindy", "pysindy, scaled"),
    "opinf": ("opinf", "opinf, scaled"),
    "PyDMD": ("pydmd", "pydmd, scaled"),
    "pyMOR, `DataDrivenReductor`": ("pymor",),
}
"""Contestants of benchmarks/packages by their names in the table of the start page; of two, that
with fewer lost forecasts.
"""


def median_percent(values):
    return f"{100 * statistics.median(values):.2f} %" if values else "-"


def laws_of_few_runs():
    """Tell whether laws of few runs beat POD-Galerkin, median and largest, and three latents the
    chosen five.
    """
    of_law = "polynomial-manifold, law, "
    pairs = [
        (f"{of_law}ten", "POD-Galerkin, 64"),
        (f"{of_law}five", "POD-Galerkin, 64"),
        (f"{of_law}five", "polynomial-manifold, latents chosen, law, five"),
    ]
    for better, worse in pairs:
        for error in WAKE_ERRORS:
            first, second = (
                cells(WAKE, "## Reduced models", name, error) for name in (better, worse)
            )
            if not (first[0] < second[0] and first[1] < second[1]):
                return False
    return True


def wake_row(model, label):
    """Row of the table beside other packages, from the results of the wake."""
    frequency, lift = (wake(model, error) for error in WAKE_ERRORS)
    return f"| {label} | {frequency:.2f} % | {lift:.2f} % | 0 |"


def packages_table():
    """Return rows of the table beside other packages, from the results of the benchmark and of the
    wake.
    """
    results = json.loads((ROOT / "benchmarks/packages/results.json").read_text())["tasks"]["orbit"]
    lines = []
    for label, names in PACKAGES.items():
        best = max(names, key=lambda name: sum(map(math.isfinite, results[name]["frequency"])))
        frequency, lift = (
            [value for value in results[best][quantity] if math.isfinite(value)]
            for quantity in ("frequency", "lift")
        )
        lost = len(results[best]["frequency"]) - len(frequency)
        errors = f"{median_percent(frequency)} | {median_percent(lift)}"
        lines.append(f"| {label} | ten runs | {errors} | {lost} |")
    law = wake_row("polynomial-manifold, law, ten", "**romkit**, three numbers | ten runs")
    name = "POD-Galerkin with 64 modes, pyMOR's way, here by romkit | the equations"
    return " ".join([law, wake_row("POD-Galerkin, 64", name), *lines])


AFTERNOON = {
    "**romkit**, `learn`": ("romkit",),
    "PyDMD": ("pydmd", "pydmd, scaled"),
    "PySINDy": ("pysindy", "pysindy, scaled"),
    "opinf": ("opinf", "opinf, scaled"),
    "the nearest run, shifted in time": ("shifted",),
}
"""Contestants of studies/first_afternoon by their names in the table of the start page, the better
of two on each set.
"""


def mean_error(errors):
    """Return mean over the held-out runs of a set; infinite where one is lost."""
    values = [math.nan if error is None else error for error in errors]
    mean = sum(values) / len(values)
    return mean if math.isfinite(mean) else math.inf


def afternoon_table():
    """Return rows of the table over data sets, from the results of studies/first_afternoon."""
    results = json.loads((ROOT / "studies/first_afternoon/full.json").read_text())
    sets = [name for name in results if not name.endswith(", rivals")]
    errors = {}
    for label, names in AFTERNOON.items():
        errors[label] = [
            min(mean_error((results[name] | results[f"{name}, rivals"])[key]) for key in names)
            for name in sets
        ]
    packages = [label for label in AFTERNOON if "nearest" not in label]
    lines = []
    for label, row in errors.items():
        median, lost = statistics.median(row), sum(map(math.isinf, row))
        best = sum(
            error <= min(errors[package][k] for package in packages) for k, error in enumerate(row)
        )
        shown = f"{median:.2g}" if math.isfinite(median) else "lost"
        lines.append(f"| {label} | {shown} | {lost} | {best if label in packages else '-'} |")
    return " ".join(lines)


BOARDS = {
    "Lotka-Volterra, mean square error at known / new parameters": "Lotka-Volterra, labels: mean",
    "the same, parameters not told": "Lotka-Volterra, parameters not told",
    "Selkov's oscillator": "Selkov, labels: mean",
    "glycolysis, seven species": "glycolysis, labels: mean",
    "Brusselator": "Brusselator, labels: mean",
    "Gray-Scott": "Gray-Scott, labels: mean",
    "Burgers' equation, largest error": "Burgers 1D",
    "the same in two dimensions": "Burgers 2D",
    "Lorenz, mean of twelve scores, 100 is best": "Lorenz: mean",
    "Kuramoto-Sivashinsky, likewise": "Kuramoto-Sivashinsky: mean",
}
"""Rows of the table of boards, and how those of benchmarks/outside begin."""


def boards_table():
    """Return rows of the table of boards, from the page of benchmarks/outside."""
    page = (ROOT / "benchmarks/outside/RESULTS.md").read_text()
    lines = []
    for label, beginning in BOARDS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| {beginning}"))
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        published, ours = cells[1].split(" (")[0], cells[-1].split(";")[0]
        lines.append(f"| {label} | {published} | {ours} |")
    return " ".join(lines)


HEADLINE = (
    "**143 000 times faster than the simulation, frequency off by 0.01 %, lift by 0.13 %**: learned from ten runs without"
    " the equations, at ten Reynolds numbers that were in no run"
)

CLAIMS = [
    ("README.md", HEADLINE, wake_headline),
    ("docs/index.md", HEADLINE, wake_headline),
    *(
        (
            page,
            "On these ten every forecast of runs that were held out is better than those of every other package.",
            lambda: kept_aside("every forecast is better than those of every other") == [10, 10],
        )
        for page in ("README.md", "docs/index.md")
    ),
    ("README.md", packages_table(), lambda: True),
    ("docs/index.md", packages_table(), lambda: True),
    ("README.md", afternoon_table(), lambda: True),
    ("README.md", boards_table(), lambda: True),
    ("docs/index.md", afternoon_table(), lambda: True),
    (
        "docs/index.md",
        "A step of the reduced Lorenz96 costs more than one of the full model",
        lambda: all(
            each["reduced model"] > each["full model"]
            for _, each in rows(SPEED, "## Cost against n")
        ),
    ),
    (
        "docs/index.md",
        "On Burgers' equation 80 linear modes have the error of ten latents of a flow, at a lower cost; cheaper "
        "networks are less accurate",
        burgers_by_modes,
    ),
    (
        "docs/paper/paper.md",
        "forecasts of `romkit.learn` with its defaults were better than those of PySINDy, opinf and PyDMD on all ten",
        lambda: kept_aside("every forecast is better than those of every other") == [10, 10],
    ),
    (
        "docs/paper/paper.md",
        "learned from ten runs without equations, has a smaller error of shedding frequency and lift at ten other "
        "Reynolds numbers than POD-Galerkin projection with 64 modes",
        lambda: all(
            wake("polynomial-manifold, law, ten", error) < wake("POD-Galerkin, 64", error)
            for error in WAKE_ERRORS
        ),
    ),
    (
        "README.md",
        "A step of the reduced Lorenz96 costs more than one of the full model",
        lambda: all(
            each["reduced model"] > each["full model"]
            for _, each in rows(SPEED, "## Cost against n")
        ),
    ),
    (
        "README.md",
        "laws learned from ten runs and from five are more accurate than POD-Galerkin with 64 modes. The number of latents "
        "cannot be chosen from five runs: the five latents that left-out runs prefer err more at unseen Reynolds numbers "
        "than three",
        laws_of_few_runs,
    ),
    (
        "README.md",
        "On Burgers' equation 80 linear modes have the error of ten latents of a flow, at a lower cost; cheaper "
        "networks are less accurate",
        burgers_by_modes,
    ),
    (
        "README.md",
        "They, and the [GPU numbers](benchmarks/rollout/RESULTS-cuda.md), were run by hand on one card.",
        lambda: len(cards()) == 1 and "cuda" not in (ROOT / ".ci/run").read_text(),
    ),
    (
        "CHANGELOG.md",
        "1.3 microseconds for a step of RK4 of a reduced Lorenz96 at one context",
        lambda: round(cells(SPEED, "## 1 context", ROMKIT, STEP)[0], 1) == 1.3,
    ),
    (
        "docs/design.md",
        "With 99 modes and more, those of right-hand sides at the unprojected states are three to nine times less "
        "accurate on Burgers' equation",
        lambda: [round(min(states_themselves())), round(max(states_themselves()))] == [3, 9],
    ),
    (
        "docs/engine.md",
        "with 10 000 contexts, `Adaptive` as one launch takes 1/30 of the time of torchdiffeq's Dopri5 at equal error",
        lambda: times_of_adaptive_steps_on_a_gpu()[10_000] == 30,
    ),
    (
        "benchmarks/rollout/README.md",
        "takes between 1/30 (10 000 contexts) and 1/63 (1000 contexts) of the time of torchdiffeq's Dopri5",
        lambda: (
            sorted(times_of_adaptive_steps_on_a_gpu().items(), key=lambda each: each[1])[::2]
            == [(10_000, 30), (1000, 63)]
        ),
    ),
    (
        "docs/engine.md",
        "which makes a step of one member more than a hundred times slower",
        lambda: (
            cells(
                SPEED, "## 1 context", "torchdiffeq, rk4, field by torch.compile", "times romkit's"
            )[0]
            > 100
        ),
    ),
    (
        "docs/guide/training.md",
        "`flow` is the most accurate exact method for its number of parameters",
        lambda: all(
            exact(system, "flow", f"{part} RMSE", k) < exact(system, "ncae", f"{part} RMSE", k)
            for system in ("Lorenz96", "Pendulum")
            for part in ("position", "velocity")
            for k in (0, 2)
        ),
    ),
    (
        "docs/howto/estimate.md",
        "a rank correlation of more than 0.8 with its error, on the full model of the wake 0.67",
        lambda: all(
            each["estimate"][0] == 0.67 if name == "Wake, NcAE" else each["estimate"][0] > 0.8
            for name, each in rows(
                "studies/estimates/RESULTS.md", "## Rank correlation with the true error"
            )
        ),
    ),
    (
        "docs/howto/choose.md",
        "One coupling is then faster and more accurate than several",
        lambda: all(
            exact("Pendulum", "flow", column, 0)
            < cells(EXACT, "## Pendulum, encoders that are networks", "flow", column)[0]
            for column in ("velocity RMSE", "position RMSE", "CPU min")
        ),
    ),
    (
        "docs/guide/training.md",
        "the paper's systems in minutes on a CPU core",
        lambda: 1 < max(each["CPU minutes"][0] for _, each in rows(ACCURACY, START)) < 10,
    ),
    (
        "docs/large.md",
        "The published solver of the Burgers benchmark is orders of magnitude slower than a solver that uses the",
        lambda: (
            cells(LARGE, "## Full models", "implicit, general", "n = 20 000")[0]
            > 100 * cells(LARGE, "## Full models", "implicit, one sweep", "n = 20 000")[0]
        ),
    ),
    (
        "docs/large.md",
        "Out of the cache a run costs several times as much as the number of its products suggests.",
        lambda: (
            burgers("POD-Galerkin, 100 modes", "one run")[0]
            / burgers("POD-Galerkin, 64 modes", "one run")[0]
            > 3 * (100**2 * 101) / (64**2 * 65)
        ),
    ),
    (
        "docs/large.md",
        "One decoded state costs as much as many steps, and more for larger n",
        lambda: all(
            1e3 * each["decoding one state"][0] > 10 * each["one step"][0]
            for _, each in rows(LARGE, "## Cost against n")
        ),
    ),
    (
        "docs/large.md",
        "ten latents of a coupling flow are as accurate as the best published ten",
        lambda: (
            max(burgers(FLOW, "error at (4.56, 0.019)"))
            < cells(LARGE, "## Reduced models, n = 20 000", "POD and autoencoder, 10", "error", 3)[
                0
            ]
        ),
    ),
    (
        "docs/large.md",
        "Ten latents of a network whose last layer folds are less accurate and much faster.",
        lambda: (
            min(burgers(FOLDED)) > max(burgers(FLOW))
            and 10 * burgers(FOLDED, "one run")[0] < burgers(FLOW, "one run")[0]
        ),
    ),
    (
        "docs/large.md",
        "few rows are as accurate as all of them, and orders of magnitude faster than the full model",
        sampled_rows_of_the_reaction,
    ),
    (
        "docs/large.md",
        "few rows are as accurate as its exact tensors, in less time",
        sampled_rows_of_burgers,
    ),
    (
        "docs/large.md",
        "On all rows LSPG is the slowest dynamics; on a `romkit.reduced_mesh` it is more than ten times faster.",
        lambda: all(
            10 * each["one run"][0] < each["on all rows"][0]
            and each["on all rows"][0]
            > max(
                x
                for _, other in rows(LARGE, "## Reduced models, n = 20 000")
                for x in other["one run"]
            )
            for _, each in rows(LARGE, "## Reduced models, n = 20 000", 1)
        ),
    ),
    (
        "docs/howto/pays.md",
        "(Lorenz96, the pendulum): the reduced model is the slower one",
        lambda: all(
            each["reduced model"] > each["full model"]
            for _, each in rows(SPEED, "## Cost against n")
        ),
    ),
    (
        "docs/howto/choose.md",
        "| the smallest error of a snapshot, without P(P(x)) = P(x) | `film-ae` |",
        lambda: all(
            exact(system, "film-ae", "velocity RMSE") < exact(system, name, "velocity RMSE")
            for system in ("Lorenz96", "Pendulum")
            for name in ("flow", "ncae")
        ),
    ),
    (
        "docs/howto/gpu.md",
        "A GPU pays for many seeds at once: `seeds=range(100)`",
        lambda: all(
            each["compiled and captured"][0] > 0 and each["times a core"][0] > 20
            for _, each in rows(TRAINING, "## On a GPU")
            if each["seeds"][0] >= 70
        ),
    ),
    (
        "docs/howto/gpu.md",
        "SINDy on a million of them takes 0.02 s, where a core takes 0.4 s and pysindy 2.5 s",
        lambda: sindy_on_a_million() == [0.02, 0.4, 2.5],
    ),
    (
        "docs/howto/gpu.md",
        "This pays from thousands of trajectories on.",
        lambda: (
            cells(CUDA, "## 10000 contexts", ROMKIT, STEP)[0]
            < cells(SPEED, "## 1000 contexts", ROMKIT, STEP)[0]
            and cells(CUDA, "## 1 context", ROMKIT, STEP)[0]
            > cells(SPEED, "## 1 context", ROMKIT, STEP)[0]
        ),
    ),
]


def text_of(page):
    """Return a page without code, and without what a section computes on paper, in one line."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    return " ".join(re.sub(r"^On paper, .*?(?=^## |\Z)", "", text, flags=re.M | re.S).split())


@pytest.mark.parametrize(
    ("page", "words", "holds"), CLAIMS, ids=[f"{page}: {words[:50]}" for page, words, _ in CLAIMS]
)
def test_a_statement_stands_in_its_page_and_holds_in_committed_results(page, words, holds):
    assert words in text_of(page)
    assert holds()


MEASURES = "|".join(
    (
        r"\d ?(%|µs|ms|s|GB|microseconds|seconds|minutes)(?!\w)|in minutes|per cent",
        "faster|slower|slowest|(more|less|most|as) accurate|costs (more|less)",
        "orders of magnitude|times (as|too|more|less)",
    )
)
RULES = (  # settings, definitions and arithmetic
    "1 % and 30 % away",
    "1 % from 199 on, else 2 / (K + 1)",
    "hangs for 300 s",
    "meet the samples to 1 % of the deviation",
    "below 90 %",
    "less than 90 %",
    "as few as hold 99.9 % of their variance",
    "| faster mechanical systems |",
    "in place of m (m + 1)/2 products",
    "a cubic tensor costs more",
    "since each step costs more",
    "if one evaluation of its field costs less",
    "may be as accurate as the reduced one",
    "at a tenth of the current takes ten times as long",
    "is a phase error of a radian",
    "When a GPU is faster, and how to use it",
)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_measured_statement_without_a_result(page):
    text = text_of(page)
    for own, words, _ in CLAIMS:
        text = text.replace(words, "") if own == page else text
    sentences = re.split(r"(?<=[.;:]) |(?<=\|) (?=\|)| - ", text)
    assert [
        each
        for each in sentences
        if re.search(MEASURES, each) and not any(rule in each for rule in RULES)
    ] == []


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_code_prints_what_the_page_says(page):
    """docs/figures/wake.py runs the same lines, and writes what they print."""
    printed = (ROOT / "docs/figures/wake.txt").read_text(encoding="utf-8")
    assert f"```text\n{printed}```\n" in (ROOT / page).read_text(encoding="utf-8")


GUIDE = sorted((ROOT / "docs/guide").glob("*.md"))


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_pages_of_the_guide_are_short(page):
    text = page.read_text(encoding="utf-8")
    assert len(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S).split()) <= 900


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_code_is_seen_whole_on_narrow_screens(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:python|sh)\n(.*?)^```", text, re.M | re.S)
    assert not [line for block in blocks for line in block.splitlines() if len(line) > 72]


def test_the_glossary_has_forty_terms():
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\*\*(.*)\*\*$", text, re.M)
    assert terms == sorted(terms, key=str.lower)
    assert len(terms) >= 40
