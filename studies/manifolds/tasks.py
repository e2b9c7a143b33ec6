"""Four manifolds of equal latents on five motions, each with a law from the data alone."""

import time

import numpy as np
import torch
import xarray as xr

import romkit
from romkit.core.errors import InputError
from romkit.projections import Projection
from studies.manifolds.cases import CASES, Case
from studies.runner import Numbers, Study

NETWORKS = ("ncae", "ncae-weights")
INNER, SIGNAL = (24, 48), (8, 16)
"""Units of the inner layers of a network, and of its embedding of the context."""


def tasks(preset: str) -> list[Numbers]:
    """Return a task for each case and method."""
    table = Study("manifolds").presets[preset]
    return [
        Numbers.of(
            f"{case}, {method}",
            compared,
            case=case,
            method=method,
            seconds=table["seconds"],
            epochs=table["epochs"],
        )
        for case in table["cases"]
        for method in table["methods"]
    ]


def compared(case: str, method: str, seconds: float, epochs: int) -> dict[str, object]:
    """Return errors of a manifold and of a law on it at unseen contexts, and CPU seconds.

    Args:
        case: name in `CASES`.
        method: of `romkit.fit`.
        seconds: of the processor that the law may take.
        epochs: of a network.
    """
    motion = CASES[case]
    data, truth = motion.make(motion.train), motion.make(motion.unseen)
    began = time.process_time()
    model = fitted(method, data, motion, epochs)
    found = {
        "latents": model.latent_dim,
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds, manifold": time.process_time() - began,
        "projection": projected(model, truth),
        "idempotency": idempotency(model, truth),
    }
    began = time.process_time()
    try:
        law = romkit.law(model, data, seconds=seconds)
    except InputError as error:  # all of its rollouts are lost
        found |= {"law": f"none: {error.got}", "forecast": [float("nan")] * len(motion.unseen)}
    else:
        row = next(row for row in law.report if row["chosen"])
        run = romkit.follow(model, truth, dynamics=law)
        found |= {"law": row["law"], "forecast": errors(run["state"].values, truth)}
    return found | {"seconds, law": time.process_time() - began}


def fitted(method: str, data: xr.Dataset, motion: Case, epochs: int) -> Projection:
    """Return the manifold, with sizes (m, 24, 48, n) of networks."""
    settings: dict[str, object] = {"latent_dim": motion.latents, "verbose": False}
    if method in NETWORKS:
        n = data.sizes["component"] if motion.basis is None else motion.basis
        inner = [min(size, n) for size in INNER]
        parameters = len(romkit.data.context_names(data))
        settings |= {"layers": (motion.latents, *inner, n), "embedding": (parameters, *SIGNAL)}
        settings |= {"epochs": epochs, "batch_size": 256, "optimizer": "soap", "engine": "torch"}
    return romkit.fit(method, data, basis=motion.basis, **settings)


def projected(model: Projection, truth: xr.Dataset) -> list[float]:
    """Return error of P(x) over each run."""
    with torch.no_grad():
        return errors(model(truth)(truth["state"].values), truth)


def idempotency(model: Projection, truth: xr.Dataset) -> float:
    """Return largest error of P(P(x)) = P(x), relative to the deviation of the states."""
    P = model.double()(truth)
    x = torch.from_numpy(np.nan_to_num(truth["state"].values[:, ::10].astype(np.float64)))
    with torch.no_grad():
        image = P(x)
        return float((P(image) - image).abs().max() / x.std())


def errors(states: np.ndarray, truth: xr.Dataset) -> list[float]:
    """Return error of each run (T, n): root mean square, relative to its deviation from its mean."""
    x = truth["state"].values
    apart = np.sqrt(np.square(states - x).mean((1, 2)))
    spread = np.sqrt(np.square(x - x.mean(1, keepdims=True)).mean((1, 2)))
    return (apart / spread).tolist()
