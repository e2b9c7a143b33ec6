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

from romkit.certificates.bounds import SMALLEST, Jacobian, product, sampled
from romkit.certificates.links import Links, Signal, Units, links
from romkit.certificates.lipsdp import lipsdp
from romkit.certificates.network import network
from romkit.core import tensors
from romkit.core.boundary import Limit, NotNegative, Numbers, validated
from romkit.core.errors import InputError
from romkit.core.types import Pair
from romkit.projections import Projection
from romkit.projections.storage import check_single

PROBES = 4
"""States of a ball at which a map is compared with its recorded operations, beside the center."""


MAPS = ("encoder", "decoder", "projection")


@validated
def certify(
    projection: Projection,
    context: Tensor | float | None = None,
    *,
    center: Numbers | None = None,
    radius: Limit = math.inf,
    context_radius: NotNegative = 0.0,
    **named: object,
) -> xr.Dataset:
    """Return bounds of the Lipschitz constants of ρ, φ and P in the state and in the context, in
    physical units.

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
        radius: in the unit of the states; all states by default. A flow needs one, and so does a
            polynomial manifold, whose bounds for all states are infinite.
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
        InputError: maps with an operation that has no bounds, values that their operations do not
            have, or derivatives that are not theirs; a stack, more than one context, all states
            where nothing bounds them, cvxpy missing (extra `certify`).

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(n=4, transient=0.0, duration=0.1).dataset(F=[3.1, 3.2])
        >>> model = romkit.fit("ncae", data, layers=(1, 4), epochs=1, verbose=False)
        >>> bounds = romkit.certify(model, F=3.15, radius=0.1)
        >>> bounds["map"].values.tolist()
        ['encoder', 'decoder', 'projection']
        >>> bool((bounds.lower <= bounds.upper).all())
        True
    """
    # a copy in float64, of a single model without a basis
    check_single(projection)
    if projection.basis is not None:
        raise InputError(
            "projection",
            expected="one without a basis in front",
            got=str(projection.basis),
            fix="certify projection.of_coordinates(): the basis is an isometry in its metric",
        )
    model = copy.deepcopy(projection).cpu().double().requires_grad_(False)
    frame = model.frame
    c = model(context, **named).context
    if c.ndim != 1:
        raise InputError(
            "context",
            expected="one context",
            got=f"{tuple(c.shape[:-1])} of them",
            fix="certify one after the other",
        )
    mean = frame.state_shift
    if center is None:
        center = mean
    else:
        (center,) = tensors.states("center", center, len(mean), 1)
    with torch.no_grad():
        bounds = _of_maps(model, (center, c), (radius, context_radius))
    columns = {}
    for name in bounds["encoder"]:
        columns[name] = ("map", [bounds[which][name] for which in MAPS])
    attrs = dict(zip(frame.context_names, c.tolist(), strict=True))
    attrs |= {"projection": projection.name, "context_radius": context_radius}
    return xr.Dataset(columns, {"map": list(MAPS)}, attrs)


