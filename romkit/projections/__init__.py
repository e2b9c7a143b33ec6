"""Projections: a family of operators P = φ ∘ ρ indexed by a context. One file per family; `METHODS` lists them."""

from romkit.projections.architectures import architecture
from romkit.projections.base import Maps, Operator, Projection
from romkit.projections.constrained import CAE, BiasNcAE, ContextCAE, NcAE, SlopeNcAE, SoftNcAE
from romkit.projections.frame import Frame, Signature
from romkit.projections.pod import POD
from romkit.projections.stacking import stack, unstack
from romkit.projections.unconstrained import AE, ContextAE, FilmAE

METHODS: dict[str, type[Projection]] = {
    method.name: method for method in (POD, AE, ContextAE, FilmAE, CAE, ContextCAE, SoftNcAE, NcAE, BiasNcAE, SlopeNcAE)
}
"""Every method by the name that `romkit.fit` takes."""

__all__ = [
    "AE",
    "CAE",
    "METHODS",
    "POD",
    "BiasNcAE",
    "ContextAE",
    "ContextCAE",
    "FilmAE",
    "Frame",
    "Maps",
    "NcAE",
    "Operator",
    "Projection",
    "Signature",
    "SlopeNcAE",
    "SoftNcAE",
    "architecture",
    "stack",
    "unstack",
]
