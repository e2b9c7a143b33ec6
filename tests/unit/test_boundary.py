"""Validation at the door: what annotations accept, what errors say, and what is not checked again."""

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr

import romkit
from romkit.core.boundary import Count, unchecked, validated
from romkit.data import Contexts
from romkit.errors import InputError
from romkit.solvers import RK4


@validated
def door(
    kind: Literal["shift", "none", 2] | None = None,
    sizes: Sequence[Count] = (),
    named: Mapping[str, float] | None = None,
    rate: float = 0.0,
):
    return kind, sizes, named, rate


@validated
def placed(rate: float, *, sizes: Sequence[Count] = ()):
    return rate, sizes


@pytest.mark.parametrize("kind", ["shift", np.str_("none"), 2, None])
def test_a_literal_is_one_of_its_values(kind):
    assert door(kind)[0] == kind


@pytest.mark.parametrize("kind", ["shfit", "", 3, True, 2.0, b"shift", ["shift"], np.zeros(2)])
def test_a_literal_is_nothing_else(kind):
    with pytest.raises(InputError) as caught:
        door(kind)
    assert caught.value.argument == "kind"


@pytest.mark.parametrize("sizes", [[1, 2], (1, 2), np.array([1, 2]), torch.tensor([1, 2]), {1, 2}])
def test_lists_come_as_tuples(sizes):
    assert door(sizes=sizes)[1] == (1, 2)


@pytest.mark.parametrize(
    "sizes", [np.array(3), torch.tensor(3), 3, "12", {1: 2}, torch.ones(2, device="meta"), [0]]
)
def test_what_is_no_list_of_counts_is_refused(sizes):
    with pytest.raises(InputError) as caught:
        door(sizes=sizes)
    assert caught.value.argument.startswith("sizes")


@validated
def integral(rate: Callable[[float, float], float], end: float | Callable[[], float] = 1.0):
    return rate(0.0, 1.0)


class Module(torch.nn.Module):
    def forward(self, x):
        return x


class Shifted:
    def __call__(self, x, t=2.0):
        return x + t


@pytest.mark.parametrize("rate", [lambda x, t: 1.0, lambda *x: 1.0, max, Shifted(), np.add])
def test_a_function_that_takes_the_arguments_is_taken(rate):
    assert integral(rate) == 1.0


@pytest.mark.parametrize(
    "rate", [lambda: 1.0, lambda x: 1.0, lambda x, y, z: 1.0, Shifted, Module(), 3, "f"]
)
def test_a_function_of_other_arguments_is_refused(rate):
    with pytest.raises(InputError) as caught:
        integral(rate)
    assert caught.value.argument == "rate"
    assert "\n" not in str(caught.value)


def test_a_projection_is_no_rule_of_differentiation(lorenz_data):
    projection = romkit.load("ncae-lorenz96")
    for method in (projection, projection(F=3.15)):
        with pytest.raises(InputError) as caught:
            romkit.data.with_velocity(lorenz_data, method=method)
        assert caught.value.argument == "method"


@pytest.mark.parametrize("speed", [1.0, "fast", [1.0], {}, np.ones(2), romkit.integrators.Speed])
@pytest.mark.parametrize(
    "dynamics", [romkit.integrators.Galerkin, romkit.integrators.PetrovGalerkin]
)
def test_a_speed_is_one(dynamics, speed):
    with pytest.raises(InputError) as caught:
        dynamics(speed=speed)
    assert caught.value.argument == "speed"


@pytest.mark.parametrize("operator", [None, 1.0, "P", np.ones(2), lambda z: z])
def test_a_path_has_an_operator(operator):
    with pytest.raises(InputError) as caught:
        romkit.projections.Path.constant(operator)
    assert caught.value.argument == "operator"


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: door("shift", kind="shift"), "kind"),
        (lambda: door(None, (), {}, 0.0, 1.0), "arguments"),
        (lambda: placed(1.0, 2.0), "sizes"),
        (lambda: placed(1.0, 2.0, sizes=[3]), "sizes"),
        (lambda: door(rat=1.0), "rat"),
        (lambda: door(named=[1.0]), "named"),
        (lambda: door(rate=torch.ones((), device="meta")), "rate"),
        (lambda: romkit.Tracker(3), "source"),
        (lambda: romkit.infer(), "source"),
    ],
)
def test_every_refusal_names_the_argument(call, argument):
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.argument == argument


