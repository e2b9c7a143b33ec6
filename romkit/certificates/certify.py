"""`romkit.certify`: how far encoder, decoder and projection stretch distances, and move with the
context.
"""

import copy
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import xarray as xr
from torch import Tensor

from romkit.certificates.bounds import Jacobian, product, sampled
from romkit.certificates.links import Links, Signal, Units, links
from romkit.certificates.lipsdp import lipsdp
from romkit.certificates.network import network
from romkit.core import tensors
from romkit.core.boundary import Limit, NotNegative, Numbers, validated
from romkit.core.errors import InputError
from romkit.projections import Projection

MAPS = ("encoder", "decoder", "projection")

STEP = 1e-6
"""Step of central differences of the context, as a share of half its range; about nine digits are
right in float64.
"""


@validated
def certify(
    projection: Projection,
    context: Tensor | float | None = None,
    *,
    center: Numbers | None = None,
    radius: Limit = math.inf,
    context_radius: NotNegative = 0.0,
    **named: float,
) -> xr.Dataset:
    """Bounds of the Lipschitz constants of ρ, φ and P in the state and in the context, in physical
    units.

    They hold for all states with ‖x - center‖ ≤ radius and all contexts with ‖c' - c‖ ≤
    context_radius, and for φ on the ball of the latent space that holds all encoded ones of them.
    So for any two of each

        ‖P_c'(x') - P_c(x)‖ ≤ upper · ‖x' - x‖ + context_upper · ‖c' - c‖,

    which is how far noise of both moves a projected state, and no point of the manifold of c in the
    ball is further from that of c' than context_upper · ‖c' - c‖, with the number of P or that of
    φ. A deep network needs a ball of
    states: with every slope that its units can take, bounds are many times too large. So does a
    context that changes
    slopes: far away, where σ is a straight line, it moves as far as it is away.

    Args:
        projection: a single one of any class, the user's own too; its maps are traced and bounded.
        context: (p,) in physical units, or give it by name: `certify(ncae, F=3.15)`.
        center: (n,), the mean of the training data by default.
        radius: in the unit of the states; all states by default. A flow needs one.
        context_radius: in the unit of the context; this context alone by default, where
            `context_upper` is what a small change of it does.
        **named: the context by name.

    Returns:
        A dataset along `map` (encoder, decoder, projection): `upper`, which no pair of states of
        the ball exceeds, the smallest of a semidefinite bound, of `product`, the product of the
        layers' norms, rebalanced, and of the norm of intervals; `lower`, the largest stretching
        that was found; `context_upper` and `context_lower`, the same of what a unit of context
        moves; the `radius` of each ball; and `seconds`.

    Raises:
        InputError: maps with an operation that has no bounds, a stack, more than one context, all
            states where nothing bounds them, cvxpy missing (extra `certify`).

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(n=4, transient=0.0, duration=0.1).dataset(F=[3.1, 3.2])
        >>> bounds = romkit.certify(romkit.fit("ncae", data, latent_dim=2, epochs=1, verbose=False), F=3.15, radius=0.1)
        >>> bounds["map"].values.tolist()
        ['encoder', 'decoder', 'projection']
        >>> bool((bounds.lower <= bounds.upper).all())
        True
    """
    model = _single(projection)
    frame, c = model.frame, model(context, **named).context
    if c.ndim != 1:
        got, fix = f"{tuple(c.shape[:-1])} of them", "certify one after the other"
        raise InputError("context", expected="one context", got=got, fix=fix)
    mean = frame.state_shift
    center = mean if center is None else tensors.states("center", center, len(mean), 1)[0]
    with torch.no_grad():
        found = _of_maps(model, (center, c), (radius, context_radius))
    columns = {name: ("map", [found[which][name] for which in MAPS]) for name in found["encoder"]}
    names = frame.context_names
    attrs = dict(zip(names, c.tolist(), strict=True)) | {"projection": projection.name}
    return xr.Dataset(columns, {"map": list(MAPS)}, attrs | {"context_radius": context_radius})


def _single(projection: Projection) -> Projection:
    """A copy in float64, of a single model without a basis."""
    if projection.seeds is not None:
        raise InputError(
            "projection",
            expected="a single model",
            got="a stack",
            fix="take one of romkit.unstack(...)",
        )
    if projection.basis is not None:
        fix = "certify projection.of_coordinates(): the basis is an isometry in its metric"
        raise InputError(
            "projection",
            expected="one without a basis in front",
            got=str(projection.basis),
            fix=fix,
        )
    return copy.deepcopy(projection).cpu().double().requires_grad_(False)


