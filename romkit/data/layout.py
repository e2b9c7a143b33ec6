"""Layout: how variables with dimensions of their own, u(y, x) and v(y, x) say, lie on one axis, and
back.
"""

import base64
import functools
import itertools
import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr
from pydantic import TypeAdapter

from romkit.core import tensors
from romkit.core.boundary import unchecked, validated
from romkit.core.errors import InputError
from romkit.core.types import Array, Chunked, Names
from romkit.data.context import check_dims, check_has
from romkit.data.conversions import convert_values
from romkit.data.names import unit_of

AXIS = "component"


@dataclass(frozen=True)
class Variable:
    """One variable of a state.

    Attributes:
        dims, shape: its dimensions beside trajectory and time, and their sizes.
        units: of its values, "" where they are not known.
        dtype: of its values, "" for whole numbers.
        mask: cells that hold values, as bits in base64; "" where all do. Land and solids hold none.
        long_name: as in the data, for figures.
    """

    name: str
    dims: Names
    shape: tuple[int, ...]
    units: str = ""
    dtype: str = ""
    mask: str = ""
    long_name: str = ""

    @functools.cached_property
    def cells(self) -> Array:
        """Places of the components among the cells, in C order."""
        if not self.mask:
            return np.arange(math.prod(self.shape))
        bits = base64.b64decode(self.mask)
        packed = np.frombuffer(bits, np.uint8)
        return np.flatnonzero(np.unpackbits(packed))

    @property
    def size(self) -> int:
        """Number of components."""
        return len(self.cells) if self.mask else math.prod(self.shape)


