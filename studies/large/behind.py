"""Methods of few latents behind the basis: by Galerkin projection, and by laws that know no equation."""

import time
from collections.abc import Callable, Sequence

import xarray as xr
from torch import Tensor

import romkit
from romkit.integrators import Estimator, Galerkin, LearnedField, NeuralODE, SINDy
from romkit.projections import Path, Projection, unstack
from romkit.systems import Burgers2D
from romkit.verbs.reduced import folded
from studies.large.measuring import FOLDER, evaluated, training
from studies.pieces import Numbers

LATENT, SEEDS = 10, (0, 1, 2)
BEHIND = 128
"""Modes in front of networks."""

FLOW = {"latent_dim": LATENT, "units": (64, 64, 64)}
LAYERS = (LATENT, 32, 64, BEHIND)
CURVED = 100
"""Modes in front of a quadratic manifold, which leave less than half as much as it does with 20 latents."""

SIZES: dict[str, dict[str, object]] = {
    "flow": FLOW,
    "ncae": {"layers": LAYERS, "embedding": (2, 16, 8)},
    "film-ae": {"encoder": LAYERS[::-1], "decoder": LAYERS},
}
TRAINING = {"epochs": 500, "learning_rate": 0.003}
"""Otherwise the preset "quick"; the same for all methods, and none was chosen by errors at unseen contexts."""

LAWS: dict[str, tuple[Estimator, dict[str, Sequence[object]] | None]] = {
    "SINDy": (
        SINDy(unbias=False),
        {"degree": (1, 2), "threshold": (0.0, 0.01), "alpha": (0.05, 0.5, 5.0, 50.0)},
    ),
    "neural ODE": (NeuralODE(hidden=(128, 128)), None),
}
"""Laws, and what is chosen by rollouts of training contexts that are held out."""


def projected(
    method: str,
    sizes: dict[str, object],
    modes: int = BEHIND,
    seeds: Sequence[int] = SEEDS,
    *,
    cells: int = 100,
    every: int = 2,
    number: int = 9,
    step: float = 0.5,
) -> Numbers:
    """Errors and costs of a method behind the basis, by Galerkin projection; errors are (seeds, contexts)."""
    system, (basis, coordinates) = Burgers2D(cells=cells), training(cells, every)
    basis, through = basis.truncated(modes), system.through(basis.truncated(modes))
    began = time.process_time()
    models = unstack(trained(method, sizes, coordinates.isel(component=slice(modes)), seeds))
    numbers = {"method": method, "training, seconds per seed": (time.process_time() - began) / len(seeds)}
    numbers |= {"parameters": sum(p.numel() for p in models[0].parameters()), "modes": modes, "n": system.state_size}

    def reduced(model: Projection) -> Callable:
        def at(c: Tensor, y0: Tensor, times: Tensor) -> tuple:
            P = model.double()(c)
            problem = through.problem(Path.constant(P), c)
            small = folded(problem, through.quadratic(c))
            return Galerkin().field(small), Galerkin().start(problem, times[0], (y0,)), P.decode

        return at

    return numbers | _side_by_side([evaluated(system, basis, reduced(model), step, number) for model in models])


def network(method: str, **settings: object) -> Numbers:
    """The same of a network with the sizes that are compared."""
    return projected(method, SIZES[method], **settings)


def quadratic_manifold(latent_dim: int) -> Numbers:
    """The same of one, which has no seeds."""
    return projected("quadratic-manifold", {"latent_dim": latent_dim}, CURVED, SEEDS[:1])


def discovered(name: str, models: Sequence[Projection], modes: int) -> Numbers:
    """The same of a law in the latents of models, which sees no equation; seconds of training are those of the law."""
    system, (basis, coordinates) = Burgers2D(cells=100), training()
    basis, coordinates, (estimator, grid) = basis.truncated(modes), coordinates.isel(component=slice(modes)), LAWS[name]
    began = time.process_time()
    laws = [estimator.fit(model, coordinates, select=grid) for model in models]
    numbers = {"method": name, "training, seconds per seed": (time.process_time() - began) / len(models)}
    numbers |= {"modes": modes, "n": system.state_size, "source": [law.source for law in laws]}

    def reduced(model: Projection, law: LearnedField) -> Callable:
        def at(c: Tensor, y0: Tensor, times: Tensor) -> tuple:
            P, rate = model.double()(c), law.right_hand_side(c)
            return (lambda t, z: rate(z)), P.encode(y0), P.decode

        return at

    pairs = zip(models, laws, strict=True)
    return numbers | _side_by_side([evaluated(system, basis, reduced(*pair), 0.5) for pair in pairs])


def in_flow(name: str) -> Numbers:
    """The same in the latents of the flow, which is trained once for all laws."""
    file = FOLDER / "flow.safetensors"
    if not file.exists():
        romkit.save(trained("flow", FLOW, training()[1].isel(component=slice(BEHIND)), SEEDS), file)
    return discovered(name, unstack(romkit.load(file)), BEHIND)


def in_coordinates(name: str, latent_dim: int) -> Numbers:
    """The same in the leading POD coordinates, which the quadratic manifold decodes."""
    coordinates = training()[1].isel(component=slice(CURVED))
    return discovered(name, [romkit.fit("quadratic-manifold", coordinates, latent_dim=latent_dim)], CURVED)


def trained(method: str, sizes: dict[str, object], coordinates: xr.Dataset, seeds: Sequence[int]) -> Projection:
    """A stack of seeds."""
    return romkit.fit(method, coordinates, seeds=seeds, engine="torch", **TRAINING, **sizes)


def _side_by_side(found: Sequence[Numbers]) -> Numbers:
    """Numbers of several seeds, by name."""
    return {name: [each[name] for each in found] for name in found[0]}
