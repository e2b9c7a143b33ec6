"""Layout: how variables with dimensions of their own, u(y, x) and v(y, x) say, lie on one axis, and
back.
"""

import base64
import functools
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import dask.array as da
import numpy as np
import xarray as xr
from pydantic import TypeAdapter

from romkit.core import tensors
from romkit.core.boundary import unchecked, validated
from romkit.core.errors import InputError
from romkit.data.context import check_dims, check_has

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
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    units: str = ""
    dtype: str = ""
    mask: str = ""
    long_name: str = ""

    @functools.cached_property
    def cells(self) -> np.ndarray:
        """Places of the components among the cells, in C order."""
        bits = np.frombuffer(base64.b64decode(self.mask), np.uint8)
        return (
            np.flatnonzero(np.unpackbits(bits)) if self.mask else np.arange(math.prod(self.shape))
        )

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
        >>> layout = Layout.of(data, ["u", "p"], ["time"])
        >>> layout.size, layout.names[-2:]
        (7, ('u[1, 2]', 'p'))
        >>> layout.gather(data, ["time"]).shape
        (5, 7)
    """

    variables: tuple[Variable, ...]
    coords: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    runs: tuple[str, ...] = ("trajectory",)
    time: str = "time"
    time_units: str = ""

    @classmethod
    @validated
    def of(cls, data: xr.Dataset, names: Sequence[str], lead: Sequence[str]) -> "Layout":
        """Layout of these variables, whose dimensions beside `lead` are the state's; cells that are
        always NaN are not.

        Raises:
            InputError: a variable is missing.
        """
        for name in names:
            check_has(data, name)
        variables = tuple(_variable(data[name], lead) for name in names)
        own = {dim for variable in variables for dim in variable.dims}
        coords = {
            str(name): _coordinate(c)
            for name, c in data.coords.items()
            if c.dims and own.issuperset(c.dims)
        }
        return cls(variables, coords)

    @classmethod
    @validated
    def plain(cls, names: Sequence[str]) -> "Layout":
        """Layout of one variable `state` over `component`."""
        return unchecked(cls)(
            (Variable("state", (AXIS,), (len(names),)),),
            {AXIS: {"values": list(names), "attrs": {}}},
        )

    @property
    def is_plain(self) -> bool:
        """Whether the state is one variable `state` over `component`."""
        return len(self.variables) == 1 and (self.variables[0].name, self.variables[0].dims) == (
            "state",
            (AXIS,),
        )

    @property
    def size(self) -> int:
        """n."""
        return sum(variable.size for variable in self.variables)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """(n,) a name for every component: that of a plain one, else u[3, 7] say."""
        if self.is_plain:
            known = self.coords.get(AXIS, {}).get("values", [f"x{k}" for k in range(self.size)])
            return tuple(map(str, known))
        return tuple(name for variable in self.variables for name in _names(variable))

    @property
    def units(self) -> tuple[str, ...]:
        """(n,) the unit of every component."""
        return tuple(
            unit for variable in self.variables for unit in [variable.units] * variable.size
        )

    @validated
    def gather(self, data: xr.Dataset, lead: Sequence[str]) -> np.ndarray | da.Array:
        """The variables of a dataset as one array (*lead, n), in chunks of dask where they are.

        Raises:
            InputError: a variable is missing, or has other dimensions or sizes, or coordinates in
                another order.
        """
        parts = []
        self.check_order({str(dim): data[dim].values for dim in data.dims if dim in data.coords})
        for variable in self.variables:
            check_has(data, variable.name)
            own = data[variable.name]
            if (
                set(own.dims) != {*lead, *variable.dims}
                or tuple(own.sizes[d] for d in variable.dims) != variable.shape
            ):
                expected = f"{variable.name} with dims {(*lead, *variable.dims)} of sizes {variable.shape} at the end"
                raise InputError(
                    "data", expected=expected, got=str(dict(own.sizes)), fix="rename or select dims"
                )
            values = own.transpose(*lead, *variable.dims).data
            flat = values.reshape(*values.shape[: len(lead)], math.prod(variable.shape))
            parts.append(flat[..., variable.cells] if variable.mask else flat)
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    @validated
    def scatter(
        self,
        values: da.Array | np.ndarray,
        lead: Sequence[str],
        coords: Mapping[str, object] | None = None,
    ) -> xr.Dataset:
        """An array (*lead, n), in memory or in chunks, as a dataset of the variables in their
        dimensions.

        Masked cells are NaN.

        Raises:
            InputError: values of another shape.
        """
        if values.ndim != len(lead) + 1 or values.shape[-1] != self.size:
            expected = f"shape ({', '.join([*lead, str(self.size)])})"
            raise InputError(
                "values",
                expected=expected,
                got=f"shape {values.shape}",
                fix="add or squeeze an axis",
            )
        ends, variables = np.cumsum([0, *(variable.size for variable in self.variables)]), {}
        for variable, (start, stop) in zip(self.variables, itertools.pairwise(ends), strict=True):
            piece = values[..., start:stop]
            whole = piece.astype(variable.dtype or piece.dtype, copy=False)
            if variable.mask:
                place = np.full(
                    math.prod(variable.shape), variable.size
                )  # of each cell in the piece and one NaN
                place[variable.cells] = np.arange(variable.size)
                whole = np.concatenate([whole, np.full_like(whole[..., :1], np.nan)], axis=-1)[
                    ..., place
                ]
            shape = (*piece.shape[:-1], *variable.shape)
            about = {
                key: text for key in ("units", "long_name") if (text := getattr(variable, key))
            }
            variables[variable.name] = ((*lead, *variable.dims), whole.reshape(shape), about)
        own = {
            name: (each.get("dims", [name]), np.asarray(each["values"]), each["attrs"])
            for name, each in self.coords.items()
        }
        return xr.Dataset(variables, {**own, **(coords or {})})

    def own(self, data: xr.Dataset) -> xr.Dataset:
        """A dataset with the own names of trajectories and time, and with dates where times were
        dates.
        """
        if since := data["time"].attrs.get("since") if "time" in data.coords else None:
            dates = np.datetime64(since) + (data["time"].values * 1e9).round().astype(
                "timedelta64[ns]"
            )
            data = data.assign_coords(time=(data["time"].dims, dates))
        if "trajectory" in data.dims:
            data = self._with_runs(data)
        return _renamed(data, "time", self.time)

    def _with_runs(self, data: xr.Dataset) -> xr.Dataset:
        """Dimension of trajectories by its own name, or as the grid of several that it was."""
        if not self.runs:
            return data.squeeze("trajectory") if data.sizes["trajectory"] == 1 else data
        if len(self.runs) == 1:
            return _renamed(data, "trajectory", self.runs[0])
        if not all(
            name in data.coords and data[name].dims == ("trajectory",) for name in self.runs
        ):
            return data
        grid = data.set_index(trajectory=list(self.runs))
        sizes = [len(np.unique(data[name])) for name in self.runs]
        whole = (
            grid.indexes["trajectory"].is_unique and math.prod(sizes) == data.sizes["trajectory"]
        )
        return grid.unstack("trajectory").transpose(*self.runs, ...) if whole else data

    @validated
    def check_order(self, coords: Mapping[str, object]) -> None:
        """Raise InputError where one of these coordinates has the values of the layout's in another
        order.
        """
        for dim in coords.keys() & self.coords.keys():
            own, given = np.asarray(self.coords[dim]["values"]), np.asarray(coords[dim])
            if own.ndim != 1 or own.shape != given.shape or tensors.alike(own, given):
                continue
            if tensors.alike(np.sort(own), np.sort(given)):
                got, fix = f"{given[0]} ... {given[-1]}", f"sort it: data.sortby({dim!r})"
                raise InputError(
                    "data", expected=f"{dim} from {own[0]} to {own[-1]}", got=got, fix=fix
                )

    def to_json(self) -> str:
        """The layout as text, for an attribute of a dataset."""
        return json.dumps(asdict(self))

    @classmethod
    @validated
    def from_json(cls, text: str) -> "Layout":
        """Layout from the text that `to_json` wrote.

        Raises:
            InputError: it did not.
        """
        try:
            return TypeAdapter(cls).validate_json(text)
        except ValueError as error:
            got, fix = repr(text)[:60], "drop the attribute: romkit.data.describe writes it"
            raise InputError(
                "text of the layout", expected="what to_json wrote", got=got, fix=fix
            ) from error


@validated
def layout_of(data: xr.Dataset) -> Layout:
    """The layout of a dataset in romkit's schema; one variable `state` over `component` where
    nothing else is said.

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
    if text := data.attrs.get("layout"):
        layout = _parsed(text)
        selected = layout.size != data.sizes[AXIS]
        if not selected and (
            AXIS not in data.coords or not _reordered(component_names(data), layout.names)
        ):
            return layout
    return Layout.plain(component_names(data))


