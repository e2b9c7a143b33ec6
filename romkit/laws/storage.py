"""Fitted laws in files, and the rules that a law from a file has to keep."""

import itertools
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import torch
from torch import Tensor

from romkit.core import packing
from romkit.core.errors import FileError, InputError
from romkit.core.files import Header, Tensors, reason
from romkit.core.packing import Classes, Rule
from romkit.data.coordinates import COORDINATES
from romkit.integrators.base import LearnedField
from romkit.integrators.region import Region
from romkit.laws.bounded import BoundedLaw
from romkit.laws.cells import EDGES, CellEquation, Cells, Grid
from romkit.laws.chebyshev import Chebyshev
from romkit.laws.equations import Equation
from romkit.laws.features import Features
from romkit.laws.hamiltonian import HamiltonianLaw
from romkit.laws.libraries import Fourier, Library, Polynomial, Product, Subset, Sum
from romkit.laws.limit_cycle import LimitCycleLaw
from romkit.laws.network import NeuralODEModel
from romkit.laws.orbits import NODES
from romkit.laws.phase import PhaseLaw
from romkit.laws.rational import RationalLaw
from romkit.laws.scaling import Scaling

LAWS = (
    BoundedLaw,
    CellEquation,
    Equation,
    HamiltonianLaw,
    LimitCycleLaw,
    NeuralODEModel,
    PhaseLaw,
    RationalLaw,
)
LIBRARIES = (Polynomial, Chebyshev, Fourier, Sum, Product, Subset)
PARTS = (Cells, Features, Grid, Region, Scaling)
CLASSES: Classes = {kind.__name__: kind for kind in (*LAWS, *LIBRARIES, *PARTS)}
"""Everything that a file of a law may hold."""

FAULTS = ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError
"""Errors of classes and tensors on parts that are not theirs."""


def packed(law: LearnedField) -> tuple[Header, Tensors]:
    """Header and tensors of a law, or of a stack of them, for a file.

    Raises:
        InputError: a law of the user's own, or one with terms that are functions of the user's own.
    """
    if not isinstance(law, LAWS):
        kinds = " or ".join(kind.__name__ for kind in LAWS)
        fix = "write its parameters to a file of your own"
        raise InputError("law", expected=f"a fitted {kinds}", got=type(law).__name__, fix=fix)
    for library in _libraries(law):
        _check_stored(library)
    header, tensors = packing.packed(law, CLASSES)
    return {"law": header}, tensors


def unpacked(path: str | os.PathLike[str], header: Header, tensors: Tensors) -> LearnedField:
    """Return the law of a file, on the CPU.

    Raises:
        FileError: an unknown kind of law, or parts that do not fit each other.
    """
    try:
        law = packing.unpacked(header["law"], tensors, CLASSES, RULES)
        if not isinstance(law, LAWS):
            raise TypeError("no law")
        _check_rates(law)
    except FAULTS as error:
        raise FileError(
            path,
            problem=f"holds a law whose parts do not fit each other ({reason(error)})",
            fix="restore it from a copy, or fit and save the law again",
        ) from error
    return law


def _libraries(law: LearnedField) -> Iterator[Library]:
    """Libraries of all terms of a law."""
    if isinstance(law, PhaseLaw):
        yield from _libraries(law.shape)
        yield from _libraries(law.speed)
    elif isinstance(law, BoundedLaw):
        yield from _libraries(law.law)
    elif isinstance(law, RationalLaw):
        yield from _libraries(law.polynomial)
    elif isinstance(law, Equation):
        yield law.basis.library
        yield law.basis.context_library


def _nested(library: Library) -> Iterator[Library]:
    """Yield a library and the libraries that it is made of."""
    yield library
    if not is_dataclass(library):
        return
    for field in fields(library):
        value = getattr(library, field.name)
        if isinstance(value, Library):
            yield from _nested(value)


def _check_stored(library: Library) -> None:
    """Raise where a library has terms that no file can hold."""
    for nested in _nested(library):
        if type(nested) not in LIBRARIES:
            expected = "terms that a file can hold"
            got = repr(nested)[:80]
            fix = "fit with Polynomial and Fourier, or keep the script that fits it"
            raise InputError("law", expected=expected, got=got, fix=fix)


