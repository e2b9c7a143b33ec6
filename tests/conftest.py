"""Shared fixtures: one thread per worker, a GPU for the tests that ask for it, and small datasets.

torch and romkit are imported where they are used: pytest-xdist starts its workers after it has read
this file in a process of its own, which needs neither.
"""

import gc
import os

import hypothesis
import pytest

# The same examples in every run: a law that fails, fails for everybody.
hypothesis.settings.register_profile("romkit", derandomize=True, deadline=None)
hypothesis.settings.load_profile("romkit")


def pytest_configure(config):
    """Hide GPUs from all tests but those of `pytest -m gpu`.

    `fit` takes a GPU where there is one, but most tests are about what a CPU gives, bit for bit.
    """
    if config.option.markexpr != "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    if hasattr(config.option, "loadscopereorder"):  # of pytest-xdist
        config.option.loadscopereorder = False
    # garbage is a fourth of the time of imports, of which nearly nothing is garbage
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Files with slow tests first, then the long ones, so that no worker has such a file alone at
    the end.
    """
    with_slow_tests = {item.path for item in items if item.get_closest_marker("slow")}
    sizes = {path: path.stat().st_size for path in {item.path for item in items}}
    # stable, so that tests of a file keep their order
    items.sort(key=lambda item: (item.path not in with_slow_tests, -sizes[item.path]))


def pytest_collection_finish():
    """What imports have made stays: collections of garbage leave it out, and are rare, since they
    take a fortieth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)
    gc.enable()


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") is None:
        return
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU, and `pytest -m gpu`")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def lorenz():
    """A Lorenz96 whose transient is cut short: quick, and good enough to train on in a test."""
    import romkit

    return romkit.systems.Lorenz96(transient=5.0)


@pytest.fixture(scope="session")
def lorenz_data(lorenz):
    return lorenz.dataset(F=[3.14, 3.15, 3.18], duration=1.0)


@pytest.fixture(scope="session")
def projection(lorenz_data):
    """An NcAE of `lorenz_data`, trained for moments; no test may change it."""
    import romkit

    return romkit.fit("ncae", lorenz_data, seed=1, epochs=4)


@pytest.fixture
def blank_pictures(monkeypatch):
    """Pictures of commands have no panels: drawing is slow, and tested where it is looked at."""
    from matplotlib.figure import Figure

    for name in (
        "plotting.plot_branches",
        "plotting.plot_forecast",
        "plotting.plot_latent",
        "plotting.plot_rollout",
        "plotting.plot_space_time",
        "plotting.plot_training",
        "plotting.forecasts.plot_courses",
        "learning.pictures.plot_rollout",
    ):
        monkeypatch.setattr(f"romkit.{name}", lambda *given, **settings: Figure())
