"""The Python blocks of README.md and of the pages run, each page as one script, with smaller
settings.
"""

import inspect
import pydoc
import re
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest
import torch
import xarray as xr
from matplotlib.figure import Figure

import romkit
from romkit.certificates import gains
from romkit.solvers import RK4
from tests.quick import linear_laws_only

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((*ROOT.glob("docs/gallery/*/*.py"), *ROOT.glob("docs/tutorials/*.py")))
GUIDE = ("first_model", "own_data", "systems")
LONG = (
    "guide/training",
    "guide/projections",
    "guide/rollouts",
    "guide/contexts",
    "howto/tracking",
    "howto/estimate",
    "howto/branches",
    "extending",
    "figures",
)
PAGES = (
    "README.md",
    *(f"docs/guide/{name}.md" for name in GUIDE),
    "docs/howto/data.md",
    "docs/howto/hidden.md",
    "docs/howto/needs.md",
    "docs/howto/steps.md",
    "docs/howto/coming_from.md",
    "docs/sindy.md",
    *(pytest.param(f"docs/{page}.md", marks=pytest.mark.slow) for page in LONG),
)


def blocks(page):
    """Each block as (line number in the page, source)."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        (text[: match.start(1)].count("\n"), match.group(1))
        for match in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ]


def with_few_runs(verb, *args, training=None, **more):
    """Call a verb of inference with four of the trajectories that it is given, and the first second
    of them.
    """
    few = (
        {} if training is None else {"training": training.isel(trajectory=slice(4), time=slice(41))}
    )
    return verb(*args, **more, **few)


def short_rollout(rollout, source, *args, **more):
    """Half a unit of time of a system; few steps along a context that moves."""
    if not isinstance(source, xr.Dataset):
        more["duration"] = 0.5
        if any(map(inspect.isfunction, more.values())):
            more["solver"] = RK4(0.02)
    return rollout(source, *args, **more)


def learned_quickly(learn, source, *args, **more):
    """`romkit.learn` of some 31 times, with two latents and a linear law."""
    time = next(dim for dim in source.dims if str(dim) in ("time", "t"))
    # runs of their whole length, since interpolated ones have forecasts of no later times
    every = max(1, source.sizes[time] // 31)
    source = source.isel({time: slice(None, None, every)})
    quick = {"latent_dim": 2, "seconds": 0.05}
    with linear_laws_only():
        return learn(source, *args, **more | quick)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Short transients, rollouts and certificates, two epochs whatever the page says, files in a
    temporary folder.
    """
    lorenz = partial(romkit.systems.Lorenz96, transient=2.0, duration=0.5, horizon=0.5)
    fit, rollout = romkit.fit, romkit.rollout
    monkeypatch.setattr(romkit.systems, "Lorenz96", lorenz)
    monkeypatch.setattr(
        romkit,
        "fit",
        lambda *args, **more: fit(*args, **{"engine": "torch"} | more | {"epochs": 2}),
    )
    monkeypatch.setattr(romkit, "rollout", partial(short_rollout, rollout))
    network = romkit.laws.NeuralODE
    few = {"regression_steps": 20, "shooting_steps": 2}
    monkeypatch.setattr(romkit.laws, "NeuralODE", lambda **settings: network(**settings | few))
    law = romkit.law
    one = [romkit.laws.SINDy(degree=1, threshold=0.1, refine=False)]
    monkeypatch.setattr(romkit, "law", lambda *args, **more: law(*args, **more | {"kinds": one}))
    monkeypatch.setattr(romkit, "learn", partial(learned_quickly, romkit.learn))
    # pictures of reports are looked at where they are tested
    monkeypatch.setattr("romkit.plotting.plot_forecast", lambda *given, **more: Figure())
    monkeypatch.setattr("romkit.learning.pictures.plot_rollout", lambda *given, **more: Figure())
    animate = romkit.plotting.animate
    monkeypatch.setattr(
        romkit.plotting, "animate", lambda *args, **more: animate(*args, **more | {"frames": 2})
    )
    bootstrap = romkit.bootstrap
    monkeypatch.setattr(
        romkit, "bootstrap", lambda *args, **more: bootstrap(*args, **more | {"members": 2})
    )
    branch = romkit.continuation
    fewer = lambda more: more | ({"points": 3} if "points" in more else {})  # noqa: E731
    monkeypatch.setattr(romkit, "continuation", lambda *args, **more: branch(*args, **fewer(more)))
    for name in ("infer", "calibrate", "sensors", "assimilate", "Tracker"):
        monkeypatch.setattr(romkit, name, partial(with_few_runs, getattr(romkit, name)))
    monkeypatch.setattr(gains, "CUTS", 2)  # certificates stay valid, and are larger
    # the package has a function of the module's name
    certify = sys.modules["romkit.certificates.certify"]
    monkeypatch.setattr(certify, "STEPS", 5)
    monkeypatch.setattr(certify, "POINTS", 1)
    monkeypatch.setattr("romkit.training.phase.SAMPLES", 64)
    monkeypatch.setattr("romkit.assimilation.filter.RUNS", 8)
    monkeypatch.chdir(tmp_path)
    before = dict(romkit.projections.METHODS)
    yield
    romkit.projections.METHODS.clear()
    romkit.projections.METHODS.update(before)