@functools.lru_cache(maxsize=4)
def _parsed(text: str) -> Layout:
    """The layout, whose names need not be made anew for large states."""
    return Layout.from_json(text)


def _reordered(names: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether the names are the same in another order."""
    return names != others and sorted(names) == sorted(others)


def component_names(data: xr.Dataset | xr.DataArray) -> tuple[str, ...]:
    """Names of the components of data; x0, x1, ... where data have none."""
    given = data[AXIS].values if AXIS in data.coords else [f"x{k}" for k in range(data.sizes[AXIS])]
    return tuple(map(str, given))


@validated
def fields(data: xr.Dataset) -> xr.Dataset:
    """A dataset, forecast or rollout as the data came: u(run, t, y, x) in its own dimensions, NaN
    on masked cells.

    Of variables over `component` other than `state`, names get the variable in front: `rom_u`,
    `velocity_v`. The result of a table becomes one by `fields(run)[["u", "v"]].to_dataframe()`.

    Example:
        >>> import numpy as np
        >>> import xarray as xr
        >>> import romkit
        >>> u = xr.DataArray(np.zeros((3, 20, 4, 8)), dims=("trajectory", "time", "y", "x"), name="u")
        >>> data = romkit.data.describe(u.assign_coords(time=np.arange(20)))
        trajectories  3 of up to 20 samples, n = 32
        state         u (y 4, x 8), float64
        context       none
        time          0 ... 19, every 1
        velocity      none; estimated where it is needed
        >>> dict(data.state.sizes)
        {'trajectory': 3, 'time': 20, 'component': 32}
        >>> dict(romkit.data.fields(data).u.sizes)
        {'trajectory': 3, 'time': 20, 'y': 4, 'x': 8}
    """
    layout = layout_of(data) if AXIS in data.dims else Layout.plain(())
    return data if layout.is_plain else layout.own(unstacked(data))


def unstacked(data: xr.Dataset) -> xr.Dataset:
    """A dataset whose variables have the dimensions of space that the data came in, behind
    trajectory and time.
    """
    if AXIS not in data.dims and "layout" in data.attrs:
        layout = _parsed(data.attrs["layout"])
        runs = [name for name in layout.runs if name in data.dims]
        data = data.stack(trajectory=runs, create_index=False) if runs else data
        return _renamed(data, layout.time, "time")
    layout, found = layout_of(data), {}
    if layout.is_plain:
        return data
    coords = {name: coord.variable for name, coord in data.coords.items() if AXIS not in coord.dims}
    for name, values in data.data_vars.items():
        if values.dims[-1:] == (AXIS,):
            parts = layout.scatter(values.data, values.dims[:-1])
            if name in ("velocity", "acceleration"):
                for part in parts.data_vars.values():
                    part.attrs.clear()  # unit and name of the state
            prefix = "" if name == "state" else f"{name}_"
            found |= {f"{prefix}{own}": part.variable for own, part in parts.data_vars.items()}
            coords |= {own: coord.variable for own, coord in parts.coords.items()}
        else:
            found[name] = values.variable
    return xr.Dataset(found, coords, data.attrs)


def _renamed(data: xr.Dataset, old: str, new: str) -> xr.Dataset:
    """Dimension by another name; a coordinate of that name along it becomes its own."""
    if old not in data.dims and old not in data.coords:
        return data
    if new in data.variables:
        return data.swap_dims({old: new}) if new != old and data[new].dims == (old,) else data
    return data.rename({old: new})


def _variable(values: xr.DataArray, lead: Sequence[str]) -> Variable:
    dims = tuple(str(dim) for dim in values.dims if dim not in lead)
    units, dtype = (
        str(values.attrs.get("units", "")),
        str(values.dtype) if values.dtype.kind == "f" else "",
    )
    mask, long_name = "", str(values.attrs.get("long_name", ""))
    if dims and AXIS not in dims:
        some = (
            values.notnull()
            .any([dim for dim in values.dims if dim in lead])
            .transpose(*dims)
            .values
        )
        mask = "" if some.all() else base64.b64encode(np.packbits(some).tobytes()).decode()
    return Variable(
        str(values.name),
        dims,
        tuple(values.sizes[dim] for dim in dims),
        units,
        dtype,
        mask,
        long_name,
    )


def _coordinate(coord: xr.DataArray) -> dict[str, object]:
    plain = {
        str(name): value
        for name, value in coord.attrs.items()
        if isinstance(value, str | int | float)
    }
    return {"values": coord.values.tolist(), "attrs": plain, "dims": list(coord.dims)}


def _names(variable: Variable) -> list[str]:
    if not variable.dims:
        return [variable.name]
    places = np.stack(np.unravel_index(variable.cells, variable.shape), axis=-1).tolist()
    return [f"{variable.name}[{', '.join(map(str, place))}]" for place in places]
