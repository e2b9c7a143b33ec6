"""What a latent dynamics solves: the operators, the full-order equation, and how distances are weighed.

A latent dynamics gives the highest rate of the latent coordinates: ż of a first-order system, z̈ of a mechanical one. A
problem says what that rate has to answer to, so that a dynamics is written once for both, and for contexts that move.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor

from romkit.errors import InputError
from romkit.types import Metric, OperatorPath, ProjectionOperator

T = TypeVar("T")

Parts = tuple[Tensor, ...]
"""(x,), or (q, q̇) of a mechanical system, each (..., n); of latent states (z,) or (z, ż), each (..., m)."""


def euclidean(x: Tensor, u: Tensor) -> Tensor:
    """The metric in which all components weigh the same: u itself."""
    return u


def unknown_field(t: Tensor, *parts: Tensor) -> Tensor:
    """The field of data without equations.

    Raises:
        InputError: always.
    """
    fix = "give dynamics=..., a law that was fitted to data (SINDy, NeuralODE), or the system"
    raise InputError("dynamics", expected="a law, since there are no equations", got="one that needs them", fix=fix)


class Decoded(NamedTuple):
    """The full state x (..., n) at a latent state, and the rate (..., n) that Dφ times the latent one should equal."""

    x: Tensor
    target: Tensor


class Linearised(NamedTuple):
    """The same with the tangents J = Dφ (..., n, m) of the manifold at x."""

    x: Tensor
    tangents: Tensor
    target: Tensor


@dataclass(frozen=True)
class ConstantPath:
    """The operator of a context that stays (see `romkit.types.OperatorPath`)."""

    operator: ProjectionOperator

    def at(self, t: Tensor) -> ProjectionOperator:
        return self.operator

    def each(self, make: Callable[[ProjectionOperator], T]) -> Callable[[Tensor], T]:
        made = make(self.operator)
        return lambda t: made

    def relative(self, t: Tensor, z: Tensor, rate: Tensor) -> Tensor:
        return rate

    def carried(self, t: Tensor, z: Tensor, rate: Tensor) -> Tensor:
        return rate


@dataclass(frozen=True)
class Problem(abc.ABC):
    """The equation to be reduced, and the projection to do it with.

    Attributes:
        path: the operator at each time; one that stays for a constant context.
        field: the full-order equation f(t, *parts) -> the highest rate (..., n), with the context bound.
        metric: weighs distances between states: identity, inertia, or the weights of a quadrature.
        control: the inputs u(t) (..., q), None where there are none.
        order: of the equation, and how many parts a state has.
    """

    path: OperatorPath
    field: Callable[..., Tensor] = unknown_field
    metric: Metric = euclidean
    control: Callable[[Tensor], Tensor] | None = None
    order: ClassVar[int]

    def split(self, w: Tensor) -> Parts:
        """The parts of a latent state w (..., order · m)."""
        return w.chunk(self.order, dim=-1)

    def join(self, *parts: Tensor) -> Tensor:
        """The latent state with these parts."""
        return torch.cat(parts, dim=-1)

    @abc.abstractmethod
    def encode(self, P: ProjectionOperator, parts: Parts) -> Tensor:
        """The encoded state w (..., order · m)."""

    @abc.abstractmethod
    def decode(self, P: ProjectionOperator, w: Tensor) -> Parts:
        """The decoded state."""

    @abc.abstractmethod
    def decoded(self, t: Tensor, w: Tensor) -> Decoded:
        """The manifold at w, and the motion there."""

    @abc.abstractmethod
    def linearised(self, t: Tensor, w: Tensor) -> Linearised:
        """The same with tangents."""

    @abc.abstractmethod
    def motion(self, w: Tensor, rate: Tensor) -> Tensor:
        """ẇ (..., order · m) for the highest latent rate (..., m)."""


class FirstOrder(Problem):
    """ẋ = f(t, x) on x = φ(z; c(t)): w = z, and J ż = f - ∂ₜφ."""

    order = 1

    def encode(self, P: ProjectionOperator, parts: Parts) -> Tensor:
        return P.encode(*parts)

    def decode(self, P: ProjectionOperator, w: Tensor) -> Parts:
        return (P.decode(w),)

    def decoded(self, t: Tensor, w: Tensor) -> Decoded:
        x = self.path.at(t).decode(w)
        return Decoded(x, self.path.relative(t, w, self.field(t, x)))

    def linearised(self, t: Tensor, w: Tensor) -> Linearised:
        x, J = self.path.at(t).decode_jacobian(w)
        return Linearised(x, J, self.path.relative(t, w, self.field(t, x)))

    def motion(self, w: Tensor, rate: Tensor) -> Tensor:
        return rate


class SecondOrder(Problem):
    """q̈ = f(t, q, q̇) on q = φ(z): w = (z, ż) decodes to (φ(z), J ż), and J z̈ = f - D²φ(ż, ż)."""

    order = 2

    def encode(self, P: ProjectionOperator, parts: Parts) -> Tensor:
        return self.join(*P.encode_jvp(*parts))

    def decode(self, P: ProjectionOperator, w: Tensor) -> Parts:
        return tuple(P.decode_jvp(*self.split(w)))

    def decoded(self, t: Tensor, w: Tensor) -> Decoded:
        P, (z, dz) = self.path.at(t), self.split(w)
        q, v = P.decode_jvp(z, dz)
        return Decoded(q, self.field(t, q, v) - P.decode_curvature(z, dz))

    def linearised(self, t: Tensor, w: Tensor) -> Linearised:
        P, (z, dz) = self.path.at(t), self.split(w)
        q, J = P.decode_jacobian(z)
        v = (J @ dz.unsqueeze(-1)).squeeze(-1)
        return Linearised(q, J, self.field(t, q, v) - P.decode_curvature(z, dz))

    def motion(self, w: Tensor, rate: Tensor) -> Tensor:
        return self.join(self.split(w)[1], rate)


PROBLEMS: dict[int, type[Problem]] = {kind.order: kind for kind in (FirstOrder, SecondOrder)}
"""By the order of the equation."""
