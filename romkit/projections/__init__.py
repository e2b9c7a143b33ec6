"""Projections: a family of operators P = φ ∘ ρ indexed by a context. One file per family; `METHODS`
lists them.
"""

from romkit.projections.autoencoders import AE, ContextAE, FilmAE
from romkit.projections.base import Projection
from romkit.projections.constrained import (
    CAE,
    BiasNcAE,
    ContextCAE,
    NcAE,
    SlopeNcAE,
    SoftNcAE,
    WeightsNcAE,
)
from romkit.projections.flow import Flow
from romkit.projections.frame import Frame
from romkit.projections.identity import Identity
from romkit.projections.linear import POD
from romkit.projections.maps import EncoderDecoder
from romkit.projections.methods import METHODS, method_named
from romkit.projections.operator import Operator
from romkit.projections.path import Path
from romkit.projections.polynomial import PolynomialManifold
from romkit.projections.shifts import Shifts
from romkit.projections.sizes import architecture
from romkit.projections.sliced import Sliced
from romkit.projections.storage import pretrained, stack, unstack

__all__ = [
    "AE",
    "CAE",
    "METHODS",
    "POD",
    "BiasNcAE",
    "ContextAE",
    "ContextCAE",
    "EncoderDecoder",
    "FilmAE",
    "Flow",
]
__all__ += [
    "Frame",
    "Identity",
    "NcAE",
    "Operator",
    "Path",
    "PolynomialManifold",
    "Projection",
    "Shifts",
    "Sliced",
    "SlopeNcAE",
]
__all__ += [
    "SoftNcAE",
    "WeightsNcAE",
    "architecture",
    "method_named",
    "pretrained",
    "stack",
    "unstack",
]
