"""A model does not depend on the number of threads."""

import os
import subprocess
import sys

LEARN = """
import numpy as np, romkit
t, rates = np.linspace(0, 6, 41), np.linspace(1, 2, 5)
x = np.linspace(0, 1, 50, endpoint=False)
noise = 0.05 * np.random.default_rng(0).normal(size=(5, 41, 50))
phase = rates[:, None, None] * t[:, None] + 2 * np.pi * x
runs = np.sin(phase) + 0.3 * np.cos(2 * phase) + noise
data = romkit.data.from_arrays(runs, t, context={"rate": rates})
model = romkit.learn(data, latent_dim=2, kinds=[romkit.laws.PolynomialLaw(degree=2)])
print(model.settings, [round(c, 6) for c in model.law.coefficients.flatten().tolist()], f"{model.error:.12g}")
"""


def test_learn_finds_the_same_law_on_one_and_two_threads():
    found = []
    for number in "12":
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), number)
        process = subprocess.run(
            [sys.executable, "-c", LEARN],
            env=os.environ | threads,
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(process.stdout.splitlines()[-1])
    assert found[0] == found[1]
