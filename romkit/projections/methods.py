"""Every method by name."""

from romkit.boundary import checked
from romkit.projections.base import Projection
from romkit.projections.constrained import CAE, BiasNcAE, ContextCAE, NcAE, SlopeNcAE, SoftNcAE
from romkit.projections.flow import Flow
from romkit.projections.pod import POD
from romkit.projections.quadratic_manifold import QuadraticManifold
from romkit.projections.unconstrained import AE, ContextAE, FilmAE

METHODS: dict[str, type[Projection]] = {
    method.name: method
    for method in (
        POD,
        QuadraticManifold,
        AE,
        ContextAE,
        FilmAE,
        CAE,
        ContextCAE,
        SoftNcAE,
        NcAE,
        BiasNcAE,
        SlopeNcAE,
        Flow,
    )
}
"""The methods that ship with romkit, by the name that `romkit.fit` takes."""


@checked
def method_named(name: str) -> type[Projection] | None:
    """The class of a method: one that ships, or the newest of the user's own with this name; None without any.

    Example:
        >>> import romkit
        >>> romkit.projections.method_named("ncae").__name__
        'NcAE'
        >>> romkit.projections.method_named("nothing") is None
        True
    """
    found, classes = METHODS.get(name), [Projection]
    for cls in classes:  # which grows: the classes below follow in the order of their definition
        classes += cls.__subclasses__()
        found = cls if name not in METHODS and cls.__dict__.get("name") == name else found
    return found