@validated
@dataclass(frozen=True)
class Layout:
    """The variables of a state one after the other, each in C order of its dimensions, without
    cells that are masked.

    Attributes:
        variables: in their order on the axis.
        coords: values, attributes and, beside those of a dimension, dimensions of the coordinates
            of the variables.
        runs: own names of the dimensions of the trajectories; none for data of a single run.
        time, time_units: own name of the dimension of time, and its unit.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> from romkit.data import Layout
        >>> data = xr.Dataset({"u": (("time", "y", "x"), np.zeros((5, 2, 3))), "p": ("time", np.zeros(5))})
        >>> layout = Layout.build(data, ["u", "p"], ["time"])
        >>> layout.size, layout.names[-2:]
        (7, ('u[1, 2]', 'p'))
        >>> layout.gather(data, ["time"]).shape
        (5, 7)
    """

    variables: tuple[Variable, ...]
    coords: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    runs: Names = ("trajectory",)
    time: str = "time"
    time_units: str = ""

    @classmethod
    @validated
    def build(cls, data: xr.Dataset, names: Sequence[str], lead: Sequence[str]) -> "Layout":
        """Return the layout of these variables, whose dimensions beside `lead` are the state's;
        cells that are always NaN are not.

        Raises:
            InputError: a variable is missing.
        """
        for name in names:
            check_has(data, name)
        variables = tuple(_variable(data[name], lead) for name in names)
        space: set[Hashable] = set()
        for variable in variables:
            space.update(variable.dims)
        coords = {}
        for key, coord in data.coords.items():
            if coord.dims and space.issuperset(coord.dims):
                coords[str(key)] = _coordinate(coord)
        return cls(variables, coords)

    @classmethod
    @validated
    def plain(cls, names: Sequence[str]) -> "Layout":
        """Return the layout of one variable `state` over `component`."""
        return unchecked(cls)(
            (Variable("state", (AXIS,), (len(names),)),),
            {AXIS: {"values": list(names), "attrs": {}}},
        )

    @property
    def is_plain(self) -> bool:
        """Whether the state is one variable `state` over `component`."""
        if len(self.variables) != 1:
            return False
        variable = self.variables[0]
        return variable.name == "state" and variable.dims == (AXIS,)

    @property
    def size(self) -> int:
        """n."""
        return sum(variable.size for variable in self.variables)

    @property
    def slices(self) -> list[slice]:
        """Components of the state of each variable."""
        ends = np.cumsum([0, *(variable.size for variable in self.variables)]).tolist()
        return [slice(*pair) for pair in itertools.pairwise(ends)]

    @functools.cached_property
    def names(self) -> Names:
        """(n,) a name for every component: that of a plain one, else u[3, 7] say, or u[Isles] where
        places have labels of text.
        """
        if self.is_plain:
            numbered = [f"x{k}" for k in range(self.size)]
            labels = self.coords.get(AXIS, {}).get("values", numbered)
            return tuple(map(str, labels))
        names = []
        for variable in self.variables:
            names += _names(variable, self.coords)
        return tuple(names)

    @property
    def units(self) -> Names:
        """(n,) the unit of every component."""
        units = []
        for variable in self.variables:
            units += [variable.units] * variable.size
        return tuple(units)

    @validated
    def gather(self, data: xr.Dataset, lead: Sequence[str]) -> Array | Chunked:
        """Return the variables of a dataset as one array (*lead, n), in the units of the layout, in
        chunks of dask where they are.

        Raises:
            InputError: a variable is missing, or has other dimensions or sizes, a unit that cannot
                be converted, or coordinates in another order.
        """
        # numbers alone do not show that a grid was turned round
        self.check_order({str(dim): data[dim].values for dim in data.dims if dim in data.coords})
        flat = [self._flat(variable, data, lead) for variable in self.variables]
        # large states of one variable are spared the copy
        if len(flat) == 1:
            return flat[0]
        return np.concatenate(flat, axis=-1)

    @staticmethod
    def _flat(variable: Variable, data: xr.Dataset, lead: Sequence[str]) -> Array | Chunked:
        """Return a variable of a dataset as an array (*lead, k) of its components.

        Raises:
            InputError: it is missing, or has other dimensions or sizes.
        """
        name = variable.name
        check_has(data, name)
        values = data[name]
        dims = (*lead, *variable.dims)
        shape = tuple(values.sizes.get(dim) for dim in variable.dims)
        if set(values.dims) != set(dims) or shape != variable.shape:
            raise InputError(
                "data",
                expected=f"{name} with dims {dims} of sizes {variable.shape} at the end",
                got=str(dict(values.sizes)),
                fix="rename or select dims",
            )
        array = convert_values("data", name, values, variable.units).transpose(*dims).data
        leading_shape = array.shape[: len(lead)]
        flat = array.reshape(*leading_shape, math.prod(variable.shape))
        if variable.mask:
            return flat[..., variable.cells]
        return flat

    @validated
    def scatter(
        self,
        values: Chunked | Array,
        lead: Sequence[str],
        coords: Mapping[str, object] | None = None,
    ) -> xr.Dataset:
        """Return an array (*lead, n), in memory or in chunks, as a dataset of the variables in
        their dimensions.

        Masked cells are NaN.

        Raises:
            InputError: values of another shape.
        """
        if values.ndim != len(lead) + 1 or values.shape[-1] != self.size:
            raise InputError(
                "values",
                expected=f"shape ({', '.join([*lead, str(self.size)])})",
                got=f"shape {values.shape}",
                fix="add or squeeze an axis",
            )
        variables = {}
        for variable, components in zip(self.variables, self.slices, strict=True):
            array = _unmask(values[..., components], variable)
            dims = (*lead, *variable.dims)
            about = {"units": variable.units, "long_name": variable.long_name}
            attributes = {key: text for key, text in about.items() if text}
            variables[variable.name] = (dims, array, attributes)
        labels: dict[str, Any] = {}
        for name, coord in self.coords.items():
            labels[name] = (coord.get("dims", [name]), np.asarray(coord["values"]), coord["attrs"])
        if coords is not None:
            labels |= coords
        return xr.Dataset(variables, labels)

    def own(self, data: xr.Dataset) -> xr.Dataset:
        """Return a dataset with the own names of trajectories and time, and with dates where times
        were dates.
        """
        if "time" in data.coords and "since" in data["time"].attrs:
            # rounded: 0.1 s is no whole number of nanoseconds in binary
            nanoseconds = (data["time"].values * 1e9).round().astype("timedelta64[ns]")
            dates = np.datetime64(data["time"].attrs["since"]) + nanoseconds
            data = data.assign_coords(time=(data["time"].dims, dates))
        if "trajectory" in data.dims:
            data = self._unstack_runs(data)
        return renamed(data, "time", self.time)

    def _unstack_runs(self, data: xr.Dataset) -> xr.Dataset:
        """Return dimension of trajectories by its own name, or as the grid of several that it was."""
        number = data.sizes["trajectory"]
        if not self.runs and number == 1:
            return data.squeeze("trajectory")
        if not self.runs:
            return data
        if len(self.runs) == 1:
            return renamed(data, "trajectory", self.runs[0])
        cells = 1
        for name in self.runs:
            if name not in data.coords or data[name].dims != ("trajectory",):
                return data
            cells *= len(np.unique(data[name]))
        grid = data.set_index(trajectory=list(self.runs))
        is_unique = grid.indexes["trajectory"].is_unique
        # of a selection of runs the grid has holes, which would be filled by NaN
        if not is_unique or cells != number:
            return data
        return grid.unstack("trajectory").transpose(*self.runs, ...)

    @validated
    def check_order(self, coords: Mapping[str, object]) -> None:
        """Raise InputError where one of these coordinates has other values than the layout's, or
        these in another order; digits that were rounded away do not count.
        """
        for dim in coords.keys() & self.coords.keys():
            wanted = np.asarray(self.coords[dim]["values"])
            values = np.asarray(coords[dim])
            # another size is found where variables are
            is_comparable = wanted.ndim == 1 and wanted.shape == values.shape
            if not is_comparable or _are_places(values, wanted):
                continue
            fix = f"interpolate: data.interp({dim}=...) at the places of the training"
            if _are_places(_sorted(values), _sorted(wanted)):
                fix = f"sort it: data.sortby({dim!r})"
            raise InputError(
                "data",
                expected=f"{dim} from {wanted[0]} to {wanted[-1]}",
                got=f"{values[0]} ... {values[-1]}",
                fix=fix,
            )

    def to_json(self) -> str:
        """Return the layout as text, for an attribute of a dataset."""
        return json.dumps(asdict(self))

    @classmethod
    @validated
    def from_json(cls, text: str) -> "Layout":
        """Return the layout from the text that `to_json` wrote.

        Raises:
            InputError: it did not.
        """
        try:
            return TypeAdapter(cls).validate_json(text)
        except ValueError as error:
            raise InputError(
                "text of the layout",
                expected="what to_json wrote",
                got=repr(text)[:60],
                fix="drop the attribute: romkit.data.describe writes it",
            ) from error


