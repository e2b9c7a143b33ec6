"""Inferring a context
===================

A projection that is exact at every context measures how well a state belongs to a context: the residual ‖x - P_c(x)‖ is
smallest at the context that the state comes from, if the manifold moves enough with the context. The example finds the
link lengths of a pendulum from a film of its angles.
"""

import torch
from matplotlib.figure import Figure

import romkit

system = romkit.systems.Pendulum()
ncae = romkit.load("ncae-pendulum").double()
lengths = {"l1": 0.48, "l2": 0.61, "l3": 0.55, "l4": 0.66}
film = romkit.simulate(system, **lengths, duration=3)
states = torch.tensor(film.state.values[0, ::30])

# %%
# Which lengths can be found?
# ---------------------------
# The residual is plotted against one length at a time, with the others at their true values. Three of the four lengths
# move the manifold. The second one hardly changes the residual, so it cannot be found from the angles.


def residual(**context):
    P = ncae(**context)
    return (P(states.expand(*P.context.shape[:-1], -1, -1)) - states).square().mean((-1, -2)).sqrt()


figure = Figure(figsize=(7, 2.4), layout="constrained")
for axis, (name, true) in zip(figure.subplots(1, 4, sharey=True), lengths.items(), strict=True):
    tried = torch.linspace(true - 0.1, true + 0.1, 41, dtype=torch.float64)
    with torch.no_grad():
        axis.semilogy(tried, residual(**lengths | {name: tried}))
    axis.axvline(true, color="0.6", lw=0.8)
    axis.set_xlabel(f"{name} in m")
figure.axes[0].set_ylabel("residual in rad")

# %%
# All at once
# -----------
# The residual is differentiable in the context, so a quasi-Newton method finds the lengths. It starts in the middle of
# the training range, where the second length stays.

middle = dict(zip(lengths, ncae.frame.context_shift.tolist(), strict=True))
seen = ("l1", "l3", "l4")
guess = torch.tensor([middle[name] for name in seen], dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.LBFGS([guess], lr=0.5, max_iter=60, line_search_fn="strong_wolfe")


def loss():
    optimizer.zero_grad()
    context = torch.stack(
        [guess[0], torch.tensor(middle["l2"], dtype=torch.float64), guess[1], guess[2]]
    )
    value = 1e4 * (ncae(context)(states) - states).square().mean()
    value.backward()
    return value


optimizer.step(loss)
for name, value in zip(seen, guess.detach().tolist(), strict=True):
    print(f"{name}: {value:.3f} m, true {lengths[name]} m")
