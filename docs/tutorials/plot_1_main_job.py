"""From a system to a reduced model
================================

Simulate a system over a range of its context, learn a projection that is exact at every context, and measure how long
the reduced model follows the full one. The system is Lorenz96: 36 variables on a ring, and a forcing F as context.
"""

import tempfile
from pathlib import Path

import torch

import romkit
from romkit.plotting import plot_rollout

# %%
# Data
# ----
# A system has a range of contexts for training, and the training set has random contexts from this range. The set is an
# `xarray.Dataset` with named variables in physical units.

system = romkit.systems.Lorenz96()
data = system.dataset("train", seed=0)
print(data)

# %%
# A projection
# ------------
# The NcAE has an encoder and a decoder whose layers are inverse to each other. A small network of the context changes
# the activations of these layers. For Lorenz96 the layers have the sizes of the paper; for other systems, give
# `latent_dim`.

ncae = romkit.fit("ncae", data, seed=0)
print(ncae.name, ncae.config["layers"], "in", round(ncae.report["seconds"]), "s")

# %%
# Called with a context, it is the projection operator P there. P(P(x)) = P(x), whatever x and context are.

P = ncae(F=3.15)
x = torch.tensor(data.state.values[0, :100], dtype=torch.float32)
with torch.no_grad():
    print(
        "latent:",
        tuple(P.encode(x).shape),
        " largest P(P(x)) - P(x):",
        float((P(P(x)) - P(x)).abs().max()),
    )

# %%
# A rollout
# ---------
# Full and reduced model start from the same state, at a context that is not in the training set.

run = romkit.rollout(system, ncae, F=3.15, duration=20)
end = run.isel(time=-1)
print(
    f"error after 20 time units {float(end.nrmse):.2g}, of the projection alone {float(end.nrmse_projected):.2g}"
)
figure = plot_rollout(run)

# %%
# Where does the error come from?
# -------------------------------
# The lower curve of the last panel is the error of the projected truth, without dynamics: the error of the manifold.
# The upper curve is the error of the rollout, which grows because the reduced wave is a little too fast or too slow. A
# loss on snapshots does not contain this error; the preset `dynamics` adds rollouts to the loss, and the study of drift
# measures the gain. The shipped model was trained on more contexts:

pretrained = romkit.load("ncae-lorenz96")
longer = romkit.rollout(system, pretrained, F=3.15)
print(
    f"pretrained model: valid for {float(longer.valid_time):.0f} of {float(longer.time[-1]):.0f} time units"
)

# %%
# Saving and loading
# ------------------
# Files of models contain no code, and are checked when they are read.

with tempfile.TemporaryDirectory() as folder:  # yours stays where you want it
    again = romkit.load(romkit.save(ncae, Path(folder) / "ncae.safetensors"))
print(again)
