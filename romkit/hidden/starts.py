"""Families to begin with: laws of single groups, and the directions in which their coefficients
differ.
"""

from dataclasses import replace

import torch
from torch import Tensor

from romkit.core.tensors import divisor
from romkit.core.types import frozen
from romkit.hidden.family import ContextTerms, Family, Structure
from romkit.hidden.joint import first_windows, fitted, windows_of
from romkit.laws.courses import Runs
from romkit.laws.sensitivities import Motion
from romkit.laws.shooting import FINE, ROUGH, SHORTEST, is_coarse, lengths

SHORT = 2 * ROUGH
"""Longest windows [time scales] of laws that only begin a fit."""


@frozen
class OwnLaws:
    """Coefficients of each group by itself.

    Attributes:
        motion: of the laws.
        weights: (G, K, m).
        information: (K m, K m) mean normal equations of a group, the metric in which coefficients
            differ.
        known: (G, p) known parameters.
    """

    motion: Motion
    weights: Tensor
    information: Tensor
    known: Tensor

    @classmethod
    def fit(cls, motion: Motion, runs: Runs, known: Tensor) -> "OwnLaws":
        """Return laws of the groups of runs, each from a law of all.

        Where samples are far apart the few of a group have minima by which no other group is
        followed, and one law of all is far from each: its coefficients are linear in the mean states
        of groups there.
        """
        K, m = motion.terms.number, motion.latent_dim
        G = len(known)
        nothing = torch.zeros(G, 0, dtype=torch.float64)
        means = mean_states(runs, G) if is_coarse(runs) else nothing
        terms = ContextTerms(means.shape[1], 0, 1)
        zero = torch.zeros(K, terms.number, m, dtype=torch.float64)
        by_means = Family(terms, zero, means, nothing)
        by_means = fitted(by_means, motion, runs, SHORTEST, SHORT, contexts=False).family
        constant = ContextTerms(0, 0, 0)
        laws = []
        for group in range(G):
            rows = (runs.group == group).nonzero().squeeze(-1)
            alone = replace(runs.only(rows), group=torch.zeros(len(rows), dtype=torch.long))
            theta = by_means.weights[group].unsqueeze(1)
            law = Family(constant, theta, nothing[:1], nothing[:1])
            begin = first_windows(alone, 2 * SHORTEST)
            law = fitted(law, motion, alone, begin, SHORT, contexts=False).family
            laws.append(law.theta[:, 0])
        weights = torch.stack(laws)
        return cls(motion, weights, _information(motion, weights, runs), known)

    def start(self, structure: Structure) -> Family:
        """Family whose coefficients are linear in as many hidden parameters as the
        structure has, along the directions in which those of single groups differ most.
        """
        weights = self.weights.flatten(1)  # (G, K m)
        recorded = self.known
        G, p = recorded.shape
        r = structure.hidden
        of_known = ContextTerms(p, 0, structure.bend if p else 0)
        design = of_known(recorded)  # (G, q)
        fit = torch.linalg.lstsq(design, weights, driver="gelsd").solution  # (q, K m)
        differences = weights - design @ fit
        U, s, V = torch.linalg.svd(differences @ self._root, full_matrices=False)
        hidden = U[:, :r] * G**0.5
        directions = torch.linalg.solve_triangular(
            self._root.mT, (s[:r, None] * V[:r]).mT / G**0.5, upper=True
        ).mT  # (r, K m)
        terms = ContextTerms(p, r, structure.bend if p else min(1, r))
        theta = weights.new_zeros(terms.number, weights.shape[1])
        theta[_places(terms, of_known)] = fit
        theta[1 + p : 1 + p + r] = directions
        return self._family(terms, theta, recorded, hidden).bent(structure.bend)

    def curve(self, family: Family, bend: int) -> Family:
        """Family of one hidden parameter, whose coefficients are polynomials of it, along the
        coefficients of the groups of another family: by places on the line in which these differ
        most, or by places along them, whichever polynomials fit better.
        """
        weights = family.weights.flatten(1)  # (G, K m)
        recorded = family.known
        terms = ContextTerms(recorded.shape[1], 1, bend)
        points = self.points(family)
        U, _, _ = torch.linalg.svd(points, full_matrices=False)
        best: tuple[float, Tensor, Tensor] | None = None
        for places in (U[:, :1], offset_points(points)):
            hidden = (places - places.mean(0)) / divisor(places.std(0, correction=0))
            design = terms(torch.cat([recorded, hidden], -1))
            theta = torch.linalg.lstsq(design, weights, driver="gelsd").solution
            error = float(((weights - design @ theta) @ self._root).square().sum())
            if best is None or error < best[0]:
                best = error, theta, hidden
        assert best is not None  # one of both places
        _, theta, hidden = best
        return self._family(terms, theta, recorded, hidden)

    def points(self, family: Family) -> Tensor:
        """Return coefficients (G, K m) of groups, in the metric of the information about them."""
        weights = family.weights.flatten(1)
        return (weights - weights.mean(0)) @ self._root

    def _family(self, terms: ContextTerms, theta: Tensor, known: Tensor, hidden: Tensor) -> Family:
        """Family of coefficients (q, K m) of the terms."""
        K, m = self.motion.terms.number, self.motion.latent_dim
        return Family(terms, theta.unflatten(1, (K, m)).transpose(0, 1), known, hidden)

    @property
    def _root(self) -> Tensor:
        """Lower factor (K m, K m) of the information."""
        # share of the mean information about coefficients below which there is none
        singular = 1e-9
        floor = singular * self.information.diagonal().mean()
        unit = torch.eye(len(self.information), dtype=torch.float64)
        return torch.linalg.cholesky(self.information + floor * unit)


