"""Frame of a projection: names, units, and the affine map between physical states and the
coordinates of its maps.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from romkit.bases import Basis, check_size
from romkit.core.boundary import unchecked, validated
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.tensors import divisor
from romkit.core.types import Array, Entries, Names, TensorMap, Tensors
from romkit.data import DIMS, Layout, check_states, context_names, layout_of
from romkit.data.context import context_columns, context_ranges
from romkit.data.layout import component_names
from romkit.data.schema import shared_unit
from romkit.data.units import Units, state_units

FIELDS = (
    "system",
    "state_names",
    "state_units",
    "context_names",
    "context_units",
    "layout",
    "fixed",
    "time_units",
)
"""Names in a frame, which are compared with the system or data that a projection is used on."""


OF_COORDINATES = {
    "state_shift": "state_shift",
    "state_scale": "state_scale",
    "context_shift": "context_shift",
    "context_scale": "context_scale",
    "coordinate_std": "state_std",
}
"""Buffers of a frame behind a basis, and those of the frame of coordinates that they are."""


@validated
class Frame(nn.Module):
    """x = x̄ + V (shift + scale · y), c = c_shift + c_scale · d: names, units, and the y and d that
    the maps work on.

    An affine wrap keeps P ∘ P = P; the columns of V are orthonormal in the metric of the basis, and
    without a basis x = shift + scale · y. Components of one unit share one scale (the root mean
    square deviation of their group), so that in a state of one unit the loss in y is the physical
    loss up to a factor. The context is mapped to [-1, 1] on its training range; relative to its
    value, if that is a single one.

    Args:
        system: name of the system, "" for data without one.
        state_names, state_units: one entry per state component.
        context_names, context_units: one entry per context parameter.
        time_units: unit of the times of the data, "" where nobody said.
        layout: of the state on its axis, as text (see `romkit.data.Layout`); "" where it is a plain
            vector.
        fixed: context parameters that had one value in training, of which nothing is known at
            another one.
        basis: in front; shared by all copies, in float64 whatever the precision of the projection.

    Attributes:
        state_shift, state_scale: (r,) of the coordinates in the basis, or (n,) of the state without
            one.
        state_std: (n,) standard deviation of each component over the training data, 0 of a constant
            one. Errors are normalised by those of a unit, `romkit.metrics.pool_units`.
        context_shift, context_scale: (p,).
        exact: these in float64, which a projection that is made double gets back; and `contexts`
            (K, p), those of the training, where several parameters vary and nobody has declared their
            ranges.

    Example:
        >>> import torch
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.18])
        >>> frame = romkit.projections.Frame.from_dataset(data)
        >>> frame.system, frame.context_names, frame.state_names[:3], frame.state_std.shape
        ('lorenz96', ('F',), ('x0', 'x1', 'x2'), torch.Size([36]))
        >>> frame.normalise_context(torch.tensor([[3.133], [3.193]])).flatten().round(decimals=3)
        tensor([-1.,  1.])
        >>> behind = romkit.projections.Frame.from_dataset(data, romkit.basis(data, rank=6))
        >>> behind.size, behind.normalise(torch.zeros(10, 36)).shape
        (6, torch.Size([10, 6]))
    """

    state_shift: Tensor
    state_scale: Tensor
    state_std: Tensor
    context_shift: Tensor
    context_scale: Tensor
    coordinate_std: Tensor

    def __init__(
        self,
        system: str,
        state_names: Names,
        state_units: Names,
        context_names: Names = (),
        context_units: Names = (),
        layout: str = "",
        fixed: Names = (),
        *,
        basis: Basis | None = None,
        time_units: str = "",
    ):
        super().__init__()
        self.system = system
        self.layout = layout
        self.basis = basis
        self.state_names = state_names
        self.state_units = state_units
        self.context_names = context_names
        self.context_units = context_units
        self.fixed = fixed
        self.time_units = time_units
        n = len(state_names)
        p = len(context_names)
        if basis is not None and basis.size != n:
            raise InputError(
                "basis",
                expected=f"the {n} components of the state",
                got=basis.size,
                fix="take the basis of these data",
            )
        for name, size, value in (
            ("state_shift", self.size, 0.0),
            ("state_scale", self.size, 1.0),
            ("state_std", n, 1.0),
            ("context_shift", p, 0.0),
            ("context_scale", p, 1.0),
        ):
            self.register_buffer(name, torch.full((size,), value))
        if basis is not None:
            self.register_buffer("coordinate_std", torch.ones(self.size))
        self.exact: Tensors = {}

    def _apply(self, fn: TensorMap, recurse: bool = True) -> "Frame":
        super()._apply(fn, recurse)
        # else rounding of the scales would depend on the units of the data
        if self.state_scale.dtype == torch.float64:
            for name, value in self.exact.items():
                if name in self._buffers:
                    setattr(self, name, value.to(getattr(self, name)))
        return self

    def _set(self, **values: Array) -> None:
        """Set buffers, in float64 too."""
        for name, value in values.items():
            exact = torch.as_tensor(value, dtype=torch.float64)
            self.exact[name] = exact
            setattr(self, name, exact.to(getattr(self, name)))

    def keep_units(self) -> None:
        """Leave states as they are, in the units of the data."""
        self._set(state_shift=np.zeros(self.size), state_scale=np.ones(self.size))

    @classmethod
    @validated
    def from_dataset(
        cls, data: xr.Dataset, basis: Basis | None = None, inner: "Frame | None" = None
    ) -> "Frame":
        """Frame of a training set (see `romkit.data.schema`).

        Args:
            data: with `state`; larger than memory only with `inner`.
            basis: in front of the maps.
            inner: frame of the coordinates in the basis, where it is known.
        """
        if basis is None:
            return _scaled(data)
        check_size(basis, data)
        if inner is None:
            inner = _scaled(basis.project(data))
        return _named(data, basis).behind(inner, data)

    def behind(self, inner: "Frame", data: xr.Dataset) -> "Frame":
        """Take over the scales of `inner`, the frame of coordinates in the basis, and the
        deviations of full data.
        """
        if inner.size != self.size:
            raise InputError(
                "inner",
                expected=f"the {self.size} coordinates in the basis",
                got=inner.size,
                fix="take the frame of their coordinates in the basis",
            )
        for name, of_coordinates in OF_COORDINATES.items():
            setattr(self, name, getattr(inner, of_coordinates))
            if of_coordinates in inner.exact:
                self.exact[name] = inner.exact[of_coordinates]
        total, squares, count = self._sums(data["state"].transpose(*DIMS))
        variance = squares / count - (total / count) ** 2
        self._set(state_std=np.sqrt(np.maximum(variance, 0)))
        return self

    def _sums(self, state: xr.DataArray) -> tuple[Array, Array, int]:
        """Return sum and sum of squares (n,) of the deviations of complete snapshots from the mean of
        the basis, and their number.

        A snapshot of which components are missing has no coordinates in chunks: it is counted.
        """
        mean = self.basis.mean.numpy()
        if not state.chunks:
            # one trajectory at a time: they are in a file, perhaps larger than memory
            runs = (state.isel(trajectory=k).values for k in range(state.sizes["trajectory"]))
            sums = zip(*(_sums(np, values - mean) for values in runs), strict=True)
            total, squares, count = map(sum, sums)
            return total, squares, count
        import dask  # slow to import, and seldom needed
        import dask.array as da

        deviation = state.data - mean
        present = da.isfinite(deviation).any(-1).sum()
        total, squares, count, present = dask.compute(*_sums(da, deviation), present)
        if present > count:
            expected = "data: expected complete snapshots in chunks"
            got = f"got {present - count} that lack components and are left out"
            warn(f"{expected}, {got}; data.load() fills them in", DataWarning)
        return total, squares, count

    def of_coordinates(self) -> "Frame":
        """Return the frame of coordinates in the basis; the frame itself without one."""
        if self.basis is None:
            return self
        unit = shared_unit(self.state_units, "mixed")
        frame = Frame(
            self.system,
            [f"y{k}" for k in range(self.size)],
            [unit] * self.size,
            self.context_names,
            self.context_units,
            fixed=self.fixed,
            time_units=self.time_units,
        )
        for name, of_coordinates in OF_COORDINATES.items():
            setattr(frame, of_coordinates, getattr(self, name).clone())
            if name in self.exact:
                frame.exact[of_coordinates] = self.exact[name]
        return frame

    def to_json(self) -> Entries:
        """Return names and units as plain values, for a file."""
        return {name: getattr(self, name) for name in FIELDS}

    @property
    def size(self) -> int:
        """Number of coordinates y that the maps work on: r modes of the basis, or n without one."""
        return len(self.state_names) if self.basis is None else self.basis.rank

    @property
    def units(self) -> Units:
        """Units of states, contexts and times."""
        time = self.time_units
        if not time:
            time = self.fields.time_units
        return Units(self.state_units, self.context_units, time)

    @property
    def fields(self) -> Layout:
        """The variables and dimensions that a state has in data."""
        if self.layout:
            return Layout.from_json(self.layout)
        return unchecked(Layout.plain)(self.state_names)

    def normalise(self, x: Tensor) -> Tensor:
        """y (..., size) of a state x (..., n)."""
        if self.basis is not None:
            x = self.basis.encode(x)
        return (x - self.state_shift) / self.state_scale

    def denormalise(self, y: Tensor) -> Tensor:
        """x (..., n) of coordinates y (..., size)."""
        x = torch.addcmul(self.state_shift, y, self.state_scale)
        if self.basis is not None:
            x = self.basis.decode(x)
        return x

    def normalise_tangent(self, v: Tensor) -> Tensor:
        """ẏ of a velocity ẋ."""
        if self.basis is not None:
            v = self.basis.encode_tangent(v)
        return v / self.state_scale

    def denormalise_tangent(self, w: Tensor) -> Tensor:
        """ẋ of a velocity ẏ."""
        v = w * self.state_scale
        if self.basis is not None:
            v = self.basis.decode_tangent(v)
        return v

    def normalise_context(self, c: Tensor) -> Tensor:
        """d (..., p) of a context c (..., p) in physical units, in the precision of the frame.

        A context in float64 is centred before it is rounded: single precision does not tell
        contexts apart that are large beside their range, POSIX seconds or frequencies.
        """
        shift = self.context_shift
        scale = self.context_scale
        if c.dtype == shift.dtype or "context_shift" not in self.exact:
            return (c.to(shift) - shift) / scale
        exact_shift = self.exact["context_shift"].to(c)
        return ((c - exact_shift) / self.exact["context_scale"].to(c)).to(shift)

    def denormalise_context(self, c: Tensor) -> Tensor:
        """Return the context (..., p) in physical units of a normalised one."""
        return torch.addcmul(self.context_shift, c, self.context_scale)


def _sums(library: Any, deviation: Any) -> tuple[Any, Any, Any]:
    """Return sum and sum of squares (n,) of complete rows (..., n), and their number, by NumPy or
    dask.
    """
    complete = library.isfinite(deviation).all(-1, keepdims=True)
    rows = library.where(complete, deviation, 0.0)
    axes = tuple(range(rows.ndim - 1))
    return rows.sum(axes), (rows**2).sum(axes), complete.sum()


def _scaled(data: xr.Dataset) -> Frame:
    """Frame of a training set, with shift and scale of its states and contexts."""
    check_states(data)
    states = data["state"].transpose(*DIMS).values
    states = states.reshape(-1, states.shape[-1])
    complete = np.isfinite(states).all(-1)
    if not complete.all():
        states = states[complete]
    frame = _named(data)
    # sums of many numbers in single precision lose all digits of a spread about a large mean
    exactly = {"axis": 0, "dtype": np.float64}
    # POD coordinates, say: scaled one by one, the least of them would count as much as the first
    group = scale_groups(data)
    total = np.bincount(group, states.var(**exactly))
    deviation = np.sqrt(total / np.bincount(group))  # of each group
    low, high = context_ranges(data)
    width = np.where(high > low, high - low, 2 * np.abs(low))
    std = states.std(**exactly)
    # squares of numbers below 1e-162 are zero, although these are no constant
    is_zero = std == 0
    if is_zero.any() and np.ptp(states[:, is_zero], axis=0).any():
        raise _exceeds_float32("smaller")
    frame._set(
        state_shift=states.mean(**exactly),
        state_std=std,
        state_scale=divisor(deviation[group]),
        context_shift=(low + high) / 2,
        context_scale=divisor(width / 2),
    )
    _check_float32(frame)
    return frame


def scale_groups(data: xr.Dataset) -> Array:
    """Return number of the group of each component, whose scale is one: components of one unit, or
    without units of one variable.
    """
    owners: list[str] = []
    for variable in unchecked(layout_of)(data).variables:
        owners += [variable.name] * variable.size
    groups = [
        unit if unit else f"of {owner}"
        for unit, owner in zip(state_units(data), owners, strict=True)
    ]
    _, numbers = np.unique(groups, return_inverse=True)
    return numbers


def _check_float32(frame: Frame) -> None:
    """Raise where scales overflow in float32, or vanish."""
    positive = bool((torch.cat([frame.state_scale, frame.context_scale]) > 0).all())
    finite = bool(torch.cat([*frame.buffers()]).isfinite().all())
    if positive and finite:
        return
    raise _exceeds_float32("larger" if positive else "smaller")


def _exceeds_float32(size: str) -> InputError:
    return InputError(
        "data",
        expected="states and contexts that float32 can hold",
        got=f"{size} ones",
        fix=f"measure them in a {size} unit",
    )


def _named(data: xr.Dataset, basis: Basis | None = None) -> Frame:
    """Frame of these data with scales of one."""
    contexts = context_names(data)
    units = Units.read(data, contexts)
    layout = layout_of(data)
    ranges = zip(contexts, *context_ranges(data), strict=True)
    frame = Frame(
        str(data.attrs.get("system", "")),
        component_names(data),
        units.state,
        contexts,
        units.context,
        "" if layout.is_plain else layout.to_json(),
        [name for name, low, high in ranges if low == high],
        basis=basis,
        time_units=units.time,
    )
    extremes = _extreme_contexts(data, contexts)
    if extremes is not None:
        frame.exact["contexts"] = torch.from_numpy(extremes)
    return frame


def _extreme_contexts(data: xr.Dataset, names: Names, *, most_contexts: int = 1000) -> Array | None:
    """Return contexts (K, p) whose hull is what a model has seen; None where the range of each
    parameter says it: of a single one, or as declared.

    `most_contexts`: contexts that are kept one by one; of more, those on their hull.
    """
    varied = [name for name in names if np.ptp(data[name].values) > 0]
    if len(varied) < 2 or any("training_range" in data[name].attrs for name in names):
        return None
    contexts = np.unique(context_columns(data, names).reshape(-1, len(names)), axis=0)
    contexts = contexts[np.isfinite(contexts).all(-1)]
    if len(contexts) <= most_contexts:
        return contexts
    return _hull_vertices(contexts, [names.index(name) for name in varied])


def _hull_vertices(
    contexts: Array, varied: Sequence[int], *, most_parameters: int = 4
) -> Array | None:
    """Return those of many contexts (K, p) that are vertices of their hull; None where there are
    too many parameters to tell.

    `most_parameters`: parameters up to which the hull of many contexts has few vertices.
    """
    from scipy.spatial import ConvexHull  # slow to import, and seldom needed

    if len(varied) > most_parameters:
        return None
    columns = contexts[:, varied]
    # joggled, since parameters that were not varied apart have a flat hull
    scaled = (columns - columns.mean(0)) / columns.std(0)
    return contexts[ConvexHull(scaled, qhull_options="QJ").vertices]
