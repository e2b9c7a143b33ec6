"""Every method by name."""

from romkit.projections.base import Projection
from romkit.projections.constrained import CAE, BiasNcAE, ContextCAE, NcAE, SlopeNcAE, SoftNcAE
from romkit.projections.pod import POD
from romkit.projections.unconstrained import AE, ContextAE, FilmAE

METHODS: dict[str, type[Projection]] = {
    method.name: method for method in (POD, AE, ContextAE, FilmAE, CAE, ContextCAE, SoftNcAE, NcAE, BiasNcAE, SlopeNcAE)
}
"""Every method by the name that `romkit.fit` takes. A method of the user's own, once added, can be saved and loaded."""