def _check_rates(law: LearnedField, variables: int | None = None) -> None:
    """Raise unless a law, or each of a stack, gives finite rates and distances of the right shape.

    Args:
        law: of any kind.
        variables: that it is a function of; by default as many as its order says.
    """
    if isinstance(law, PhaseLaw):
        _check_rates(law.shape)
        _check_rates(law.speed, variables=law.shape.latent_dim)
        return
    if isinstance(law, BoundedLaw):
        _check_rates(law.law)
        _check_resting_rates(law, law.centre, law.latent_dim, law.law.basis.context)
        return
    if isinstance(law, RationalLaw):
        like = law.numerator[0]
        context = law.polynomial.basis.context
    elif isinstance(law, Equation):
        like = law.coefficients[..., 0, :]
        context = law.basis.context
    elif isinstance(law, CellEquation):
        like = law.coefficients.new_zeros(law.latent_dim)
        context = law.context
    elif isinstance(law, LimitCycleLaw):
        like = law.nodes[..., 0, 0, :-1]
        context = law.context
    else:
        like = law.rate
        context = law.context
    if variables is None:
        variables = like.shape[-1] * law.order
    _check_resting_rates(law, like, variables, context)
    if law.domain is not None:
        _check_distances(law.domain, like)


def _check_resting_rates(law: LearnedField, like: Tensor, variables: int, context: Scaling) -> None:
    """Raise unless rates at zero are finite and shaped like (..., m)."""
    *stack, m = like.shape
    # a law in 1/c has no rates at c = 0, but at the middle of the contexts that it was fitted to
    middle = context.middle.to(like).unsqueeze(-2)  # (..., 1, p)
    with torch.no_grad():
        field = law.right_hand_side(middle.expand(*stack, 1, len(context)))
        rate = field(like.new_zeros(*stack, 1, 1, variables))
    if rate.shape != (*stack, 1, 1, m):
        raise ValueError(f"rates of shape {tuple(rate.shape)}")
    if not bool(rate.isfinite().all()):
        raise ValueError("rates that are not finite")


def _check_distances(region: Region, like: Tensor) -> None:
    """Raise unless a region has a distance of each latent state like (..., m)."""
    distance = region.distance(torch.zeros_like(like))
    if distance.shape != like.shape[:-1] or not bool(distance.isfinite().all()):
        raise ValueError(f"distances of shape {tuple(distance.shape)}")


def _terms_are_bounded(law: Equation) -> bool:
    """Tell whether no degree or frequency exceeds the number of terms, so that evaluating them
    ends.
    """
    terms = law.coefficients.shape[-2]
    for library in itertools.chain.from_iterable(map(_nested, _libraries(law))):
        degree = getattr(library, "degree", 0)
        if max(degree, getattr(library, "frequencies", 0)) > terms:
            return False
    return True


RULES: dict[type, tuple[Rule, ...]] = {
    Scaling: (
        (lambda scaling: len(scaling.names) == scaling.shift.shape[-1], "names and shift differ"),
        (lambda scaling: scaling.shift.shape == scaling.scale.shape, "shift and scale differ"),
        (lambda scaling: bool((scaling.scale > 0).all()), "a scale that is not positive"),
        (
            lambda scaling: len(scaling.coordinates) in (0, len(scaling.names)),
            "names and coordinates differ",
        ),
        (lambda scaling: COORDINATES.keys() >= {*scaling.coordinates}, "an unknown coordinate"),
    ),
    Region: (
        (
            lambda region: region.points.shape[-1] == region.scale.shape[-1],
            "points and scale differ",
        ),
    ),
    Equation: (
        (_terms_are_bounded, "terms of a degree beyond their number"),
        (lambda law: law.order in (1, 2), "an order that is neither 1 nor 2"),
    ),
    Grid: (
        (lambda grid: len(grid.axes) == len(grid.shape) == len(grid.spacing), "axes differ"),
        (lambda grid: 1 <= len(grid.shape) <= 2 and min(grid.shape) >= 4, "no grid of cells"),
    ),
    Cells: (
        (lambda cells: cells.edges in EDGES, "unknown edges"),
        (lambda cells: 1 <= cells.degree <= 9, "a degree beyond nine"),
    ),
    CellEquation: (
        (
            lambda law: len(law.cells.terms) == len(law.coefficients),
            "coefficients of other terms",
        ),
        (
            lambda law: len(law.cells.grid.fields) == law.coefficients.shape[-1],
            "coefficients of other fields",
        ),
    ),
    LimitCycleLaw: (
        (lambda law: law.nodes.shape[-2] == NODES, "orbits of another number of nodes"),
        (lambda law: law.nodes.shape[-3] == law.frequency.shape[-1], "nodes and frequency differ"),
        (lambda law: law.library.degree < law.nodes.shape[-3] + 1, "a degree beyond their number"),
    ),
    RationalLaw: (
        (
            lambda law: law.numerator.shape == law.polynomial.coefficients.shape,
            "numerators of other terms",
        ),
        (lambda law: law.latent < law.latent_dim, "a denominator of no latent"),
        (lambda law: bool((law.half > 0).all()), "a denominator that is not positive"),
    ),
    NeuralODEModel: (
        (lambda law: len(law.layers) > 0, "no layers"),
        (lambda law: bool((law.scale > 0).all()), "a scale that is not positive"),
    ),
}
"""Rules of each class, and what is wrong with a part that does not keep one."""
