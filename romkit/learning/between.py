"""Rule of inputs between samples, held or straight lines, chosen by training runs where nobody has
stated it.
"""

import time
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core import runtime
from romkit.core.errors import InputError
from romkit.core.polynomials import Monomials
from romkit.data.controls import HELD, LINEAR, control_matrix, inputs_held
from romkit.data.schema import complete
from romkit.laws.choice import HELD_OUT
from romkit.laws.phase import with_phase
from romkit.learning.contexts import scaled_contexts
from romkit.learning.coordinates import Chosen, chosen_in_coordinates, main_directions, mean_error
from romkit.learning.errors import without_gaps
from romkit.learning.manifolds import Kinds, Model
from romkit.learning.quiet import quiet
from romkit.learning.scale import deviations
from romkit.verbs.law import Comparison

CLEARLY = 2.0
"""Mean difference between what two rules leave of the steps, squared, in its standard error, from which
on runs show the one that leaves less: noise of the states is in both.
"""

DEGREE, CONTEXT_DEGREE = 2, 1
"""Degrees of the maps of a step, in states and inputs, and in the context."""


class TriedBetween(NamedTuple):
    """Errors of one law by two rules for its inputs between samples, on training runs left out.

    Attributes:
        rule: that the steps of the runs show, "held" or "linear".
        error: of the law by this rule [deviations].
        error_assumed: by the one that the look of the inputs made assume.
    """

    rule: str
    error: float
    error_assumed: float

    @property
    def is_taken(self) -> bool:
        """Whether the law is one by the rule that the steps show."""
        return self.error <= self.error_assumed

    @property
    def assumed(self) -> str:
        """The other rule."""
        return other_rule(self.rule)


def chosen_between(
    train: xr.Dataset,
    latent_dim: int | None,
    seconds: float,
    seed: int,
    kinds: Kinds | None = None,
) -> tuple[Chosen, TriedBetween | None]:
    """The manifold and law that forecast left-out training runs best, with the rule between samples
    of inputs that the steps of runs show, where this law errs by no more with it than with the rule
    that was assumed.
    """
    began = time.process_time()
    rule = shown_rule(train)
    if rule is None:
        return chosen_in_coordinates(train, latent_dim, seconds, seed, kinds), None
    runtime.told(f"learn: steps of the runs show that inputs are {rule} between samples")
    choice = chosen_in_coordinates(with_rule(train, rule), latent_dim, seconds, seed, kinds)
    of_assumed = with_rule(choice.train, other_rule(rule))
    # the comparison is a small part of the search
    remaining = max(seconds / 2, seconds - (time.process_time() - began))
    try:
        other = _model_like(choice.model, of_assumed, seed, remaining)
    except InputError:  # its rollouts are lost
        return choice, TriedBetween(rule, mean_error(choice.model), np.inf)
    tried = TriedBetween(rule, mean_error(choice.model), mean_error(other))
    if tried.is_taken:
        return choice, tried
    return choice._replace(model=other, train=of_assumed), tried


def shown_rule(train: xr.Dataset) -> str | None:
    """The rule that the steps of runs show, other than the one that inputs are assumed to have by their
    look; None where they show none, or somebody has stated it.
    """
    if "control" not in train or "between" in train["control"].attrs:
        return None
    assumed = HELD if inputs_held(train) else LINEAR
    other = other_rule(assumed)
    steps = Steps.of(train)
    gains = steps.remainders(assumed) - steps.remainders(other)  # (N,)
    standard_error = gains.std() / len(gains) ** 0.5
    if gains.mean() > CLEARLY * standard_error:
        return other
    return None


def other_rule(rule: str) -> str:
    """The one of the two rules that this one is not."""
    return LINEAR if rule == HELD else HELD


def with_rule(data: xr.Dataset, rule: str) -> xr.Dataset:
    """Data that declare a rule for their inputs."""
    return data.assign(control=data["control"].assign_attrs(between=rule))


def _monomials(train: xr.Dataset) -> Tensor:
    """Monomials (C, K) of the contexts of runs, scaled to [-1, 1]."""
    scaled = torch.from_numpy(2 * scaled_contexts(train, train) - 1)  # (C, p)
    return Monomials(scaled.shape[-1], CONTEXT_DEGREE)(scaled)


class Steps(NamedTuple):
    """Changes of states from a sample to the next, beside what they follow from.

    A step follows from the state at its begin and, by held inputs, from these at its begin alone, by
    straight lines from these at both ends: to first order, from their mean. Least squares tell at
    once which is nearer, whatever the length of a step is beside the motion.

    Attributes:
        begins: (N, m) states, along their main directions.
        contexts: (N, K) monomials of the context.
        changes: (N, m) of the states.
        before, after: (N, q) inputs at the ends.
    """

    begins: Tensor
    contexts: Tensor
    changes: Tensor
    before: Tensor
    after: Tensor

    @classmethod
    def of(cls, train: xr.Dataset) -> "Steps":
        """Steps between samples that are both there."""
        z = main_directions(without_gaps(train) / deviations(train))  # (C, T, m)
        inputs = torch.from_numpy(control_matrix(train))  # (C, T, q)
        known = torch.from_numpy(complete(train, ["state"])) & inputs.isfinite().all(-1)
        is_whole = known[:, 1:] & known[:, :-1]  # (C, T - 1)
        contexts = _monomials(train)[:, None].expand(*is_whole.shape, -1)  # (C, T - 1, K)
        spans = np.diff(train["time"].values.astype(float))
        # of uneven samples, rates are what is alike
        lengths = torch.from_numpy(spans / spans.mean())
        changes = z.diff(dim=1) / lengths[:, None]  # (C, T - 1, m)
        begins, before, after = z[:, :-1], inputs[:, :-1], inputs[:, 1:]
        quantities = (begins, contexts, changes, before, after)
        return cls(*(quantity[is_whole] for quantity in quantities))

    def remainders(self, rule: str) -> Tensor:
        """Squares (N,) of what a polynomial map leaves of the steps by a rule."""
        inputs = self.before if rule == HELD else (self.before + self.after) / 2
        inputs = inputs / self.before.abs().amax(0).clamp(min=torch.finfo().tiny)
        arguments = torch.cat([self.begins, inputs], dim=-1)
        terms = Monomials(arguments.shape[-1], DEGREE)(arguments)
        products = (terms[:, :, None] * self.contexts[:, None]).flatten(1)
        coefficients = torch.linalg.lstsq(products, self.changes, driver="gelsd").solution
        return (self.changes - products @ coefficients).square().sum(-1)


def _model_like(model: Model, train: xr.Dataset, seed: int, seconds: float) -> Model:
    """A model with the settings of another one, compared on the same folds of runs.

    Raises:
        InputError: rollouts of its law are lost.
    """
    projection = model.projection
    laws = Comparison(*projection.for_law(train), HELD_OUT, seed, seconds)
    with quiet():
        laws.add(model.settings)
        law = with_phase(laws.chosen(), projection, train)
    return Model(projection, model.settings, law, laws.errors_left_out())
