"""Whether a residual that needs no full model tells the errors of a reduced one, inside and outside of the range."""

import time

import numpy as np
import torch
from scipy.stats import spearmanr

import romkit
from romkit.systems import Burgers2D
from studies.large.measuring import training
from studies.pieces import Numbers

OUTSIDE = ((4.0, 0.012), (5.8, 0.034), (6.2, 0.02), (4.6, 0.036), (3.5, 0.025))
"""Contexts out of the training range."""


def shares(rank: int) -> Numbers:
    """Error of POD-Galerkin and mean unresolved share of the velocity, at unseen contexts; seconds of the share."""
    system, basis = Burgers2D(cells=100), training()[0].truncated(rank)
    through = system.through(basis)
    errors, found, costs = [], [], []
    for mu1, mu2 in (*system.test_contexts(), *OUTSIDE):
        truth = system.dataset(mu1=[mu1], mu2=[mu2])
        start = basis.project(truth.isel(time=[0]))["state"].values[:, 0]
        run = romkit.simulate(
            through, initial_state=start, mu1=[mu1], mu2=[mu2], duration=system.duration, dt=system.dt
        )
        run = run.isel(time=slice(truth.sizes["time"]))
        began = time.process_time()
        found.append(float(through.unresolved(run).mean()))
        costs.append(time.process_time() - began)
        x, decoded = truth["state"].values[0], basis.decode(torch.from_numpy(run["state"].values[0])).numpy()
        errors.append(float(np.linalg.norm(decoded - x) / np.linalg.norm(x)))
    inside = len(errors) - len(OUTSIDE)
    return {
        "modes": rank,
        "errors inside": errors[:inside],
        "errors outside": errors[inside:],
        "shares inside": found[:inside],
        "shares outside": found[inside:],
        "rank correlation": float(spearmanr(errors, found).statistic),
        "first call, seconds": costs[0],
        "one state, seconds": float(np.median(costs[1:])) / run.sizes["time"],
    }
