"""Gauge of hidden contexts: zero mean and unit covariance over the groups, no correlation with known
parameters, principal axes by their effect on the motion, signs by the first run.

A family is the same after any affine change of its hidden parameters; this one is a choice.
"""

from dataclasses import replace

import torch
from torch import Tensor

from romkit.core.tensors import divisor
from romkit.hidden.family import Family


def gauged(family: Family, information: Tensor, first: int = 0) -> Family:
    """Return the same laws, with hidden parameters in the gauge.

    Args:
        family: of laws.
        information: (K m, K m) about the coefficients of a group: axes are those along which it
            is largest.
        first: number of the group of the first run, whose parameters are positive.
    """
    G, r = family.hidden.shape
    if r == 0:
        return family
    family = _moved(family, *_uncorrelated(family))
    covariance = family.hidden.mT @ family.hidden / G
    values, axes = torch.linalg.eigh(covariance)
    size = divisor(values.clamp(min=0.0)).sqrt()
    family = _moved(family, _affine(family, axes / size))
    effect = torch.einsum("gar,ab,gbs->rs", family.tangents, information, family.tangents)
    _, axes = torch.linalg.eigh(effect)
    axes = axes.flip(-1)
    signs = torch.where(family.hidden[first] @ axes < 0, -1.0, 1.0)
    return _moved(family, _affine(family, axes * signs))


def _uncorrelated(family: Family) -> tuple[Tensor]:
    """Change that takes the mean away, and what known parameters tell."""
    p = family.known.shape[1]
    design = torch.cat([torch.ones_like(family.hidden[:, :1]), family.known], -1)
    if len(design) <= p + 1:
        design = design[:, :1]
    told = torch.linalg.lstsq(design, family.hidden, driver="gelsd").solution  # (1 + p, r)
    unit = torch.eye(family.hidden.shape[1], dtype=torch.float64)
    change = torch.zeros(1 + p + len(unit), len(unit), dtype=torch.float64)
    change[: len(told)] = -told
    change[1 + p :] = unit
    return (change,)


def _affine(family: Family, linear: Tensor) -> Tensor:
    """Change by a matrix (r, r) of the hidden parameters alone."""
    p = family.known.shape[1]
    return torch.cat([linear.new_zeros(1 + p, len(linear)), linear])


def _moved(family: Family, change: Tensor, *, probes: int = 4) -> Family:
    """Return the same laws with hidden parameters (1, k, c) @ change, change (1 + p + r, r).

    `probes`: contexts for each term by which laws are brought into other parameters; more than
    one suffices.
    """
    with_one = lambda context: torch.cat([torch.ones_like(context[:, :1]), context], -1)  # noqa: E731
    hidden = with_one(family.context) @ change
    draw = torch.Generator().manual_seed(0)
    number = probes * family.terms.number
    shape = (number, family.context.shape[1])
    before = torch.randn(shape, generator=draw, dtype=torch.float64)
    p = family.known.shape[1]
    after = torch.cat([before[:, :p], with_one(before) @ change], -1)
    # terms before are combinations of terms after, exactly
    table = torch.linalg.lstsq(family.terms(after), family.terms(before), driver="gelsd").solution
    theta = torch.einsum("pq,kqm->kpm", table, family.theta)
    return replace(family, theta=theta, hidden=hidden)
