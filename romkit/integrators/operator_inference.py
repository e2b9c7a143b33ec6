"""Operator inference: all coefficients of a polynomial law, regularised as held-out rollouts ask for."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from romkit.boundary import Count, Natural, NotNegative, Part, checked
from romkit.errors import InputError
from romkit.integrators.estimator import Estimator
from romkit.integrators.samples import LatentSamples
from romkit.integrators.selection import HELD_OUT, choose
from romkit.integrators.sindy.basis import Basis
from romkit.integrators.sindy.estimator import design_of, equation
from romkit.integrators.sindy.library import Polynomial
from romkit.integrators.sindy.model import Equation
from romkit.integrators.sindy.regression import joined, triangular


class OperatorModel(Equation):
    """ż = (c + A z + H (z ⊗ z) + ...)(context): what the fit of `OperatorInference` returns.

    Example:
        >>> import torch
        >>> from romkit.integrators import OperatorInference
        >>> z = torch.linspace(-1, 1, 50, dtype=torch.float64).reshape(50, 1)
        >>> law = OperatorInference(degree=2, regularization=0.0).fit_samples(z, z - z**2)
        >>> type(law).__name__, law.terms
        ('OperatorModel', ['1', 'z0', 'z0^2'])
    """


@checked
@dataclass(frozen=True)
class OperatorInference(Estimator):
    """Settings of a fit; `fit` returns the law, with every polynomial term up to the degree.

    Minimises ‖ż - Θ(z, c) ξ‖² + ‖λ ξ‖², where λ keeps rollouts from drifting and blowing up. Each operator is a
    polynomial in the context.

    Args:
        degree: of the polynomials in the latent coordinates: 1 for c + A z, 2 with H (z ⊗ z), 3 with a cubic term.
        context_degree: of the operators in the context.
        regularization: λ, one number for all coefficients, or two: for terms up to degree 1, and for those above. By
            default chosen from `CANDIDATES` √N (N samples) by rollouts of held-out trajectories.
        validation: share of the trajectories that is held out for this choice; the law is then fitted to all.

    `fit(projection, data)` scales the latents, and λ acts on the scaled coefficients.

    Source: Peherstorfer, Willcox (2016); choice of λ: McQuarrie, Huang, Willcox (2021), section 3.3.

    Example:
        >>> import torch
        >>> from romkit.integrators import OperatorInference
        >>> z = torch.linspace(-1, 1, 50, dtype=torch.float64).reshape(50, 1)
        >>> law = OperatorInference(degree=2, regularization=0.0).fit_samples(z, z - z**2)
        >>> law.predict(torch.tensor([[0.5]], dtype=torch.float64)).round(decimals=6)
        tensor([[0.2500]], dtype=torch.float64)
    """

    degree: Count = 2
    context_degree: Natural = 1
    regularization: NotNegative | tuple[NotNegative, ...] | None = None
    validation: Part = HELD_OUT

    CANDIDATES: ClassVar[tuple[tuple[float, ...], tuple[float, ...]]] = (
        (1e-6, 1e-4, 1e-2),
        (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    )
    """λ / √N of terms up to degree 1, and of those above."""

    def __post_init__(self):
        given = self.regularization
        if isinstance(given, tuple) and len(given) != 2:
            fix = "give one number, or a pair: up to degree 1, and above"
            raise InputError("regularization", expected="one or two numbers", got=repr(given), fix=fix)

    def _fit(self, samples: LatentSamples, seed: int) -> OperatorModel:
        if self.regularization is None:
            low, high = self.CANDIDATES if self.degree > 1 else (self.CANDIDATES[1], (0.0,))
            root = len(samples) ** 0.5
            pairs = [(a * root, b * root) for a, b in itertools.product(low, high)]
            return choose(self, samples, {"regularization": pairs}, self.validation, seed)
        library, context = Polynomial(self.degree), Polynomial(self.context_degree)
        design = design_of(samples, Basis(library, context, samples.variables, samples.parameters))
        penalty = self._penalty(design.basis)
        found = [_ridge(triangular(design, k), penalty) for k in range(len(design.targets))]
        return equation(OperatorModel, samples, design.basis, joined(found))

    def _penalty(self, basis: Basis) -> Tensor:
        """(K,) λ of each term."""
        pair = self.regularization if isinstance(self.regularization, tuple) else (self.regularization,) * 2
        simple = len(Polynomial(1).names(basis.variables.names))  # 1, z0, z1, ... come first
        each = [pair[k >= simple] for k in range(len(basis.latent_names))]
        return torch.tensor(each, dtype=torch.float64).repeat_interleave(len(basis.context_names))


def _ridge(R: Tensor, penalty: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Coefficients (K, m), condition () and relative residual (m,), from the triangular factor R of (Θ, ż)."""
    K = len(penalty)
    kept = penalty > 0
    matrix = torch.cat([R[:, :K], torch.diag(penalty)[kept]])
    target = torch.cat([R[:, K:], R.new_zeros(int(kept.sum()), R.shape[-1] - K)])
    coefficients = torch.linalg.lstsq(matrix, target, driver="gelsd").solution
    singular = torch.linalg.svdvals(matrix / _nonzero(matrix.norm(dim=0)))
    miss = (R[:, K:] - R[:, :K] @ coefficients).norm(dim=0)
    return coefficients, singular[0] / singular[-1], miss / _nonzero(R[:, K:].norm(dim=0))


def _nonzero(norms: Tensor) -> Tensor:
    return torch.where(norms > 0, norms, 1.0)
