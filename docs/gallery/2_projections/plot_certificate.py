"""A certificate
=============

How much can a projection stretch the distance of two states? A semidefinite program bounds the stretch of all pairs;
the largest stretch that a search finds shows how sharp the bound is.
"""

import numpy as np
from matplotlib.figure import Figure

import romkit

ncae = romkit.load("ncae-lorenz96")
bounds = romkit.certify(ncae, F=3.15)[["lower", "upper", "product"]].to_dataframe()
print(bounds)

figure = Figure(figsize=(4.5, 2.8), layout="constrained")
axis = figure.subplots()
places = np.arange(len(bounds))
for k, (name, label) in enumerate(
    (("lower", "found"), ("upper", "certificate"), ("product", "product of layers"))
):
    axis.bar(places + 0.25 * (k - 1), bounds[name], width=0.25, label=label)
axis.set(yscale="log", ylabel="Lipschitz constant")
axis.set_xticks(places, [str(index) for index in bounds.index])
axis.legend(fontsize=7)
