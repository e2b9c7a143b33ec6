"""Where there is a GPU: laws that are fitted there are those of the CPU, and come back to it."""

import numpy as np
import pytest
import torch

import romkit
from romkit.laws import (
    DMD,
    LimitCycle,
    NeuralODE,
    OperatorInference,
    PolynomialLaw,
    SINDy,
    Steady,
    WeakSINDy,
)

pytestmark = pytest.mark.gpu

ESTIMATORS = {
    "sindy": SINDy(degree=2, share=0.01),
    "weak": WeakSINDy(degree=2),
    "operator-inference": OperatorInference(),
    "dmd": DMD(),
    "polynomial": PolynomialLaw(degree=3, context_degree=1),
    "limit-cycle": LimitCycle(degree=1),
    "steady": Steady(),
    "neural-ode": NeuralODE(regression_steps=20, shooting_steps=5),
}


def oscillations() -> "romkit.data.Dataset":
    """Runs of an oscillation in six components, whose frequency and radius follow c."""
    t, c = np.linspace(0.0, 12.0, 241), np.linspace(1.0, 2.0, 6)
    phase = c[:, None] * t
    radius = 1 + 0.2 * c[:, None]
    z = radius[..., None] * np.stack([np.cos(phase), np.sin(phase)], -1)  # (C, T, 2)
    directions = np.linalg.qr(np.vander(np.linspace(-1, 1, 6), 2))[0]
    return romkit.data.from_arrays(z @ directions.T, t, context={"c": c})


@pytest.fixture(scope="module")
def fitted():
    data = oscillations()
    return data, romkit.fit("pod", data, latent_dim=2)


def rates(law, projection) -> torch.Tensor:
    z = torch.tensor([[0.3, -0.8], [1.0, 0.4], [-0.9, 0.7]], dtype=torch.float64)
    return law.right_hand_side(torch.full((3, 1), 1.37, dtype=torch.float64))(z)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_law_of_a_gpu_is_that_of_the_cpu(name, fitted):
    data, pod = fitted
    here = rates(ESTIMATORS[name].fit(pod, data), pod)
    there = rates(ESTIMATORS[name].fit(pod, data, device="cuda"), pod)
    assert there.device.type == "cpu"
    # sums in another order, through the condition of the terms
    assert torch.allclose(there, here, rtol=1e-5, atol=1e-6)


def test_laws_are_fitted_where_the_projection_is(fitted):
    data, pod = fitted
    there = romkit.fit("pod", data, latent_dim=2).to("cuda")
    estimator = SINDy(degree=1, share=0.0)
    assert estimator.samples(there, data).inputs.is_cuda
    assert torch.allclose(
        rates(estimator.fit(there, data), pod), rates(estimator.fit(pod, data), pod), atol=1e-8
    )


def test_the_choice_on_a_gpu_is_that_on_the_cpu(fitted):
    data, pod = fitted
    here = romkit.law(pod, data, kinds=["operator-inference", "sindy"])
    there = romkit.law(pod, data, kinds=["operator-inference", "sindy"], device="cuda")
    assert [row["law"] for row in there.report][:1] == [row["law"] for row in here.report][:1]
    assert torch.allclose(rates(there, pod), rates(here, pod), rtol=1e-4, atol=1e-5)


def test_learn_on_a_gpu_forecasts_as_on_the_cpu(fitted):
    data, _ = fitted
    options = {"latent_dim": 2, "kinds": [PolynomialLaw(degree=1, context_degree=2)], "seed": 0}
    here, there = (romkit.learn(data, **options, device=device) for device in ("cpu", "cuda"))
    assert there.error == pytest.approx(here.error, rel=0.05, abs=1e-6)
    run = there.forecast(initial_state=data.state[0, 0], duration=2, dt=0.1, c=1.3)
    assert np.isfinite(run.state.values).all()