WAKE = "studies/wake/coordinates.nc"


def write_short_wake(folder):
    """A part of the runs that README begins with, at their place."""
    runs = romkit.data.open_dataset(ROOT / WAKE)
    (folder / WAKE).parent.mkdir(parents=True)
    romkit.data.save_dataset(runs.isel(time=slice(60), component=slice(4)), folder / WAKE)


# models of two epochs or of less than a second may lose a run
@pytest.mark.filterwarnings("default::romkit.errors.DivergenceWarning")
@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run(page, small, tmp_path):
    write_short_wake(tmp_path)
    namespace = {"__name__": "page"}
    for line, source in blocks(page):
        code = compile("\n" * line + source, ROOT / page, "exec")
        exec(code, namespace)
    if "run" in namespace:
        assert torch.isfinite(torch.from_numpy(namespace["run"].truth.values)).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("default::romkit.errors.DivergenceWarning")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_scripts_of_the_site_run(script, small):
    namespace = {"__name__": "script"}
    source = script.read_text(encoding="utf-8").replace("CELLS = 100\n", "CELLS = 30\n")
    exec(compile(source, script, "exec"), namespace)
    assert any(isinstance(value, Figure) for value in namespace.values())


FOLDERS = (".", "docs", "docs/guide", "docs/howto", "docs/explanation", "studies/*", "benchmarks/*")
ALL_PAGES = [
    page
    for folder in FOLDERS
    for page in sorted(ROOT.glob(f"{folder}/*.md"))
    if page.name != "page.md"
]


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_paths_and_names_of_a_page_exist(page):
    text = page.read_text(encoding="utf-8")
    links = [page.parent / link for link in re.findall(r"\]\((?!http)([^)#]+)", text)]
    paths = [
        ROOT / path
        for path in re.findall(r"`((?:romkit|tests|docs|studies|benchmarks)/[\w./-]+)`", text)
    ]
    by_the_site = "../measured"
    missing = [path for path in links + paths if not path.exists() and by_the_site not in str(path)]
    missing += [
        name for name in re.findall(r"`(romkit(?:\.\w+)+)\b", text) if pydoc.locate(name) is None
    ]
    assert not missing


def test_pages_of_the_short_index_exist():
    """llms.txt names pages of the site, which are made from these files."""
    text = (ROOT / "docs/llms.txt").read_text(encoding="utf-8")
    pages = re.findall(r"\]\((.*?)\.html\)", text)
    made = {
        "auto_tutorials/": "docs/tutorials/{}.py",
        "measured/": "{}.md",
        "reference/": "docs/site_tools/reference_pages.py",
    }
    missing = []
    for page in pages:
        sources = [
            form.format(page.removeprefix(start))
            for start, form in made.items()
            if page.startswith(start)
        ]
        source = sources[0] if sources else f"docs/{page}.md"
        if not (ROOT / source).exists():
            missing.append(page)
    assert len(pages) > 15
    assert not missing


CONDA = {"torch": "pytorch", "matplotlib": "matplotlib-base", "mujoco": "mujoco-python"}
"""Names of conda-forge, where they differ."""


def test_the_conda_recipe_has_the_dependencies_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = set()
    for requirement in project["dependencies"]:
        name, bound = re.match(r"([\w-]+)(.*)", requirement).groups()
        needed.add(f"{CONDA.get(name, name)} {bound}")
    recipe = (ROOT / ".ci/conda/recipe.yaml").read_text(encoding="utf-8")
    run = recipe.split("  run:\n")[1].split("tests:")[0]
    listed = {line.strip("- ") for line in run.splitlines()}
    assert listed == needed | {f"python {project['requires-python']}"}


def test_the_release_has_one_version():
    version = romkit.__version__
    assert f'"version": "{version}"' in (ROOT / "codemeta.json").read_text(encoding="utf-8")
    assert f'  version: "{version}"\n' in (ROOT / ".ci/conda/recipe.yaml").read_text(
        encoding="utf-8"
    )
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert (
        re.search(
            r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
        )[1]
        == version
    )


def test_pages_of_results_have_a_picture():
    pages = [*ROOT.glob("studies/*/RESULTS.md"), *ROOT.glob("benchmarks/*/RESULTS.md")]
    assert not [page for page in pages if "![" not in page.read_text(encoding="utf-8")]