def mean_states(runs: Runs, groups: int) -> Tensor:
    """Return mean states (G, m) of groups, in their deviations."""
    means = [runs.states[runs.group == group].nanmean((0, 1)) for group in range(groups)]
    states = torch.stack(means)
    return (states - states.mean(0)) / divisor(states.std(0, correction=0))


def offset_points(points: Tensor, number: int = 1) -> Tensor:
    """Return places (G, r) of points (G, k) in so many directions, by the shortest ways from neighbour
    to neighbour; of r = 1, along a curve through them.

    Source: Tenenbaum, de Silva, Langford (2000), A global geometric framework for nonlinear
    dimensionality reduction, with the shortest tree that joins all points in place of neighbours.
    """
    from scipy.sparse import csgraph  # slow to import, and seldom needed

    distance = torch.cdist(points, points)
    # no distance at all would be no way
    relative = (distance / divisor(distance.max())).clamp(min=1e-6)
    tree = csgraph.minimum_spanning_tree(relative.numpy())
    ways = torch.from_numpy(csgraph.shortest_path(tree, directed=False))
    squares = ways.square()
    centred = squares - squares.mean(0) - squares.mean(1, keepdim=True) + squares.mean()
    values, vectors = torch.linalg.eigh(-centred / 2)
    places = vectors * values.clamp(min=0.0).sqrt()
    return places.flip(-1)[:, :number]


def _places(terms: ContextTerms, of_known: ContextTerms) -> list[int]:
    """Return numbers of the terms that have known parameters alone."""
    if of_known.known == 0:
        return [0]
    together = terms._monomials.places
    return [together[factors] for factors in of_known._monomials.factors]


def _information(motion: Motion, weights: Tensor, runs: Runs) -> Tensor:
    """Return mean matrix (K m, K m) of the normal equations of groups at their own laws."""
    G = len(weights)
    nothing = weights.new_zeros(G, 0)
    unit = torch.eye(G, dtype=weights.dtype)
    family = Family(ContextTerms(0, 0, 0), weights[0].unsqueeze(1), nothing, nothing)
    plan = [length for duration, length in lengths(runs) if duration <= SHORT]
    problem = replace(windows_of(family, motion, runs, plan[-1], FINE, False), mix=unit)
    matrix, _, _ = problem.group_matrices(weights, problem.windows.start)
    return matrix.mean(0)
