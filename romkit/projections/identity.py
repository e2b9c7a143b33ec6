"""The projection that leaves states as they are."""

import torch
from torch import Tensor

from romkit.core.boundary import validated
from romkit.core.types import Names
from romkit.projections.base import Projection
from romkit.projections.frame import Frame
from romkit.projections.networks import Curve, Curves


class Unchanged(Curves):
    """z = y."""

    def encoded(self, y: Curve) -> Curve:
        return y

    def decoded(self, z: Curve) -> Curve:
        return z

    def decode_curvature(self, z: Tensor, w: Tensor) -> Tensor:
        return torch.zeros_like(w)


@validated
class Identity(Projection):
    """P(x) = x, for laws of physical states: latent coordinates are the state's components, in their
    units and under their names.

    Nothing is reduced and nothing is trained. Behind a basis, latent coordinates are those in the
    basis.

    Example:
        >>> import numpy as np
        >>> import romkit
        >>> from romkit.laws import SINDy
        >>> t = np.linspace(0, 6, 200)
        >>> data = romkit.data.from_arrays(np.stack([np.cos(t), -np.sin(t)], -1)[None], t, names=["x", "v"])
        trajectories  1 of up to 200 samples, n = 2
        state         state (component 2), float64
        context       none
        time          0 ... 6, every 0.0301508
        rates         none given; estimated where needed
        >>> identity = romkit.fit("identity", data)
        >>> SINDy(degree=1, threshold=0.1).fit(identity, data).equations()
        ["x' = 1.000 v", "v' = -1.000 x"]
    """

    name = "identity"
    idempotent = True
    trained = False

    def __init__(self, frame: Frame, generator: torch.Generator):
        super().__init__(frame, {})
        self.latent_dim = frame.size

    @property
    def latent_names(self) -> Names | None:
        """Names of the state's components; None behind a basis."""
        return tuple(self.frame.state_names) if self.basis is None else None

    def at(self, c: Tensor) -> Unchanged:
        return Unchanged()

    def initialise(self, y: Tensor, c: Tensor) -> None:
        """Take states in physical units."""
        self.frame.keep_units()
