"""Coefficients that samples do not determine, since terms depend on each other on them."""

from typing import NamedTuple

import torch
from torch import Tensor

from romkit.core.errors import FitWarning, warn
from romkit.core.tensors import divisor
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.regression import design_of, triangular
from romkit.laws.samples import LatentSamples, one_axis

INVOLVED = 1e-3
"""Share of a term in such a combination, from which on the combination changes its coefficient."""


def warn_if_undetermined(
    what: str, law: Equation, samples: LatentSamples, *, suspect: float = 1e6, named: int = 4
) -> None:
    """Warn once (`FitWarning`) where other coefficients of the terms of a law fit its samples as
    well: on one circle, z0^2 + z1^2 is 1.

    `suspect`: condition of a library from which on its terms are looked at one by one.

    `named`: most terms that a warning names.
    """
    if bool((law.condition < suspect).all()):
        return
    free = undetermined(law.basis, samples)  # (S, K)
    in_law = law.support.any(-1).reshape(free.shape)
    arbitrary = (free & in_law).any(0)
    names = [name for name, is_free in zip(law.terms, arbitrary.tolist(), strict=True) if is_free]
    if not names:
        return
    listed = ", ".join(names[:named])
    if len(names) > named:
        listed += ", ..."
    text = ", ".join(str(relation) for relation in relations(_first(samples)))
    reason = f" ({text} in all samples)" if text else ""
    warn(
        f"{what}: expected terms that the samples tell apart, got {listed}, of which other "
        f"coefficients fit as well{reason}; trust the law near its samples alone, lower the degree, or add "
        "runs from other starts",
        FitWarning,
    )


def _first(samples: LatentSamples) -> LatentSamples:
    """Return the samples of the first problem."""
    if samples.inputs.ndim == 2:
        return samples
    return LatentSamples.first_order(
        one_axis(samples.latents)[0],
        one_axis(samples.latents)[0],
        names=samples.variables.names[: samples.latents.shape[-1]],
    )


class Relation(NamedTuple):
    """Combination a₁ z₁ + ... + aₘ zₘ of latents that has one value in all samples.

    Attributes:
        weights: (m,) the largest of them 1.
        value: of the combination.
        names: of the latents.
    """

    weights: Tensor
    value: float
    names: tuple[str, ...]

    @property
    def involved(self) -> list[int]:
        """Numbers of the latents that it has."""
        return self.weights.nonzero().flatten().tolist()

    def __str__(self) -> str:
        named = zip(self.weights.tolist(), self.names, strict=True)
        terms = [f"{weight:+.4g} {name}" for weight, name in named if weight]
        text = " ".join(terms).replace("+1 ", "+").replace("-1 ", "-")
        text = text.removeprefix("+").replace(" +", " + ").replace(" -", " - ")
        return f"{text} = {self.value:.4g}"


def relations(samples: LatentSamples, *, alike: float = 1e-6) -> list[Relation]:
    """Return the linear combinations of latents that are constant in all samples of one problem, as
    the sum of the parts of a whole is.

    `alike`: singular value of latents of deviation 1, likewise: solvers of equations keep a sum
    by fewer digits.

    Example:
        >>> import torch
        >>> from romkit.laws import LatentSamples
        >>> from romkit.laws.determined import relations
        >>> a = torch.linspace(0, 1, 30, dtype=torch.float64)
        >>> z = torch.stack([a, 1 - a], -1)
        >>> names = ["A", "B"]
        >>> [str(one) for one in relations(LatentSamples.first_order(z, 0 * z, names=names))]
        ['A + B = 1']
    """
    z = samples.complete().latents.double()
    z = z.reshape(-1, z.shape[-1])
    mean = z.mean(0)
    deviation = divisor((z - mean).square().mean(0).sqrt())
    _, singular, directions = torch.linalg.svd((z - mean) / deviation, full_matrices=False)
    dependent = []
    null = directions[singular <= alike * singular[0]] / deviation
    for row in _echelon(null):
        weights = torch.where(row.abs() > INVOLVED, row, 0.0)
        names = samples.variables.names[: len(weights)]
        dependent.append(Relation(weights, float(weights @ mean), tuple(names)))
    return dependent


def _echelon(rows: Tensor) -> Tensor:
    """Return rows (k, m) that span the same, each with a column of its own where it is 1."""
    rows = rows.clone()
    for k in range(len(rows)):
        pivot = int(rows[k].abs().argmax())
        rows[k] = rows[k] / rows[k, pivot]
        remaining = torch.arange(len(rows)) != k
        rows[remaining] -= rows[remaining, pivot : pivot + 1] * rows[k]
    return rows


def undetermined(basis: Features, samples: LatentSamples, *, dependent: float = 1e-9) -> Tensor:
    """(S, K) terms of S problems that have a share in a combination that is zero on all samples.

    `dependent`: singular value of columns of norm 1 below which a combination of terms is zero
    on all samples: rates have fewer digits than this takes.
    """
    design = design_of(samples, basis)
    terms = len(basis.names)
    masks = []
    for problem in range(len(design.targets)):
        columns = triangular(design, problem)[:, :terms]
        unit = columns / divisor(columns.norm(dim=0))
        _, singular, directions = torch.linalg.svd(unit)
        is_zero = singular <= dependent * singular[0]
        combinations = directions[is_zero]  # (k, K)
        masks.append(combinations.norm(dim=0) > INVOLVED)
    return torch.stack(masks)
