"""Methods of few latents behind the basis: by Galerkin projection, and by laws that know no equation."""

import time
from collections.abc import Callable, Sequence

import xarray as xr
from torch import Tensor

import romkit
from romkit.integrators import Estimator, Galerkin, LearnedField, NeuralODE, SINDy
from romkit.projections import Path, Projection, unstack
from romkit.systems import Burgers2D
from romkit.verbs.reduced import precontracted
from studies.large.measuring import FOLDER, Found, evaluated, training

LATENT, SEEDS = 10, (0, 1, 2)
BEHIND, CURVED = 128, 100
"""Modes in front of networks; and of a quadratic manifold, which leave less than half its error with 20 latents."""
EPOCHS, STEP = 500, 0.5
LAYERS = (LATENT, 32, 64, BEHIND)
SIZES: dict[str, dict[str, object]] = {
    "flow": {"latent_dim": LATENT, "units": (64, 64, 64)},
    "ncae": {"layers": LAYERS, "embedding": (2, 16, 8)},
    "film-ae": {"encoder": LAYERS[::-1], "decoder": LAYERS},
}
LAWS: dict[str, tuple[Estimator, dict[str, Sequence[object]] | None]] = {
    "SINDy": (
        SINDy(unbias=False),
        {"degree": (1, 2), "threshold": (0.0, 0.01), "alpha": (0.05, 0.5, 5.0, 50.0)},
    ),
    "neural ODE": (NeuralODE(hidden=(128, 128)), None),
}
"""Laws, and settings that are chosen by rollouts of training contexts that are held out."""


def projected(
    method: str, sizes: dict[str, object], modes: int, seeds: Sequence[int], cells: int, every: int, number: int
) -> Found:
    """Errors and costs of a method behind the basis, by Galerkin projection; errors are (seeds, contexts)."""
    system, (basis, coordinates) = Burgers2D(cells=cells), training(cells, every)
    basis, through = basis.truncated(modes), system.through(basis.truncated(modes))
    began = time.process_time()
    models = unstack(_fit(method, sizes, coordinates.isel(component=slice(modes)), seeds))
    numbers = {"method": method, "training, seconds per seed": (time.process_time() - began) / len(seeds)}
    numbers |= {"parameters": sum(p.numel() for p in models[0].parameters()), "modes": modes, "n": system.state_size}

    def reduced(model: Projection) -> Callable:
        def at(c: Tensor, y0: Tensor, times: Tensor) -> tuple:
            P = model.double()(c)
            problem = through.problem(Path.constant(P), c)
            small = precontracted(problem, through.quadratic(c))
            return Galerkin().field(small), Galerkin().start(problem, times[0], (y0,)), P.decode

        return at

    return numbers | _by_seed([evaluated(system, basis, reduced(model), STEP, number) for model in models])


def network(
    method: str,
    *,
    epochs: int = EPOCHS,
    seeds: Sequence[int] = SEEDS,
    cells: int = 100,
    every: int = 2,
    number: int = 9,
) -> Found:
    """Galerkin projection of a network, trained with the preset "quick" but for epochs and rate, as all methods are."""
    sizes = SIZES[method] | {"epochs": epochs, "learning_rate": 0.003}
    return projected(method, sizes, BEHIND, seeds, cells, every, number)


def quadratic_manifold(latent_dim: int, *, cells: int = 100, number: int = 9) -> Found:
    """Galerkin projection of a quadratic manifold, which has no seeds."""
    return projected("quadratic-manifold", {"latent_dim": latent_dim}, CURVED, SEEDS[:1], cells, 2, number)


def discovered(name: str, models: Sequence[Projection], modes: int, cells: int, number: int) -> Found:
    """Errors and costs of a law in the latents of models, which sees no equation; seconds of training are the law's."""
    system, (basis, coordinates) = Burgers2D(cells=cells), training(cells)
    basis, coordinates, (estimator, choices) = (
        basis.truncated(modes),
        coordinates.isel(component=slice(modes)),
        LAWS[name],
    )
    began = time.process_time()
    laws = [estimator.fit(model, coordinates, select=choices) for model in models]
    numbers = {"method": name, "training, seconds per seed": (time.process_time() - began) / len(models)}
    numbers |= {"modes": modes, "n": system.state_size, "source": [law.source for law in laws]}

    def reduced(model: Projection, law: LearnedField) -> Callable:
        def at(c: Tensor, y0: Tensor, times: Tensor) -> tuple:
            P, rate = model.double()(c), law.right_hand_side(c)
            return (lambda t, z: rate(z)), P.encode(y0), P.decode

        return at

    pairs = zip(models, laws, strict=True)
    return numbers | _by_seed([evaluated(system, basis, reduced(*pair), STEP, number) for pair in pairs])


def in_flow(name: str, *, epochs: int = EPOCHS, cells: int = 100, number: int = 9) -> Found:
    """Law in the latents of the flow, which is trained once for all laws."""
    file = FOLDER / f"flow-{cells}-{epochs}.safetensors"
    if not file.exists():
        coordinates = training(cells)[1].isel(component=slice(BEHIND))
        sizes = SIZES["flow"] | {"epochs": epochs, "learning_rate": 0.003}
        romkit.save(_fit("flow", sizes, coordinates, SEEDS), file)
    return discovered(name, unstack(romkit.load(file)), BEHIND, cells, number)


def in_coordinates(name: str, latent_dim: int, *, cells: int = 100, number: int = 9) -> Found:
    """Law in the leading POD coordinates, which the quadratic manifold decodes."""
    coordinates = training(cells)[1].isel(component=slice(CURVED))
    models = [romkit.fit("quadratic-manifold", coordinates, latent_dim=latent_dim)]
    return discovered(name, models, CURVED, cells, number)


def _fit(method: str, sizes: dict[str, object], coordinates: xr.Dataset, seeds: Sequence[int]) -> Projection:
    return romkit.fit(method, coordinates, seeds=seeds, engine="torch", **sizes)


def _by_seed(found: Sequence[Found]) -> Found:
    return {name: [each[name] for each in found] for name in found[0]}
