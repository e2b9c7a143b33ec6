"""Layer pairs of constrained autoencoders at one context: ρ and φ invert each other, layer by layer."""

from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor, nn

from romkit.broadcast import align, matmul
from romkit.projections.activations import Hyperbola, inverse_pair
from romkit.projections.networks import LastStep, Networks, Pointwise
from romkit.types import Dual, Jet


class LayerEncoder(NamedTuple):
    """ρ(x) = σ₋(Ψᵀ (x - β); α) at one context (Adriaens et al. 2026, section 2.2)."""

    psi: Tensor
    beta: Tensor
    activation: Hyperbola

    def __call__(self, x: Tensor) -> Tensor:
        return self.activation(matmul(x - align(self.beta, x), self.psi))

    def jvp(self, x: Tensor, v: Tensor) -> Dual:
        z, slope = self.activation.value_and_slope(matmul(x - align(self.beta, x), self.psi))
        return Dual(z, slope * matmul(v, self.psi))


class LayerDecoder(NamedTuple):
    """φ(z) = Φ σ₊(z; α) + β: with σ₋ ∘ σ₊ = id and Ψᵀ Φ = I, a right inverse of ρ."""

    phi_t: Tensor
    beta: Tensor
    activation: Hyperbola

    def __call__(self, z: Tensor) -> Tensor:
        x = matmul(self.activation(z), self.phi_t)
        return x + align(self.beta, x)

    def jvp(self, z: Tensor, w: Tensor) -> Dual:
        value, slope = self.activation.value_and_slope(z)
        x = matmul(value, self.phi_t)
        return Dual(x + align(self.beta, x), matmul(slope * w, self.phi_t))

    def jet(self, curve: Jet) -> Jet:
        activated = curve.through(*self.activation.value_slope_and_bend(curve.value))
        x, v, a = (matmul(part, self.phi_t) for part in activated)
        return Jet(x + align(self.beta, x), v, a)

    def last(self) -> LastStep:
        return LastStep([Pointwise(self.activation)], self.phi_t, self.beta)


def layer_pairs(
    weights: Iterable[tuple[Tensor, Tensor]], slopes: nn.ModuleList, biases: nn.ModuleList, signal: Tensor
) -> Networks:
    """ρ = ρ⁽¹⁾ ∘ ... ∘ ρ⁽ᴸ⁾ and φ = φ⁽ᴸ⁾ ∘ ... ∘ φ⁽¹⁾ with weights (Φ, Ψ), slopes and biases at a signal."""
    encoder, decoder = [], []
    for (phi, psi), slope, bias in zip(weights, slopes, biases, strict=True):
        beta, (minus, plus) = bias(signal), inverse_pair(slope(signal))
        encoder.insert(0, LayerEncoder(psi, beta, minus))
        decoder.append(LayerDecoder(phi.mT, beta, plus))
    return Networks(encoder, decoder)
