"""Dynamic mode decomposition with control: the best linear law, and the baseline of all others."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from romkit.boundary import Count, Positive, checked
from romkit.errors import InputError
from romkit.integrators.estimator import Estimator
from romkit.integrators.samples import LatentSamples, interval
from romkit.integrators.sindy.basis import Basis
from romkit.integrators.sindy.estimator import equation
from romkit.integrators.sindy.library import Polynomial
from romkit.integrators.sindy.model import Equation
from romkit.integrators.sindy.regression import joined


class LinearModel(Equation):
    """ż = A z + B (1, c): what the fit of `DMD` returns.

    Example:
        >>> import torch
        >>> from romkit.integrators import DMD
        >>> t = torch.linspace(0, 6, 61, dtype=torch.float64)
        >>> z, rate = torch.stack([t.cos(), t.sin()], dim=-1), torch.stack([-t.sin(), t.cos()], dim=-1)
        >>> law = DMD().fit_samples(z[None], rate[None], times=t)
        >>> A, B = law.step(0.1)
        >>> torch.allclose(z[:-1] @ A.mT, z[1:])
        True
    """

    @checked
    def step(self, dt: Positive) -> tuple[Tensor, Tensor]:
        """A (m, m) and B (m, 1 + p) of z(t + dt) = A z(t) + B (1, c, u), in physical latents, contexts and inputs.

        Raises:
            InputError: a stack, or a law of second order.
        """
        self._check_single("step")
        if self.order != 1:
            raise InputError("model", expected="a law of first order", got="one of second", fix="use it as it is")
        m, p = self.latent_dim, len(self.basis.context)
        zero, units = torch.zeros(p, dtype=torch.float64), torch.eye(m, dtype=torch.float64)
        free = self.predict(torch.zeros(m, dtype=torch.float64), zero)
        A = torch.stack([self.predict(u, zero) - free for u in units], dim=-1)
        inputs = [self.predict(0 * free, c) - free for c in torch.eye(p, dtype=torch.float64)]
        generator = torch.zeros(m + 1 + p, m + 1 + p, dtype=torch.float64)
        generator[:m] = torch.cat([A, torch.stack([free, *inputs], dim=-1)], dim=-1)
        stepped = torch.linalg.matrix_exp(dt * generator)[:m]
        return stepped[:, :m], stepped[:, m:]


@checked
@dataclass(frozen=True)
class DMD(Estimator):
    """Settings of a fit; `fit` returns ż = A z + B (1, c), whose motion over one sampling interval is that of DMDc.

    Least squares for z(t + dt) = A' z(t) + B' (1, c(t)) over all neighbours in time; (A, B) is the matrix logarithm of
    (A', B') for inputs that are held over an interval. The context enters as an input, so the eigenvalues are the same
    at all contexts.

    Args:
        rank: how many singular values of the data (z, 1, c) to keep; all by default.

    Samples have to be whole trajectories at evenly spaced times. In second order the state is (z, ż), and its last rows
    are the law: exact for linear systems, a fit for others.

    Source: Proctor, Brunton, Kutz (2016), Dynamic mode decomposition with control, section 3.

    Example:
        >>> import torch
        >>> from romkit.integrators import DMD
        >>> t = torch.linspace(0, 6, 61, dtype=torch.float64)
        >>> z, rate = torch.stack([t.cos(), t.sin()], dim=-1), torch.stack([-t.sin(), t.cos()], dim=-1)
        >>> law = DMD().fit_samples(z[None], rate[None], times=t)  # trajectories (C, T, m)
        >>> law.predict(torch.tensor([1.0, 0.0], dtype=torch.float64)).round(decimals=6) + 0.0
        tensor([0., 1.], dtype=torch.float64)
    """

    rank: Count | None = None

    def _fit(self, samples: LatentSamples, seed: int) -> LinearModel:
        step = interval(samples)
        basis = Basis(Polynomial(1), Polynomial(1), samples.variables, samples.parameters)
        lead, m = samples.targets.shape[:-2], samples.targets.shape[-1]
        w, drift = basis.scaled(samples.inputs, samples.drift)
        half = torch.nn.functional.pad(step / 2 * drift, (0, w.shape[-1] - m))
        c = basis.context.on(samples.context.double())(samples.context.double())
        paths = [x.unflatten(-2, (-1, len(samples.times))) for x in (w, half, c.expand(*lead, *c.shape[-2:]))]
        problems = zip(*(x.reshape(math.prod(lead), *x.shape[-3:]) for x in paths), strict=True)
        return equation(LinearModel, samples, basis, joined([self._one(*pair, step, m) for pair in problems]))

    def _one(self, w: Tensor, half: Tensor, c: Tensor, step: float, m: int) -> tuple[Tensor, Tensor, Tensor]:
        """Coefficients (K, m), condition (), and residual (m,) of a step, relative to the step itself.

        From scaled states w (C, T, d), their drift in half a step (C, T, d), and contexts c (C, T, p). The drift,
        which is no part of the law, enters by the trapezoidal rule.
        """
        before, after = (x.flatten(0, 1) for x in ((w + half)[:, :-1], (w - half)[:, 1:]))
        inputs = torch.cat([c.new_ones(*c.shape[:-1], 1), c], dim=-1)[:, :-1].flatten(0, 1)
        known = torch.cat([before, inputs], dim=-1)
        there = torch.cat([known, after], dim=-1).isfinite().all(-1)
        known, before, after = known[there], before[there], after[there]
        if not len(known):
            fix = "take a law that needs single samples, or data without gaps"
            raise InputError("data", expected="neighbours in time", got="a gap between any two samples", fix=fix)
        U, s, Vh = torch.linalg.svd(known, full_matrices=False)
        keep = slice(self.rank) if self.rank else s > s[0] * len(known) * torch.finfo(s.dtype).eps
        operator = (Vh[keep].mT / s[keep]) @ (U[:, keep].mT @ (after - before))  # (d + 1 + p, d)
        operator[: w.shape[-1]] += torch.eye(w.shape[-1], dtype=w.dtype)  # what the data do not show to move stays
        missed = (after - known @ operator)[:, -m:].norm(dim=0) / (after - before)[:, -m:].norm(dim=0)
        generator = _generator(operator.mT.numpy(), step)[-m:]
        return _coefficients(generator, c.shape[-1]), s[0] / s[-1], missed.nan_to_num(nan=0.0, posinf=0.0)


def _generator(operator: np.ndarray, step: float) -> Tensor:
    """(d, d + 1 + p) of ẇ that moves w by `operator` in one step, while the inputs stay.

    Raises:
        InputError: no real linear flow does that.
    """
    d, size = operator.shape
    whole = np.eye(size)
    whole[:d] = operator
    values = np.linalg.eigvals(operator[:, :d])
    if bool((values.real <= 0).any() and (np.abs(values.imag[values.real <= 0]) < 1e-12).any()):
        worst = values[np.argmin(values.real)].real
        fix = "sample more finely, lower rank or the number of latents, or take another law"
        expected = "steps that a linear motion can make"
        raise InputError("data", expected=expected, got=f"a mode that is multiplied by {worst:.2g} in a step", fix=fix)
    return torch.from_numpy(np.real(scipy.linalg.logm(whole))[:d] / step)


def _coefficients(generator: Tensor, p: int) -> Tensor:
    """(K, m) in the order of the terms: each of 1, w0, w1, ... times each of 1, c0, c1, ..."""
    m, d = len(generator), generator.shape[-1] - 1 - p
    table = generator.new_zeros(1 + d, 1 + p, m)
    table[0] = generator[:, d:].mT
    table[1:, 0] = generator[:, :d].mT
    return table.flatten(0, 1)