def _of_maps(
    model: Projection, centers: tuple[Tensor, Tensor], radii: tuple[float, float]
) -> dict[str, dict]:
    (center, c), (radius, context_radius) = centers, radii
    spread = model.frame.state_scale.norm().item()
    encoder = _Certified(model, "encoder", centers, radii, spread).bounds()
    if math.isinf(encoder["upper"]):
        fix = "give the radius of a ball about the mean state"
        raise InputError(
            "radius", expected=f"a finite one for {model.name}", got="all states", fix=fix
        )
    reach = encoder["upper"] * radius + (
        encoder["context_upper"] * context_radius if context_radius else 0.0
    )
    latent = (model(c).encode(center), c), (reach, context_radius)
    decoder = _Certified(model, "decoder", *latent, encoder["upper"] * spread).bounds()
    stretched, moved = (
        decoder["upper"] * encoder["upper"],
        decoder["upper"] * encoder["context_upper"],
    )
    composed = stretched, moved + decoder["context_upper"]  # ∂P = Dφ ∂ρ + ∂φ
    projection = _Certified(model, "projection", centers, radii, spread).bounds(*composed)
    return dict(zip(MAPS, (encoder, decoder, projection), strict=True))


@dataclass
class _Certified:
    """One map on the balls of its inputs; `spread` is the distance of typical states from the
    center.
    """

    model: Projection
    which: str
    centers: Sequence[Tensor]
    radii: Sequence[float]
    spread: float

    def bounds(self, stretched: float = math.inf, moved: float = math.inf) -> dict[str, float]:
        """All columns of the dataset; `stretched` and `moved` are known bounds in the state and in
        the context.
        """
        try:
            return self._bounds(stretched, moved)
        except torch.linalg.LinAlgError:
            raise self._refusal() from None

    def _bounds(self, stretched: float, moved: float) -> dict[str, float]:
        started = time.perf_counter()
        units = Units(self.centers, self.radii)
        output = network(self._map, units)
        self._check_slopes(output)
        of_state, of_context = (links(units, output, k) for k in (0, 1))
        by_paths = math.inf if self._grows(of_state) else product(of_state)
        upper, moved = (
            self._upper(of_state, min(by_paths, stretched)),
            self._upper(of_context, moved),
        )
        found = {"upper": upper, "product": by_paths, "lower": self._lower(self._by_state, upper)}
        found |= {"context_upper": moved, "context_lower": self._lower(self._by_context, moved)}
        return found | {"radius": self.radii[0], "seconds": time.perf_counter() - started}

    def _check_slopes(self, output: Signal) -> None:
        """Refuse a map that has no value or no slope somewhere in a ball."""
        parts = (output.value, output.middle, output.spread)
        undefined = any(bool(part.isnan().any()) for part in parts)
        unbounded = any(bool(part.isinf().any()) for part in parts)
        if undefined or (unbounded and not math.isinf(self.radii[0])):
            raise self._refusal()

    def _refusal(self) -> InputError:
        fix = (
            "take a smaller ball, or an operation that is smooth there: sqrt(x + 1e-6) for sqrt(x)"
        )
        got = f"an {self.which} whose slope is infinite or undefined in the ball"
        return InputError("projection", expected="maps with bounded slopes", got=got, fix=fix)

    def _grows(self, found: Links) -> bool:
        """Whether units multiply a signal by another one, and all states are allowed."""
        return math.isinf(self.radii[0]) and any(len(block.matrices) > 1 for block in found.blocks)

    def _upper(self, found: Links, known: float) -> float:
        if self._grows(found):
            return known
        least = min(known, found.enclosure)
        return min(least, lipsdp(found, least)) if found.blocks and least else least

    def _lower(self, jacobian: Jacobian, upper: float) -> float:
        """NaN without an upper bound, where ascent would find any number; zero where the upper
        bound is zero.
        """
        if upper in (0.0, math.inf):
            return math.nan if upper else 0.0
        return sampled(jacobian, self.centers, self.radii, self.spread)

    def _map(self, x: Tensor, c: Tensor) -> Tensor:
        P = self.model.operator(c)
        return {"encoder": P.encode, "decoder": P.decode, "projection": P}[self.which](x)

    def _by_state(self, x: Tensor, c: Tensor) -> Tensor:
        """Derivative (points, r, n) of the map by the state, or by the latent state."""
        P = self.model.operator(c)
        if self.which == "decoder":
            return P.decode_jacobian(x).tangent
        directions = torch.eye(x.shape[-1], dtype=x.dtype).expand(*x.shape, -1)
        return (P.encode_jvp if self.which == "encoder" else P.jvp)(
            x.unsqueeze(-2), directions
        ).tangent.mT

    def _by_context(self, x: Tensor, c: Tensor) -> Tensor:
        """Derivative (points, r, p) of the map by the context, by central differences: cheaper than
        forward mode.
        """
        h = STEP * torch.diag(self.model.frame.context_scale)
        near = torch.stack([c.unsqueeze(1) + h, c.unsqueeze(1) - h], 1)
        there, back = self._map(x[:, None, None].expand(*near.shape[:-1], -1), near).unbind(1)
        return ((there - back) / (2 * h.diagonal().unsqueeze(-1))).mT