def _of_maps(
    model: Projection, centers: Pair, radii: tuple[float, float]
) -> dict[str, dict[str, float]]:
    """Return bounds of the three maps, by name."""
    center, c = centers
    radius, context_radius = radii
    spread = model.frame.state_scale.norm().item()
    encoder = _Certified(model, "encoder", centers, radii, spread).bounds()
    upper = encoder["upper"]
    if math.isinf(upper):
        raise InputError(
            "radius",
            expected=f"a finite one for {model.name}",
            got="all states",
            fix="give the radius of a ball about the mean",
        )
    # the ball of the latent space that holds all encoded states
    reach = upper * radius
    if context_radius:
        reach += encoder["context_upper"] * context_radius
    latent_center = model(c).encode(center)
    latent_centers = latent_center, c
    latent_radii = reach, context_radius
    latent_spread = upper * spread
    decoder = _Certified(model, "decoder", latent_centers, latent_radii, latent_spread).bounds()
    # ∂P = Dφ ∂ρ + ∂φ
    stretched = decoder["upper"] * upper
    moved = decoder["upper"] * encoder["context_upper"]
    moved += decoder["context_upper"]
    projection = _Certified(model, "projection", centers, radii, spread).bounds(stretched, moved)
    return {"encoder": encoder, "decoder": decoder, "projection": projection}


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
        """Return all columns of the dataset; `stretched` and `moved` are known bounds in the state
        and in the context.
        """
        try:
            return self._bounds(stretched, moved)
        except torch.linalg.LinAlgError:
            raise self._refusal() from None

    def _bounds(self, stretched: float, moved: float) -> dict[str, float]:
        started = time.perf_counter()
        units = Units(self.centers, self.radii)
        output = network(self._map, units, self._probes())
        self._check_slopes(output)
        of_state = links(units, output, 0)
        of_context = links(units, output, 1)
        by_paths = math.inf
        if not self._grows(of_state):
            by_paths = product(of_state)
        upper = self._upper(of_state, min(by_paths, stretched))
        context_upper = self._upper(of_context, moved)
        lower = self._lower(self._by_state, upper)
        context_lower = self._lower(self._by_context, context_upper)
        return {
            "upper": upper,
            "product": by_paths,
            "lower": lower,
            "context_upper": context_upper,
            "context_lower": context_lower,
            "radius": self.radii[0],
            "seconds": time.perf_counter() - started,
        }

    def _check_slopes(self, output: Signal) -> None:
        """Refuse a map that has no value or no slope somewhere in a ball."""
        slopes = [output.middle.flatten(), output.spread.flatten()]
        numbers = torch.cat([output.value, *slopes])
        is_ball = not math.isinf(self.radii[0])
        if bool(numbers.isnan().any()):
            raise self._refusal()
        # for all states, a slope without a bound is an infinite bound
        if is_ball and bool(numbers.isinf().any()):
            raise self._refusal()

    def _refusal(self) -> InputError:
        return InputError(
            "projection",
            expected="maps with bounded slopes",
            got=f"an {self.which} whose slope is infinite or undefined in the ball",
            fix="take a smaller ball, or an operation that is smooth there: sqrt(x + 1e-6) for sqrt(x)",
        )

    def _grows(self, chain: Links) -> bool:
        """Tell whether units multiply a signal by another one, and all states are allowed."""
        if not math.isinf(self.radii[0]):
            return False
        return any(len(block.matrices) > 1 for block in chain.blocks)

    def _upper(self, chain: Links, known: float) -> float:
        """Return smallest bound: a known one, that of the enclosure, or the semidefinite one."""
        if self._grows(chain):
            return known
        least = min(known, chain.enclosure)
        if not chain.blocks or not least:
            return least
        return min(least, lipsdp(chain, least))

    def _lower(self, jacobian: Jacobian, upper: float, *, differences: float = 1e-6) -> float:
        """NaN without an upper bound, where ascent would find any number; zero where the upper
        bound is zero.

        `differences`: share by which a derivative by differences may exceed a bound.
        """
        if upper == math.inf:
            return math.nan
        if upper == 0.0:
            return 0.0
        try:
            lower = sampled(jacobian, self.centers, self.radii, self.spread)
        except Exception as error:  # of any kind: the derivative is the user's
            reason = (str(error).splitlines() or [""])[0]
            raise InputError(
                "projection",
                expected="maps that torch can differentiate",
                got=f"a derivative of the {self.which} that fails ({reason})",
                fix="drop torch.autograd.Function from its maps, or give it jvp and setup_context",
            ) from error
        if lower > upper * (1 + differences):
            raise InputError(
                "projection",
                expected="derivatives of its values",
                got=f"one of the {self.which} of {lower:.3g}, where its values allow {upper:.3g}",
                fix="mend encode_jvp and decode_jvp: see romkit.testing.check_projection",
            )
        return lower

    def _probes(self) -> list[Pair]:
        """Return states and contexts of the balls, (1, n) and (1, p), where values are looked at."""
        draw = torch.Generator().manual_seed(0)
        radius, context_radius = self.radii
        reach = min(radius, 10 * self.spread), context_radius
        state, context = (center.unsqueeze(0) for center in self.centers)
        probes = [(state, context)]
        for _ in range(PROBES):
            inputs = []
            for center, radius in zip(self.centers, reach, strict=True):
                direction = torch.randn(1, len(center), generator=draw, dtype=torch.float64)
                length = direction.norm().clamp(min=SMALLEST)
                inputs.append(center + radius * direction / length)
            probes.append((inputs[0], inputs[1]))
        return probes

    def _map(self, x: Tensor, c: Tensor) -> Tensor:
        P = self.model.operator(c)
        if self.which == "encoder":
            return P.encode(x)
        if self.which == "decoder":
            return P.decode(x)
        return P(x)

    def _by_state(self, x: Tensor, c: Tensor) -> Tensor:
        """Return derivative (points, r, n) of the map by the state, or by the latent state."""
        P = self.model.operator(c)
        if self.which == "decoder":
            return P.decode_jacobian(x).tangent
        identity = torch.eye(x.shape[-1], dtype=x.dtype)
        directions = identity.expand(*x.shape, -1)
        states = x.unsqueeze(-2)
        if self.which == "encoder":
            moved = P.encode_jvp(states, directions)
        else:
            moved = P.jvp(states, directions)
        return moved.tangent.mT

    def _by_context(self, x: Tensor, c: Tensor, *, step: float = 1e-6) -> Tensor:
        """Return derivative (points, r, p) of the map by the context, by central differences:
        cheaper than forward mode.

        `step`: step of central differences of the context, as a share of half its range;
        about nine digits are right in float64.
        """
        steps = step * self.model.frame.context_scale  # (p,)
        h = torch.diag(steps)
        c = c.unsqueeze(1)
        near = torch.stack([c + h, c - h], 1)  # (points, 2, p, p)
        *lead, _ = near.shape
        states = x[:, None, None].expand(*lead, -1)
        ahead, behind = self._map(states, near).unbind(1)
        slopes = (ahead - behind) / (2 * steps.unsqueeze(-1))  # (points, p, r)
        return slopes.mT