@validated
def layout_of(data: xr.Dataset) -> Layout:
    """Return the layout of a dataset in romkit's schema; one variable `state` over `component`
    where nothing else is said.

    Raises:
        InputError: there is no dimension `component`.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(n=4, transient=0.0).dataset(F=3.15, duration=0.1)
        >>> layout = romkit.data.layout_of(data)
        >>> layout.is_plain, layout.size
        (True, 4)
    """
    check_dims(data, AXIS)
    layout = _stored_layout(data)
    if layout is None:
        return unchecked(Layout.plain)(component_names(data))
    return layout


def _stored_layout(data: xr.Dataset) -> Layout | None:
    """Return the layout in the attributes, None where it is not that of these components."""
    text = data.attrs.get("layout")
    if not text:
        return None
    layout = parsed(text)
    if layout.size != data.sizes[AXIS]:  # some components were selected
        return None
    if AXIS in data.coords and reordered(component_names(data), layout.names):
        return None
    return layout


@functools.lru_cache(maxsize=4)
def parsed(text: str) -> Layout:
    """Parse a layout, cached since the names of large states are slow to build."""
    return Layout.from_json(text)


def reordered(names: Names, others: Names) -> bool:
    """Tell whether the names are the same in another order."""
    return names != others and sorted(names) == sorted(others)


def component_names(data: xr.Dataset | xr.DataArray) -> Names:
    """Return names of the components of data; x0, x1, ... where data have none."""
    if AXIS not in data.coords:
        return tuple(f"x{k}" for k in range(data.sizes[AXIS]))
    return tuple(map(str, data[AXIS].values))


