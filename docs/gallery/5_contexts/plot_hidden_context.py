"""Parameters that nobody recorded
================================

Oscillators of unknown stiffness: `romkit.hidden_context` says how many parameters differ between them, and gives their
values, up to a scale. The true ones are only needed for the picture.
"""

import matplotlib.pyplot as plt
import numpy as np

import romkit

times = np.linspace(0, 5, 26)
stiffness = np.array([1.0, 1.9, 1.3, 2.4, 1.6])
w = np.sqrt(stiffness)[:, None]
runs = np.stack([np.cos(w * times), -w * np.sin(w * times)], axis=-1)
noise = 0.01 * np.random.default_rng(0).standard_normal(runs.shape)

found = romkit.hidden_context(romkit.data.from_arrays(runs + noise, times))
print(found)

values = found.values.isel(parameter=0)
half = values["upper"] - values["value"]
figure, axes = plt.subplots(figsize=(3.2, 2.6), layout="constrained")
axes.errorbar(stiffness, values["value"], half, fmt="o", color="#0072B2", ms=4)
axes.set(xlabel="true stiffness", ylabel="hidden parameter")
