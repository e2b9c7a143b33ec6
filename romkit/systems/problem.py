"""Problems that latent dynamics solve: the operators, the full-order equation, and the metric of
distances.

A latent dynamics gives the highest rate of the latent coordinates: ż of a first-order system, z̈ of
a mechanical one. A problem says what that rate has to answer to, so that a dynamics is written once
for both, and for contexts that move.
"""

import abc
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from romkit.core.broadcast import matvec
from romkit.core.errors import InputError
from romkit.core.types import Floats, Metric, TensorFunction, TensorMap
from romkit.projections import Operator, Path

Parts = tuple[Tensor, ...]
"""(x,), or (q, q̇) of a mechanical system, each (..., n); of latent states (z,) or (z, ż), each
(..., m).
"""


def euclidean(x: Tensor, u: Tensor) -> Tensor:
    """Return the metric in which all components weigh the same: u itself.

    Example:
        >>> import torch
        >>> from romkit.problem import euclidean
        >>> u = torch.ones(3, 2)
        >>> euclidean(torch.zeros(3), u) is u
        True
    """
    return u


def unknown_field(t: Tensor, *parts: Tensor) -> Tensor:
    """Return the field of data without equations.

    Raises:
        InputError: always.

    Example:
        >>> import romkit
        >>> romkit.problem.unknown_field(0.0)
        Traceback (most recent call last):
            ...
        romkit.core.errors.InputError: dynamics: expected a fitted law for data, got dynamics that need equations, as
        Galerkin, the default, does; give dynamics=romkit.law(...), or the system of the data
    """
    raise InputError(
        "dynamics",
        expected="a fitted law for data",
        got="dynamics that need equations, as Galerkin, the default, does",
        fix="give dynamics=romkit.law(...), or the system of the data",
    )


class Decoded(NamedTuple):
    """The full state x (..., n) at a latent state, and the rate (..., n) that Dφ times the latent
    one should equal.

    Example:
        >>> import torch
        >>> import romkit
        >>> system, P = romkit.systems.Lorenz96(), romkit.load("ncae-lorenz96")(F=3.15)
        >>> problem = system.problem(romkit.projections.Path.constant(P), P.context)
        >>> x, target = problem.decoded(torch.tensor(0.0), torch.zeros(2))
        >>> x.shape, target.shape
        (torch.Size([36]), torch.Size([36]))
    """

    x: Tensor
    target: Tensor


class Linearised(NamedTuple):
    """State x (..., n), tangents J = Dφ (..., n, m) of the manifold at x, and the target (..., n)
    of J times the rate.

    Example:
        >>> import torch
        >>> import romkit
        >>> system, P = romkit.systems.Lorenz96(), romkit.load("ncae-lorenz96")(F=3.15)
        >>> problem = system.problem(romkit.projections.Path.constant(P), P.context)
        >>> x, J, target = problem.linearised(torch.tensor(0.0), torch.zeros(2))
        >>> rate = torch.linalg.lstsq(J, target.unsqueeze(-1)).solution  # what Galerkin takes
        >>> x.shape, J.shape, rate.shape
        (torch.Size([36]), torch.Size([36, 2]), torch.Size([2, 1]))
    """

    x: Tensor
    tangents: Tensor
    target: Tensor


@dataclass(frozen=True)
class Problem(abc.ABC):
    """The equation to be reduced, and the projection to do it with.

    Attributes:
        path: the operator at each time; one that stays for a constant context.
        field: the full-order equation f(t, *parts) -> the highest rate (..., n), with the context
            bound.
        metric: weighs distances between states: identity, inertia, or the weights of a quadrature.
        control: the inputs u(t) (..., q), None where there are none.
        step: the longest step that sees all of a field that depends on time; None where that is not
            known.
        jump_times: times at which the field jumps, where steps end.
        order: of the equation, and how many parts a state has.

    Example:
        >>> import torch
        >>> import romkit
        >>> system, P = romkit.systems.Lorenz96(), romkit.load("ncae-lorenz96")(F=3.15)
        >>> problem = system.problem(romkit.projections.Path.constant(P), P.context)
        >>> isinstance(problem, romkit.problem.Problem), problem.order
        (True, 1)
        >>> problem.motion(torch.zeros(2), torch.ones(2))  # ẇ for the rate ż
        tensor([1., 1.])
    """

    path: Path
    field: TensorFunction = unknown_field
    metric: Metric = euclidean
    control: TensorMap | None = None
    step: float | None = None
    jump_times: Floats = ()
    order: ClassVar[int]

    def split(self, w: Tensor) -> Parts:
        """Return the parts of a latent state w (..., order · m)."""
        return w.chunk(self.order, dim=-1)

    def join(self, *parts: Tensor) -> Tensor:
        """Return the latent state with these parts."""
        return torch.cat(parts, dim=-1)

    @abc.abstractmethod
    def encode(self, P: Operator, parts: Parts) -> Tensor:
        """Return the encoded state w (..., order · m)."""

    @abc.abstractmethod
    def decode(self, P: Operator, w: Tensor) -> Parts:
        """Return the decoded state."""

    @abc.abstractmethod
    def decoded(self, t: Tensor, w: Tensor) -> Decoded:
        """Return the manifold at w, and the motion there."""

    @abc.abstractmethod
    def linearised(self, t: Tensor, w: Tensor) -> Linearised:
        """Return the manifold at w with its tangents, and the motion there."""

    @abc.abstractmethod
    def motion(self, w: Tensor, rate: Tensor) -> Tensor:
        """ẇ (..., order · m) for the highest latent rate (..., m)."""