def _are_places(values: Array, wanted: Array, *, rounded: float = 0.01) -> bool:
    """Tell whether coordinates (k,) agree; numbers may differ by a small part of their spacing.

    `rounded`: difference of coordinates, in their spacing, up to which they are places with
    fewer digits.
    """
    if tensors.alike(values, wanted):
        return True
    if values.dtype.kind not in "iuf" or wanted.dtype.kind not in "iuf":
        return False
    spacing = np.diff(np.sort(wanted))
    spacing = spacing[spacing > 0]
    if len(spacing) == 0:
        return False
    return bool(np.abs(values - wanted).max() < rounded * spacing.min())


def _sorted(values: Array) -> Array:
    """Return values in their order, or as they are where they have none."""
    try:
        return np.sort(values)
    except TypeError:
        return values


def renamed(data: xr.Dataset, before: str, after: str) -> xr.Dataset:
    """Return dimension by another name; a coordinate of that name along it becomes its own."""
    if before not in data.dims and before not in data.coords:
        return data
    if after not in data.variables:
        return data.rename({before: after})
    if after == before or data[after].dims != (before,):
        return data
    return data.swap_dims({before: after})


def _unmask(values: Array | Chunked, variable: Variable) -> Array | Chunked:
    """Return the components (..., k) of a variable as an array of its shape, NaN on masked cells."""
    values = values.astype(variable.dtype or values.dtype, copy=False)
    if variable.mask:
        # place of each cell among the components and one NaN behind them
        size = variable.size
        place = np.full(math.prod(variable.shape), size)
        place[variable.cells] = np.arange(size)
        missing = np.full_like(values[..., :1], np.nan)
        extended = np.concatenate([values, missing], axis=-1)
        values = extended[..., place]
    lead = values.shape[:-1]
    return values.reshape((*lead, *variable.shape))


def _variable(values: xr.DataArray, lead: Sequence[str]) -> Variable:
    dims = tuple(str(dim) for dim in values.dims if dim not in lead)
    variable = Variable(
        name=str(values.name),
        dims=dims,
        shape=tuple(values.sizes[dim] for dim in dims),
        units=unit_of(values),
        long_name=str(values.attrs.get("long_name", "")),
    )
    if values.dtype.kind == "f":
        variable = replace(variable, dtype=str(values.dtype))
    # cells of plain components are never land; nor has a single number any
    if dims and AXIS not in dims:
        variable = replace(variable, mask=_mask(values, dims))
    return variable


def _mask(values: xr.DataArray, dims: Sequence[str]) -> str:
    """Return cells that hold a value at some time of some run, as bits in base64; "" where all do."""
    lead = [dim for dim in values.dims if dim not in dims]
    is_known = values.notnull().any(lead).transpose(*dims).values
    if is_known.all():
        return ""
    bits = np.packbits(is_known).tobytes()
    return base64.b64encode(bits).decode()


def _coordinate(coord: xr.DataArray) -> dict[str, Any]:
    plain = {}
    for name, value in coord.attrs.items():
        if isinstance(value, str | int | float):
            plain[str(name)] = value
    return {"values": coord.values.tolist(), "attrs": plain, "dims": list(coord.dims)}


def _names(variable: Variable, coords: Mapping[str, Mapping[str, object]]) -> list[str]:
    if not variable.dims:
        return [variable.name]
    labels = [_labels(dim, coords) for dim in variable.dims]
    names = []
    indices = np.unravel_index(variable.cells, variable.shape)  # of each dimension
    for place in np.stack(indices, axis=-1).tolist():
        words = []
        for number, of_dim in zip(place, labels, strict=True):
            words.append(str(number) if of_dim is None else of_dim[number])
        names.append(f"{variable.name}[{', '.join(words)}]")
    return names


def _labels(dim: str, coords: Mapping[str, Mapping[str, Any]]) -> list[str] | None:
    """Return labels along a dimension, None where its coordinate is none of text, or has one twice."""
    coord = coords.get(dim)
    if coord is None or coord.get("dims", [dim]) != [dim]:
        return None
    values = list(coord["values"])
    is_text = all(isinstance(value, str) for value in values)
    if not is_text or len(set(values)) < len(values):
        return None
    return values
