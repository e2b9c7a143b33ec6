"""Methods that ship with romkit, by name."""

from romkit.core.boundary import validated
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
from romkit.projections.identity import Identity
from romkit.projections.linear import POD
from romkit.projections.polynomial import PolynomialManifold

METHODS: dict[str, type[Projection]] = {
    method.name: method
    for method in (
        AE,
        ContextAE,
        FilmAE,
        CAE,
        ContextCAE,
        NcAE,
        WeightsNcAE,
        BiasNcAE,
        SlopeNcAE,
        SoftNcAE,
        POD,
        Identity,
        PolynomialManifold,
        Flow,
    )
}
"""Methods that ship with romkit, by the name that `romkit.fit` takes."""


@validated
def method_named(name: str) -> type[Projection] | None:
    """Return the class of a method: one that ships, or the newest of the user's own with this name;
    None without any.

    Example:
        >>> import romkit
        >>> romkit.projections.method_named("ncae").__name__
        'NcAE'
        >>> romkit.projections.method_named("nothing") is None
        True
    """
    if name in METHODS:
        return METHODS[name]
    newest = None
    classes: list[type[Projection]] = Projection.__subclasses__()
    for cls in classes:  # grows by the subclasses of its entries, in the order of their definition
        classes += cls.__subclasses__()
        if vars(cls).get("name") == name:
            newest = cls
    return newest
