"""The shape of the latent space: how even its axes are, and how even the motion on it is.

Source: Adriaens et al. (2026), section 4.1, "Metrics", and section 4.4, "Latent space analysis", with its table. The
paper does not say whether the snapshots of all contexts are pooled. Here the samples are those on the axis before the
last: (C, T, m) gives one number per context, (C * T, m) one for all.
"""

import torch
from torch import Tensor

from romkit import arrays
from romkit.boundary import checked


@checked
def latent_condition_number(z: Tensor) -> Tensor:
    """(...) condition number CN = λ_max / λ_min of the covariance of latents z (..., N, m) over their N samples.

    Dimensionless, at least 1: 1 for axes of equal scale, infinite where an axis has collapsed. NaN where a latent is
    not finite.

    Example:
        >>> import torch
        >>> import romkit
        >>> t = torch.linspace(0, 2 * torch.pi, 101)[:-1]
        >>> romkit.metrics.latent_condition_number(torch.stack([t.cos(), 3 * t.sin()], dim=-1)).round(decimals=3)
        tensor(9.)
    """
    arrays.axes("z", z, "N m")
    finite = z.isfinite().all(-1).all(-1)
    z = torch.where(finite.unsqueeze(-1).unsqueeze(-1), z, 0.0)  # eigvalsh fails for all members if one is not finite
    centred = z - z.mean(-2, keepdim=True)
    eigenvalues = torch.linalg.eigvalsh(centred.mT @ centred / z.shape[-2])
    number = torch.where(eigenvalues[..., 0] > 0, eigenvalues[..., -1] / eigenvalues[..., 0], torch.inf)
    return torch.where(finite, number, torch.nan)


@checked
def latent_speed_variation(dz: Tensor) -> Tensor:
    """(...) coefficient of variation CV = std / mean of the speed ‖ż‖ over the N samples of dz (..., N, m).

    Dimensionless: 0 for a motion of constant speed. The latent velocity is ż = Dρ(x) ẋ, `P.encode_jvp(x, v).tangent`.
    NaN where a velocity is not finite or nothing moves.

    Example:
        >>> import torch
        >>> import romkit
        >>> t = torch.linspace(0, 2 * torch.pi, 101)
        >>> rate = torch.stack([-t.sin(), t.cos()], dim=-1)
        >>> bool(romkit.metrics.latent_speed_variation(rate) < 1e-6)  # constant speed
        True
        >>> bool(romkit.metrics.latent_speed_variation(t[:, None] * rate) > 0.5)
        True
    """
    arrays.axes("dz", dz, "N m")
    speed = dz.norm(dim=-1)
    return speed.std(-1, correction=0) / speed.mean(-1)
