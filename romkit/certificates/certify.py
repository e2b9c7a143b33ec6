"""`romkit.certify`: Lipschitz constants of encoder, decoder and projection at one context, from above and below."""

import copy
import math
import time

import torch
import xarray as xr
from torch import Tensor

from romkit import arrays
from romkit.boundary import Limit, Numbers, checked
from romkit.certificates.bounds import ANYWHERE, product, sampled, slopes
from romkit.certificates.chain import Chain, chain
from romkit.certificates.lipsdp import lipsdp
from romkit.errors import InputError
from romkit.projections import Projection
from romkit.projections.networks import Networks

MAPS = ("encoder", "decoder", "projection")


@checked
def certify(
    projection: Projection,
    context: Tensor | float | None = None,
    *,
    center: Numbers | None = None,
    radius: Limit = math.inf,
    **named: float,
) -> xr.Dataset:
    """Bounds of the Lipschitz constants of ρ, φ and P at one context, in physical units and Euclidean norms.

    On the ball ‖x - center‖ ≤ radius, and for φ on the ball of the latent space that holds all encoded states of it.
    A deep network needs a ball: with every slope that its units can take, bounds are many times too large.

    Args:
        projection: a single constrained autoencoder or autoencoder (not a flow, which is no chain of activations).
        context: (p,) in physical units, or give it by name: `certify(ncae, F=3.15)`.
        center: (n,), the mean of the training data by default.
        radius: in the unit of the states; all states by default.
        **named: the context by name.

    Returns:
        A dataset along `map` (encoder, decoder, projection): `upper`, which no pair of states of the ball exceeds, the
        smaller of the semidefinite bound and `product`, the product of the layers' norms, rebalanced; `lower`, the
        largest stretching that was found; the `radius` of each ball; and `seconds`.

    Raises:
        InputError: a projection that is no such network, a stack, more than one context, cvxpy missing.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(n=4, transient=0.0, duration=0.1).dataset(F=[3.1, 3.2])
        >>> bounds = romkit.certify(romkit.fit("ncae", data, latent_dim=2, epochs=1, verbose=False), F=3.15, radius=0.1)
        >>> bounds["map"].values.tolist()
        ['encoder', 'decoder', 'projection']
        >>> bool((bounds.lower <= bounds.upper).all())
        True
    """
    if projection.seeds is not None:
        raise InputError("projection", expected="a single model", got="a stack", fix="take one of romkit.unstack(...)")
    if projection.basis is not None:
        fix = "certify projection.of_coordinates(): the basis is an isometry in its metric"
        raise InputError("projection", expected="one without a basis in front", got=str(projection.basis), fix=fix)
    double = copy.deepcopy(projection).cpu().double().requires_grad_(False)
    normalization, operator = double.normalization, double(context, **named)
    maps = double.at(normalization.normalise_context(operator.context))
    if operator.context.ndim != 1 or not isinstance(maps, Networks):
        got, fix = f"{projection.name} at {tuple(operator.context.shape[:-1])} contexts", "see the arguments"
        raise InputError("projection", expected="a chain of layers at one context", got=got, fix=fix)
    mean, scale = normalization.state_shift, normalization.state_scale
    center = mean if center is None else arrays.states("center", center, len(mean), 1)[0]
    chains = {name: chain(maps, name, mean, scale) for name in MAPS}
    with torch.no_grad():
        found = {"encoder": _bounds(chains["encoder"], center, radius, scale.norm().item())}
        latent = chains["encoder"].value_and_jacobian(center)[0]
        reach = found["encoder"]["upper"] * radius
        found["decoder"] = _bounds(chains["decoder"], latent, reach, found["encoder"]["upper"] * scale.norm().item())
        found["projection"] = _bounds(chains["projection"], center, radius, scale.norm().item())
    columns = {name: ("map", [found[which][name] for which in MAPS]) for name in found["encoder"]}
    names = normalization.signature.context_names
    attrs = dict(zip(names, operator.context.tolist(), strict=True)) | {"projection": projection.name}
    return xr.Dataset(columns, {"map": list(MAPS)}, attrs)


def _bounds(links: Chain, center: Tensor, radius: float, spread: float) -> dict[str, float]:
    """Upper and lower bounds on a ball; `spread` is how far from the center states of interest are."""
    started = time.perf_counter()
    ranges = slopes(links, center, min(radius, ANYWHERE))
    by_layers = product(links, ranges)
    upper = min(by_layers, lipsdp(links, ranges, by_layers)) if ranges else by_layers
    lower = sampled(links, center, radius, spread=spread)
    seconds = time.perf_counter() - started
    return {"upper": upper, "product": by_layers, "lower": lower, "radius": radius, "seconds": seconds}
