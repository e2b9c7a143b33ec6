"""Coefficients that samples do not determine, since terms depend on each other on them."""

import torch
from torch import Tensor

from romkit.core.errors import FitWarning, warn
from romkit.core.tensors import divisor
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.regression import design_of, triangular
from romkit.laws.samples import LatentSamples

SUSPECT = 1e6
"""Condition of a library from which on its terms are looked at one by one."""

DEPENDENT = 1e-9
"""Singular value of columns of norm 1 below which a combination of terms is zero on all samples:
rates have fewer digits than this takes.
"""

INVOLVED = 1e-3
"""Share of a term in such a combination, from which on the combination changes its coefficient."""

NAMED = 4
"""Most terms that a warning names."""


def warn_if_undetermined(what: str, law: Equation, samples: LatentSamples) -> None:
    """Warn once (`FitWarning`) where other coefficients of the terms of a law fit its samples as
    well: on one circle, z0^2 + z1^2 is 1.
    """
    if bool((law.condition < SUSPECT).all()):
        return
    free = undetermined(law.basis, samples)  # (S, K)
    in_law = law.support.any(-1).reshape(free.shape)
    arbitrary = (free & in_law).any(0)
    names = [name for name, is_free in zip(law.terms, arbitrary.tolist(), strict=True) if is_free]
    if not names:
        return
    listed = ", ".join(names[:NAMED])
    if len(names) > NAMED:
        listed += ", ..."
    warn(
        f"{what}: expected terms that the samples tell apart, got {listed}, of which other "
        "coefficients fit as well; trust the law near its samples alone, lower the degree, or add "
        "runs from other starts",
        FitWarning,
    )


def undetermined(basis: Features, samples: LatentSamples) -> Tensor:
    """(S, K) terms of S problems that have a share in a combination that is zero on all samples."""
    design = design_of(samples, basis)
    terms = len(basis.names)
    masks = []
    for problem in range(len(design.targets)):
        columns = triangular(design, problem)[:, :terms]
        unit = columns / divisor(columns.norm(dim=0))
        _, singular, directions = torch.linalg.svd(unit)
        is_zero = singular <= DEPENDENT * singular[0]
        combinations = directions[is_zero]  # (k, K)
        masks.append(combinations.norm(dim=0) > INVOLVED)
    return torch.stack(masks)
