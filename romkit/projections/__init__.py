"""Projections: a family of operators P = φ ∘ ρ indexed by a context. One file per family; `METHODS` lists them."""

from romkit.projections.architectures import architecture
from romkit.projections.base import Projection
from romkit.projections.constrained import CAE, BiasNcAE, ContextCAE, NcAE, SlopeNcAE, SoftNcAE
from romkit.projections.flow import Flow
from romkit.projections.maps import EncoderDecoder
from romkit.projections.methods import METHODS, method_named
from romkit.projections.normalization import BasisNormalization, Normalization, Signature
from romkit.projections.operator import Operator
from romkit.projections.path import MovingPath
from romkit.projections.pod import POD
from romkit.projections.quadratic_manifold import QuadraticManifold
from romkit.projections.stacking import stack, unstack
from romkit.projections.storage import pretrained
from romkit.projections.unconstrained import AE, ContextAE, FilmAE

__all__ = [
    "AE",
    "CAE",
    "METHODS",
    "POD",
    "BasisNormalization",
    "BiasNcAE",
    "ContextAE",
    "ContextCAE",
    "EncoderDecoder",
    "FilmAE",
    "Flow",
    "MovingPath",
    "NcAE",
    "Normalization",
    "Operator",
    "Projection",
    "QuadraticManifold",
    "Signature",
    "SlopeNcAE",
    "SoftNcAE",
    "architecture",
    "method_named",
    "pretrained",
    "stack",
    "unstack",
]
