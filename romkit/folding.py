"""Folding the last layer of a decoder into a quadratic field, once per context: y = β(c) + F a, and F stays.

A field of r coordinates costs r² (r + 1) / 2 products at each evaluation. With k hidden units before the last layer the
folded one costs k² (k + 1) / 2, and is the same to rounding.
"""

import torch
from torch import Tensor

from romkit.problem import ConstantPath, FirstOrder, Problem, euclidean
from romkit.systems.quadratic import Quadratic


def folded(problem: Problem, quadratic: Quadratic | None) -> Problem:
    """A problem in hidden units with the same decoder-side dynamics, or the problem itself where there is none.

    Args:
        problem: of first order, at contexts that stay, with the identity as metric.
        quadratic: its field with the contexts bound, for states (..., r).
    """
    plain = problem.metric is euclidean and problem.control is None and isinstance(problem.path, ConstantPath)
    if quadratic is None or not plain:
        return problem
    layer = problem.path.operator.last_layer()
    if layer is None or layer.factor.shape[1] >= layer.factor.shape[0]:
        return problem
    gram = layer.factor.mT @ layer.factor
    test = torch.linalg.solve(gram, layer.factor.mT).mT  # so that the rate of a is the one nearest to that of y
    field = quadratic.substituted(layer.factor, layer.shift, test)

    def metric(x: Tensor, u: Tensor) -> Tensor:
        return gram @ u

    return FirstOrder(ConstantPath(layer.hidden), lambda t, a: field(a), metric)