def test_behind_the_door_nothing_is_checked():
    assert unchecked(door)(kind="any")[0] == "any"
    assert unchecked(RK4)(0.5) == RK4(0.5)
    c = torch.zeros(2, 1)
    assert unchecked(Contexts)(c, c).path is None


def test_a_rollout_is_validated_once():
    """Verbs call each other, and what is below them, behind the door."""
    lorenz, projection = romkit.systems.Lorenz96(transient=0.0), romkit.load("ncae-lorenz96")
    settings = {"F": 3.15, "duration": 0.1, "solver": RK4(0.01)}
    data = lorenz.dataset(F=[3.14, 3.15, 3.16], duration=0.1)
    start = {"initial_state": data.state[0, 0], "system": lorenz, "dt": 0.01}
    pod = romkit.fit("pod", data, latent_dim=2, verbose=False)
    law = romkit.laws.SINDy(degree=1, threshold=0.0).fit(pod, data)

    def calls():
        run = romkit.rollout(lorenz, projection, **settings)
        romkit.rollout(data, pod, dynamics=law)
        romkit.forecast(projection, **settings, **start)
        romkit.data.fields(run)

    calls()
    depth, nested = 0, []
    guarded = romkit.rollout.__code__

    def watch(frame, event, _):
        nonlocal depth
        if frame.f_code is guarded and event in ("call", "return"):
            if event == "call" and depth:
                nested.append(frame.f_back.f_code.co_qualname)
            depth += 1 if event == "call" else -1

    sys.setprofile(watch)
    try:
        calls()
    finally:
        sys.setprofile(None)
    assert nested == []


def numbers():
    """What a user gets of short calls of several rooms."""
    system = romkit.systems.Lorenz96(n=6, transient=0.0)
    data = system.dataset(F=[3.14, 3.16, 3.18], duration=0.3)
    pod = romkit.fit("pod", data, latent_dim=2, verbose=False)
    ncae = romkit.fit("ncae", data, latent_dim=2, epochs=1, verbose=False)
    law = romkit.laws.SINDy(degree=1, threshold=0.0).fit(pod, data)
    runs = [
        romkit.rollout(system, ncae, F=3.15, duration=0.2).rom,
        romkit.forecast(
            pod, initial_state=np.ones(6), duration=0.2, dt=0.1, dynamics=law, F=3.15
        ).state,
        ncae(F=3.15).decode(np.ones((3, 2))),
    ]
    return [np.asarray(run, dtype=np.float64) for run in runs]


@pytest.fixture(scope="module")
def usual_numbers():
    return numbers()


@pytest.mark.filterwarnings("ignore::romkit.errors.ExtrapolationWarning")
@pytest.mark.parametrize("setting", ["inference", "no_grad", "device", "dtype", "threads"])
def test_settings_of_torch_that_are_the_users_change_nothing(setting, usual_numbers):
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    try:
        if setting == "inference":
            with torch.inference_mode():
                found = numbers()
        elif setting == "no_grad":
            with torch.no_grad():
                found = numbers()
        elif setting == "device":
            with torch.device("meta"):  # where tensors have no values, and an error is sure
                found = numbers()
        elif setting == "dtype":
            torch.set_default_dtype(torch.float64)
            found = numbers()
        else:
            torch.set_num_threads(2)
            found = numbers()
    finally:
        torch.set_default_dtype(dtype)
        torch.set_num_threads(threads)
    for array, usual in zip(found, usual_numbers, strict=True):
        assert np.allclose(array, usual, rtol=1e-5, atol=1e-7)


def test_signatures_show_types_without_checks():
    parameters = inspect.signature(romkit.learn).parameters
    shown = {name: parameter.annotation for name, parameter in parameters.items()}
    assert shown["seconds"] is float
    assert shown["latent_dim"] == int | None
    assert (
        shown["source"]
        == xr.Dataset | pd.DataFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    )

    for verb in (romkit.fit, romkit.rollout, romkit.forecast, romkit.law, romkit.Learned.forecast):
        text = str(inspect.signature(verb))
        assert "Annotated" not in text
        assert "<function" not in text