class FirstOrder(Problem):
    """ẋ = f(t, x) on x = φ(z; c(t)): w = z, and J ż = f - ∂ₜφ.

    Example:
        >>> import torch
        >>> import romkit
        >>> from romkit.problem import FirstOrder
        >>> from romkit.projections import Path
        >>> P = romkit.load("ncae-lorenz96")(F=3.15)
        >>> problem = FirstOrder(Path.constant(P), lambda t, x: -x)
        >>> problem.linearised(torch.tensor(0.0), torch.zeros(2)).tangents.shape
        torch.Size([36, 2])
    """

    order = 1

    def encode(self, P: Operator, parts: Parts) -> Tensor:
        return P.encode(*parts)

    def decode(self, P: Operator, w: Tensor) -> Parts:
        return (P.decode(w),)

    def decoded(self, t: Tensor, w: Tensor) -> Decoded:
        x = self.path.at(t).decode(w)
        rate = self.field(t, x)
        return Decoded(x, self.path.relative(t, w, rate))

    def linearised(self, t: Tensor, w: Tensor) -> Linearised:
        x, J = self.path.at(t).decode_jacobian(w)
        rate = self.field(t, x)
        return Linearised(x, J, self.path.relative(t, w, rate))

    def motion(self, w: Tensor, rate: Tensor) -> Tensor:
        return rate


class SecondOrder(Problem):
    """q̈ = f(t, q, q̇) on q = φ(z): w = (z, ż) decodes to (φ(z), J ż), and J z̈ = f - D²φ(ż, ż).

    Example:
        >>> import torch
        >>> import romkit
        >>> from romkit.problem import SecondOrder
        >>> from romkit.projections import Path
        >>> P = romkit.load("ncae-pendulum")(l1=0.4, l2=0.5, l3=0.5, l4=0.6)
        >>> problem = SecondOrder(Path.constant(P), lambda t, q, v: -q)
        >>> problem.motion(torch.cat([torch.zeros(4), torch.ones(4)]), torch.full((4,), 2.0))  # (ż, z̈)
        tensor([1., 1., 1., 1., 2., 2., 2., 2.])
    """

    order = 2

    def encode(self, P: Operator, parts: Parts) -> Tensor:
        return self.join(*P.encode_jvp(*parts))

    def decode(self, P: Operator, w: Tensor) -> Parts:
        return tuple(P.decode_jvp(*self.split(w)))

    def decoded(self, t: Tensor, w: Tensor) -> Decoded:
        P, (z, dz) = self.path.at(t), self.split(w)
        q, v = P.decode_jvp(z, dz)
        target = self.field(t, q, v) - P.decode_curvature(z, dz)
        return Decoded(q, target)

    def linearised(self, t: Tensor, w: Tensor) -> Linearised:
        P, (z, dz) = self.path.at(t), self.split(w)
        # q̇ = J ż, so that no second derivative along z is needed for the velocity
        q, J = P.decode_jacobian(z)
        v = matvec(J, dz)
        target = self.field(t, q, v) - P.decode_curvature(z, dz)
        return Linearised(q, J, target)

    def motion(self, w: Tensor, rate: Tensor) -> Tensor:
        return self.join(self.split(w)[1], rate)


PROBLEMS: dict[int, type[Problem]] = {kind.order: kind for kind in (FirstOrder, SecondOrder)}
"""Class of problem for each order of the equation."""
