"""Projections with shifts of a ring factored out: of the shape of a wave, beside its phase."""

import copy
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core.types import Entries, Kwargs
from romkit.projections.base import Projection
from romkit.projections.frame import Frame
from romkit.projections.maps import EncoderDecoder
from romkit.projections.methods import method_named
from romkit.projections.networks import Curve, Curves, joined
from romkit.projections.wave import Wave


class SlicedMaps(Curves):
    """Maps of shape and phase, of maps of aligned states in the coordinates of their frame."""

    decode_curvature = EncoderDecoder.decode_curvature

    def __init__(self, wave: Wave, frame: Frame, maps: EncoderDecoder):
        self.wave = wave
        self.frame = frame
        self.maps = maps

    def encoded(self, y: Curve) -> Curve:
        aligned = self.wave.aligned(y)
        value, *rates = (curve[..., :-1] for curve in aligned)
        shape = self.frame.normalise(value)
        if not rates:
            return _append_phases([self.maps.encode(shape)], aligned)
        z = self.maps.encode_jvp(shape, *map(self.frame.normalise_tangent, rates))
        return _append_phases(z, aligned)

    def decoded(self, z: Curve) -> Curve:
        shapes = [curve[..., :-1] for curve in z]
        if len(z) == 1:
            y = [self.frame.denormalise(self.maps.decode(*shapes))]
            return self.wave.placed(_append_phases(y, z))
        value, *rates = self.maps.decode_jvp(*shapes)
        y = [self.frame.denormalise(value), *map(self.frame.denormalise_tangent, rates)]
        return self.wave.placed(_append_phases(y, z))


def _append_phases(shapes: Sequence[Tensor], phases: Sequence[Tensor]) -> Curve:
    """Return shapes with the phases, which stand last in others."""
    curve = [joined(shape, phase[..., -1:]) for shape, phase in zip(shapes, phases, strict=True)]
    return tuple(curve)


class Sliced(Projection):
    """A projection of aligned waves with their phase as the last latent coordinate, which
    `fit(symmetry=...)` makes.

    P(g x) = g P(x) for every shift g. Exact if the inner projection is: encoded phases are in (-π,
    π], and decoded states have period 2π in the phase. What harmonics of the wave do not hold is
    projected away.

    Args:
        method, settings: of the inner projection.
        wave: fields of `Wave`.

    Attributes:
        inner: the projection of aligned states.
        wave: the coordinates that it works on.

    Example:
        >>> import torch
        >>> import romkit
        >>> data = romkit.systems.KuramotoSivashinsky(n=32, dt=0.1).dataset(L=[12.0, 12.2, 12.4], duration=10.0)
        >>> pod = romkit.fit("pod", data, symmetry="shift", latent_dim=1)
        >>> x = torch.from_numpy(data.state.values)
        >>> P = pod.double()(data)
        >>> torch.allclose(P(x.roll(5, -1)), P(x).roll(5, -1), rtol=0, atol=1e-12)
        True
        >>> (P.encode(x.roll(8, -1)) - P.encode(x))[0, 0, 1].remainder(2 * torch.pi)  # a quarter of the ring
        tensor(1.5708, dtype=torch.float64)
    """

    name = "sliced"

    def __init__(
        self,
        frame: Frame,
        generator: torch.Generator,
        *,
        method: str,
        settings: Entries,
        wave: Kwargs,
    ):
        super().__init__(frame, {"method": method, "settings": settings, "wave": wave})
        self.wave = Wave(**(wave | {"units": tuple(wave["units"])}))
        inner = Frame(
            "",
            self.wave.names,
            self.wave.component_units,
            context_names=frame.context_names,
            context_units=frame.context_units,
            fixed=frame.fixed,
            time_units=frame.time_units,
        )
        kind: Any = method_named(method)
        self._hold(kind(inner, generator, **settings))

    def _hold(self, inner: Projection) -> None:
        self.inner = inner
        self.latent_dim = inner.latent_dim + 1
        self.idempotent = inner.idempotent
        self.trained = inner.trained

    @classmethod
    def build(cls, inner: Projection, wave: Wave, data: xr.Dataset) -> "Sliced":
        """Return projection of full states from one of aligned states, with names, units and
        deviations of full data.
        """
        frame = Frame.from_dataset(data)
        n = len(frame.state_names)
        # alignment needs physical states
        frame._set(state_shift=np.zeros(n), state_scale=np.ones(n))
        sliced = cls(
            frame,
            torch.Generator(),
            method=inner.name,
            settings=inner.config,
            wave=asdict(wave),
        )
        sliced._hold(inner)
        sliced.report = inner.report
        return sliced

    @property
    def shapes(self) -> Projection:
        """The projection of aligned states, with the seeds of this one."""
        inner = copy.copy(self.inner)
        inner.seeds = self.seeds
        return inner

    def law_space(self, data: xr.Dataset) -> tuple[Projection, xr.Dataset]:
        return self.shapes, self.wave.project(data)

    def at(self, c: Tensor) -> SlicedMaps:
        return SlicedMaps(self.wave, self.inner.frame, self.inner.at(c))
