"""The latent field of a neural ODE."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from romkit.boundary import Natural, Order, checked, hook
from romkit.broadcast import align, matmul
from romkit.integrators.base import LearnedField, Parameters
from romkit.integrators.domain import Domain
from romkit.integrators.scaling import Scaling
from romkit.types import Field

Layers = tuple[tuple[Tensor, Tensor], ...]
"""Weights (..., inputs, outputs) and biases (..., outputs); the leading axis, if any, is the stack."""


@checked
@dataclass(frozen=True, eq=False, repr=False)
class NeuralODEModel(LearnedField):
    """The latent field that `NeuralODE.fit` returns. A stack of fields drives a stack of projections.

    The network sees latents as (w - shift) / scale, w = z or (z, ż), and contexts scaled to [-1, 1] over the training
    range; its output is multiplied by `rate`.

    Attributes:
        layers: weights and biases; the inputs are those for w, then those for the context.
        shift, scale: (..., d) mean and standard deviation of w over the training data; the mean of ż counts as 0.
        rate: (..., m) root mean square of ż, or of z̈, over the training data.
        context: names and scaling of the context.
        order, source, samples, control_names, domain: as of every `LearnedField`.
        velocity_error: (...) root mean square error of the rates of the training data, in units of `rate`.
        trajectory_error: (...) root mean square error along a segment, in units of `scale`.

    Example:
        >>> import torch
        >>> from romkit.integrators import NeuralODE
        >>> t = torch.linspace(0, 6, 61, dtype=torch.float64)
        >>> z, rate = torch.stack([t.cos(), t.sin()], dim=-1), torch.stack([-t.sin(), t.cos()], dim=-1)
        >>> law = NeuralODE(hidden=(8,), regression_steps=5, shooting_steps=1).fit_samples(z[None], rate[None], times=t)
        >>> law.right_hand_side(torch.zeros(0))(z.float()).shape, [tuple(weight.shape) for weight, _ in law.layers]
        (torch.Size([61, 2]), [(2, 8), (8, 2)])
    """

    layers: Layers
    shift: Tensor
    scale: Tensor
    rate: Tensor
    context: Scaling
    order: Order
    source: str
    samples: Natural
    velocity_error: Tensor
    trajectory_error: Tensor
    control_names: tuple[str, ...] = ()
    domain: Domain | None = None

    @property
    def latent_dim(self) -> int:
        """m."""
        return self.rate.shape[-1]

    @property
    def context_names(self) -> tuple[str, ...]:
        """Of the parameters that the law depends on, without its inputs."""
        return self.context.names[: len(self.context) - len(self.control_names)]

    def right_hand_side(self, c: Tensor) -> Callable[[Tensor], Tensor]:
        """w (..., d) -> ż or z̈ (..., m) at a context c (..., p) in physical units."""
        d = self.scale.shape[-1]
        (first, offset), *rest = self._scaled(c)
        if self.context.names:
            towards = matmul(self.context.on(c)(c), first[..., d:, :])
            offset = towards + align(offset, towards)

        def g(w: Tensor) -> Tensor:
            y = affine(w, first[..., :d, :], offset)
            for weight, bias in rest:
                y = affine(y.tanh(), weight, bias)
            return y

        return g

    @hook
    def motion(self, c: Parameters) -> Field:
        """ẇ (..., d) of w = z or (z, ż) at a context c (..., p)."""
        g = self.right_hand_side(c)
        if self.order == 1:
            return lambda t, w: g(w)
        return lambda t, w: torch.cat([w.chunk(2, dim=-1)[1], g(w)], dim=-1)

    @hook
    def detached(self, *, single: bool) -> "NeuralODEModel":
        """A copy without gradients; with `single`, the only field of its stack, without the leading axis."""
        plain = lambda tensor: tensor.detach()[0] if single else tensor.detach()  # noqa: E731
        parts = ("shift", "scale", "rate", "velocity_error", "trajectory_error")
        layers = tuple((plain(weight), plain(bias)) for weight, bias in self.layers)
        return replace(self, layers=layers, **{part: plain(getattr(self, part)) for part in parts})

    def _scaled(self, like: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The layers with shift, scale and rate put into the first and the last, so that a call has no more to do."""
        layers = [(weight.to(like), bias.to(like)) for weight, bias in self.layers]
        shift, scale, rate = (value.to(like).unsqueeze(-2) for value in (self.shift, self.scale, self.rate))
        d = scale.shape[-1]
        weight, bias = layers[0]
        inner = weight[..., :d, :] / scale.mT
        layers[0] = torch.cat([inner, weight[..., d:, :]], dim=-2), bias - (shift @ inner).squeeze(-2)
        weight, bias = layers[-1]
        layers[-1] = weight * rate, bias * rate.squeeze(-2)
        return layers

    def details(self) -> list[str]:
        """Widths of the network, and its errors on the training data, the largest of a stack."""
        widths = " -> ".join(str(weight.shape[-2]) for weight, _ in self.layers) + f" -> {self.latent_dim}"
        errors = f"velocity {self.velocity_error.max():.1e}, trajectory {self.trajectory_error.max():.1e}"
        return ["".join(f"stack of {size}, " for size in self.rate.shape[:-1]) + widths, f"training errors: {errors}"]

    def __repr__(self) -> str:
        names = ", ".join(self.context.names) or "none"
        facts = f"order {self.order}, context {names}; {'; '.join(self.details())}; {self.samples} samples"
        return f"NeuralODEModel({facts}; {self.source})"


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W + b along the last axis of x, for one layer or one per seed; b may have axes of x as well."""
    if x.ndim == weight.ndim == 3 and len(x) == len(weight):
        return torch.baddbmm(bias if bias.ndim == 3 else bias.unsqueeze(1), x, weight)
    y = matmul(x, weight)
    return y + align(bias, y)
