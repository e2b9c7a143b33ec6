"""`romkit.certify`: how far encoder, decoder and projection stretch distances, and move with the
context.
"""

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import xarray as xr
from torch import Tensor

from romkit.certificates.links import ANYWHERE, Links, Units, links
from romkit.certificates.lipsdp import lipsdp
from romkit.certificates.network import network
from romkit.core import tensors
from romkit.core.boundary import Limit, NotNegative, Numbers, validated
from romkit.core.errors import InputError
from romkit.core.types import Pair
from romkit.projections import Projection
from romkit.projections.storage import check_single

SMALLEST = torch.finfo(torch.float64).tiny

Jacobian = Callable[[Tensor, Tensor], Tensor]
"""Derivative of a map at states (points, n) and contexts (points, p): (points, r, k)."""

BALANCING = 200
"""Gradient steps that choose the weights of units."""

POINTS, STEPS = 64, 100
"""Points of gradient ascent, and its steps."""

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
        bounds = _bound_maps(model, (center, c), (radius, context_radius))
    columns = {}
    for name in bounds["encoder"]:
        columns[name] = ("map", [bounds[which][name] for which in MAPS])
    attrs = dict(zip(frame.context_names, c.tolist(), strict=True))
    attrs |= {"projection": projection.name, "context_radius": context_radius}
    return xr.Dataset(columns, {"map": list(MAPS)}, attrs)


def _bound_maps(
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
    latent_centers = model(c).encode(center), c
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
        # refuse a map that has no value or no slope somewhere in a ball
        slopes = [output.middle.flatten(), output.spread.flatten()]
        numbers = torch.cat([output.value, *slopes])
        is_ball = not math.isinf(self.radii[0])
        if bool(numbers.isnan().any()):
            raise self._refusal()
        # for all states, a slope without a bound is an infinite bound
        if is_ball and bool(numbers.isinf().any()):
            raise self._refusal()
        of_state = links(units, output, 0)
        of_context = links(units, output, 1)
        by_paths = math.inf
        if not self._grows(of_state):
            by_paths = product(of_state)
        upper = self._upper(of_state, min(by_paths, stretched))
        context_upper = self._upper(of_context, moved)
        lower = self._lower(self._state_derivative, upper)
        context_lower = self._lower(self._context_derivative, context_upper)
        return {
            "upper": upper,
            "product": by_paths,
            "lower": lower,
            "context_upper": context_upper,
            "context_lower": context_lower,
            "radius": self.radii[0],
            "seconds": time.perf_counter() - started,
        }

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
                expected="derivatives that agree with differences of its values",
                got=f"a derivative of the {self.which} of {lower:.3g}; differences are at most {upper:.3g}",
                fix="mend encode_jvp and decode_jvp: see romkit.testing.check_projection",
            )
        return lower

    def _probes(self, *, number: int = 4) -> list[Pair]:
        """Return states and contexts of the balls, (1, n) and (1, p), where values are looked at: the
        centers, and so many others.
        """
        draw = torch.Generator().manual_seed(0)
        radius, context_radius = self.radii
        reach = min(radius, 10 * self.spread), context_radius
        state, context = (center.unsqueeze(0) for center in self.centers)
        probes = [(state, context)]
        for _ in range(number):
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

    def _state_derivative(self, x: Tensor, c: Tensor) -> Tensor:
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

    def _context_derivative(self, x: Tensor, c: Tensor, *, step: float = 1e-6) -> Tensor:
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


# -- bounds from the product of norms, and from below -------------------------------------------------


def product(links: Links, *, rate: float = 0.05) -> float:
    """Return smallest sum over all paths of the products of norms that weights of the units give;
    any weights give a bound.

    ‖C S A‖ = ‖C D⁻¹ S D A‖ for diagonal S and D: gradient steps on log D, of each block. A chain
    has one path.

    `rate`: length of these steps.
    """
    logs = [torch.zeros_like(block.gains[0].low, requires_grad=True) for block in links.blocks]
    best = _path_bound(links, logs)
    if not logs:
        return best.item()
    optimizer = torch.optim.Adam(logs, lr=rate)
    with torch.enable_grad():
        for _ in range(BALANCING):
            optimizer.zero_grad()
            bound = _path_bound(links, logs)
            best = torch.minimum(best, bound.detach())
            bound.log().backward()
            optimizer.step()
    return best.item()


