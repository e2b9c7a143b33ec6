"""Networks as fields of latents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from romkit.core.boundary import Natural, Order, validated
from romkit.core.broadcast import align, matmul
from romkit.core.types import Pair, TensorMap
from romkit.integrators.base import LearnedField
from romkit.integrators.region import Region
from romkit.laws.scaling import Scaling

Layers = tuple[Pair, ...]
"""Weights (..., inputs, outputs) and biases (..., outputs); the leading axis, if any, is the stack."""


@validated
@dataclass(frozen=True, eq=False, repr=False)
class NeuralODEModel(LearnedField):
    """Latent field that `NeuralODE.fit` returns. A stack of fields drives a stack of projections.

    The network sees latents as (w - shift) / scale, w = z or (z, ż), and contexts scaled to [-1, 1]
    over the training range; its output is multiplied by `rate`.

    Attributes:
        layers: weights and biases; the inputs are those for w, then those for the context.
        shift, scale: (..., d) mean and standard deviation of w over the training data; the mean of
            ż counts as 0.
        rate: (..., m) root mean square of ż, or of z̈, over the training data.
        context: names and scaling of the context.
        order, source, samples, control_names, held, domain, report: as in every `LearnedField`.
        velocity_error: (...) root mean square error of the rates of the training data, in units of
            `rate`.
        trajectory_error: (...) root mean square error along a segment, in units of `scale`.

    Example:
        >>> import torch
        >>> from romkit.laws import NeuralODE
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
    held: bool | None = None
    control_unit: str = ""
    domain: Region | None = None
    report: Sequence[Mapping[str, Any]] = ()

    FACTS: ClassVar[tuple[str, ...]] = ("velocity_error", "trajectory_error")
    """Attributes that describe the fit, and may be infinite (see `core.packing`)."""

    @property
    def latent_dim(self) -> int:
        """m."""
        return self.rate.shape[-1]

    @property
    def context_names(self) -> tuple[str, ...]:
        """Names of the parameters that the law depends on, without its inputs."""
        return self.context.names[: len(self.context) - len(self.control_names)]

    @property
    def coefficient_count(self) -> int:
        """Number of weights and biases."""
        return sum(weight.numel() + bias.numel() for weight, bias in self.layers)

    def right_hand_side(self, c: Tensor) -> TensorMap:
        """Map w (..., d) -> ż or z̈ (..., m) at a context c (..., p) in physical units."""
        d = self.scale.shape[-1]
        (first, offset), *layers = self._scaled(c)
        if self.context.names:
            scaled = self.context.on(c)(c)
            offset = affine(scaled, first[..., d:, :], offset)

        def g(w: Tensor) -> Tensor:
            y = affine(w, first[..., :d, :], offset)
            for weight, bias in layers:
                y = affine(y.tanh(), weight, bias)
            return y

        return g

    def detached(self, *, single: bool) -> "NeuralODEModel":
        """Return a copy without gradients; with `single`, the only field of its stack, without the
        leading axis.
        """

        def plain(tensor: Tensor) -> Tensor:
            tensor = tensor.detach()
            if single:
                return tensor[0]
            return tensor

        layers = tuple((plain(weight), plain(bias)) for weight, bias in self.layers)
        numbers: dict[str, Any] = {}
        for name in ("shift", "scale", "rate", *self.FACTS):
            numbers[name] = plain(getattr(self, name))
        return replace(self, layers=layers, **numbers)

    def _scaled(self, like: Tensor) -> list[Pair]:
        """Layers with shift, scale and rate multiplied into the first and the last."""
        layers = [(weight.to(like), bias.to(like)) for weight, bias in self.layers]
        shift = self.shift.to(like).unsqueeze(-2)  # (..., 1, d)
        scale = self.scale.to(like).unsqueeze(-2)
        d = scale.shape[-1]
        weight, bias = layers[0]
        of_latents = weight[..., :d, :] / scale.mT
        # of the context, which is scaled already, the weights stay
        scaled_weight = torch.cat([of_latents, weight[..., d:, :]], dim=-2)
        moved = (shift @ of_latents).squeeze(-2)
        layers[0] = scaled_weight, bias - moved
        weight, bias = layers[-1]
        rate = self.rate.to(like)
        layers[-1] = weight * rate.unsqueeze(-2), bias * rate
        return layers

    def details(self) -> list[str]:
        """Widths of the network, and its errors on the training data, the largest of a stack."""
        inputs = [weight.shape[-2] for weight, _ in self.layers]
        widths = " -> ".join(map(str, [*inputs, self.latent_dim]))
        for size in reversed(self.rate.shape[:-1]):
            widths = f"stack of {size}, {widths}"
        velocity = self.velocity_error.max()
        trajectory = self.trajectory_error.max()
        return [widths, f"training errors: velocity {velocity:.1e}, trajectory {trajectory:.1e}"]

    def __repr__(self) -> str:
        names = ", ".join(self.context.names) or "none"
        facts = [f"order {self.order}, context {names}", *self.details()]
        facts += [f"{self.samples} samples", self.source]
        return f"NeuralODEModel({'; '.join(facts)})"


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return product x W + b along the last axis of x, for one layer or one per seed; b may have
    axes of x as well.
    """
    is_stack = x.ndim == weight.ndim == 3 and len(x) == len(weight)
    if not is_stack:
        y = matmul(x, weight)
        return y + align(bias, y)
    if bias.ndim != 3:
        bias = bias.unsqueeze(1)
    return torch.baddbmm(bias, x, weight)
