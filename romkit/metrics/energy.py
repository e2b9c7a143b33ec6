"""How well a reduced mechanical system keeps its energy."""

import torch
from torch import Tensor

from romkit import arrays
from romkit.boundary import checked


@checked
def energy_drift(energy: Tensor, scale: Tensor) -> Tensor:
    """(E(t) - E(0)) / E₀: (..., T) -> (..., T), dimensionless; zero at all times for an energy that is kept.

    Args:
        energy: (..., T) of the reduced trajectory, for the pendulum `system.energy(context)(q, q̇)` in J, with
            q = φ(z) and q̇ = Dφ(z) ż.
        scale: (...) energy E₀ > 0 of the motion above its equilibrium, in the same unit: the initial energy of the
            full model, where the equilibrium has energy zero, as the pendulum's has.

    From the divergence of a member on its energy is NaN, and so is its drift; `peak_energy_drift` scores it.
    Source: Hairer, Lubich, Wanner (2006), Geometric Numerical Integration, section I.1 (error of the Hamiltonian).

    Example:
        >>> import torch
        >>> import romkit
        >>> romkit.metrics.energy_drift(torch.tensor([2.0, 2.0, 2.5]), scale=torch.tensor(2.0))
        tensor([0.0000, 0.0000, 0.2500])
    """
    arrays.axes("energy", energy, "T")
    arrays.broadcast(energy=energy[..., 0], scale=scale)
    return (energy - energy[..., :1]) / scale.unsqueeze(-1)


@checked
def peak_energy_drift(energy: Tensor, scale: Tensor) -> Tensor:
    """(...) largest |`energy_drift`| over time, infinite for a diverged member.

    Example:
        >>> import torch
        >>> import romkit
        >>> energy = torch.tensor([[2.0, 1.5, 2.0], [2.0, 2.5, torch.nan]])
        >>> romkit.metrics.peak_energy_drift(energy, scale=torch.tensor([2.0, 2.0]))
        tensor([0.2500,    inf])
    """
    return energy_drift(energy, scale).abs().nan_to_num(nan=torch.inf, posinf=torch.inf).amax(-1)