def _path_bound(links: Links, logs: Sequence[Tensor]) -> Tensor:
    """Return bound with these logarithms of the weights of units."""
    # of the input and of each block: size, inverse weights, and the bound of its signal
    sizes = [links.size]
    balance = [torch.ones(links.size, dtype=torch.float64)]
    ends = [torch.ones((), dtype=torch.float64)]
    for log in logs:
        sizes.append(len(log))
        balance.append((-log).exp())
    for k, (block, log) in enumerate(zip(links.blocks, logs, strict=True)):
        before = sizes[: k + 1]
        weights = log.exp()
        end = torch.zeros((), dtype=torch.float64)
        for matrix, gain in zip(block.matrices, block.gains, strict=True):
            rows = (gain.largest * weights).unsqueeze(1) * matrix
            end = end + _norm_sum(rows, before, balance, ends)
        ends.append(end)
    return _norm_sum(links.last, sizes, balance, ends)


def _norm_sum(
    rows: Tensor, sizes: Sequence[int], balance: Sequence[Tensor], ends: Sequence[Tensor]
) -> Tensor:
    """Return sum over origins (the input, each block) of the norm of the columns of one times the
    bound of its signals.
    """
    total = rows.new_zeros(())
    columns = rows.split(list(sizes), dim=1)
    for matrix, weight, end in zip(columns, balance, ends, strict=False):
        if bool((matrix != 0).any()):
            total = total + _norm(matrix * weight) * end
    return total


def sampled(
    jacobian: Jacobian, centers: Sequence[Tensor], radii: Sequence[float], spread: float
) -> float:
    """Return largest norm of a Jacobian that gradient ascent finds on the balls: a lower bound.

    Args:
        jacobian: (points, r, k) at states or latent states (points, n) and contexts (points, p).
        centers: of the balls of both.
        radii: of the balls of both.
        spread: a tenth of the largest distance of a start from the center, where the first ball is
            the whole space.
    """
    radii = [min(radius, ANYWHERE) for radius in radii]
    offsets, optimizer = _starts(centers, radii, spread)
    best = 0.0
    for _ in range(STEPS):
        with torch.enable_grad():
            points = [center + offset for center, offset in zip(centers, offsets, strict=True)]
            norms = _norm(jacobian(*points))
            descent = -norms.clamp(min=SMALLEST).log().sum()
        best = max(best, norms.max().item())
        # norms may be zero, and the slopes of ReLU are constant between its kinks
        if best == 0 or not descent.requires_grad:
            break
        optimizer.zero_grad()
        descent.backward()
        optimizer.step()
        _hold(offsets, radii)
    return best


def _starts(
    centers: Sequence[Tensor], radii: Sequence[float], spread: float
) -> tuple[list[Tensor], torch.optim.Adam]:
    """Return points of the balls, as offsets (POINTS, k) from the centers, and what moves them."""
    draw = torch.Generator().manual_seed(0)
    radius, context_radius = radii
    reach = [min(radius, 10 * spread), context_radius]
    offsets, settings = [], []
    for center, size in zip(centers, reach, strict=True):
        # points (POINTS, size) of a ball
        directions = torch.randn(POINTS, len(center), generator=draw, dtype=torch.float64)
        lengths = size * torch.rand(POINTS, 1, generator=draw, dtype=torch.float64)
        offset = lengths * directions / directions.norm(dim=1, keepdim=True)
        offset.requires_grad_()
        offsets.append(offset)
        settings.append({"params": [offset], "lr": size / 20})
    return offsets, torch.optim.Adam(settings)


@torch.no_grad()
def _hold(offsets: Sequence[Tensor], radii: Sequence[float]) -> None:
    """Bring offsets (points, k) back into their balls."""
    for offset, radius in zip(offsets, radii, strict=True):
        share = (radius / offset.norm(dim=1, keepdim=True)).clamp(max=1.0)
        offset *= share.nan_to_num(1.0)


def _norm(matrix: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(matrix, 2)
