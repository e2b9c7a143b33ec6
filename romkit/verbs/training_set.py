"""The data of a fit: checked, with velocities, and in the coordinates that the maps see."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr

from romkit.bases import Basis, check_size
from romkit.bases import basis as make_basis
from romkit.core import checks, runtime
from romkit.core.errors import DataWarning, InputError, warn
from romkit.core.memory import refuse_too_large
from romkit.data import check_dataset, check_states, context_names, snapshots
from romkit.data.context import is_declared
from romkit.data.velocity import needing_velocity
from romkit.projections import Frame, Projection, Shifts, Sliced
from romkit.projections.wave import Wave
from romkit.systems import System, system_of
from romkit.training.watch import Watch
from romkit.verbs.presets import SIZES


def checked_data(kind: type[Projection], data: xr.Dataset, basis: int | Basis | None) -> xr.Dataset:
    """Return data that a method can be fitted to, in memory unless a basis reads them chunk by
    chunk.
    """
    if basis is None:
        data = _load_chunks(data)
    data = _add_velocities(kind, data, basis)
    _warn_undeclared_context(data)
    return data


@dataclass(frozen=True)
class TrainingSet:
    """Data in the coordinates that the maps see.

    Attributes:
        full: the data as they were given, less what is held out.
        data, held_out: in coordinates of the basis or of aligned waves, with velocities; in those of
            `full` without either.
        frame: of `data`.
        basis, wave: in front of the method, None without.
        system: that the data name, or that was given.
    """

    full: xr.Dataset
    data: xr.Dataset
    held_out: xr.Dataset | None
    frame: Frame
    basis: Basis | None
    wave: Wave | None
    system: System | None

    @classmethod
    def build(
        cls,
        data: xr.Dataset,
        watch: Watch,
        basis: int | Basis | None,
        symmetry: str | Shifts | None,
        system: System | None,
    ) -> "TrainingSet":
        """Return the training set of checked data with velocities."""
        full, held_out = watch.divided(data)
        if system is None:
            system = system_of(full)
        wave = None
        if symmetry is not None:
            wave = _wave(symmetry, full, basis, system)
        basis = _basis(basis, full, system)
        front = wave if basis is None else basis
        coordinates = _projected(full, front)
        assert coordinates is not None  # of data there are
        return cls(
            full,
            coordinates,
            _projected(held_out, front),
            Frame.from_dataset(coordinates),
            basis,
            wave,
            system,
        )

    @property
    def time_unit(self) -> float:
        """Unit of time in which losses count velocities: that of the paper's systems, else the time in
        which the state moves by its deviation (root mean squares), so that both errors are of one size.
        """
        in_full_space = getattr(self.system, "full", self.system)  # behind a basis
        names = {self.frame.system, getattr(in_full_space, "name", "")}
        if names & SIZES.keys():
            return 1.0
        velocity = self.data["velocity"].transpose(..., "component").astype(np.float64)
        speed = velocity / self.frame.exact["state_scale"].numpy()
        square = float((speed**2).mean())
        if square == 0:
            return 1.0
        return square**-0.5

    def lift_models(self, models: Sequence[Projection]) -> list[Projection]:
        """Return the models of coordinates, as models of the states that were given."""
        if self.basis is not None:
            front = Frame.from_dataset(self.full, self.basis, self.frame)
            return [raise_precision(model.replace_frame(front)) for model in models]
        if self.wave is not None:
            waves = [Sliced.build(model, self.wave, self.full) for model in models]
            return [raise_precision(model) for model in waves]
        return list(models)


def _projected(data: xr.Dataset | None, front: Basis | Wave | None) -> xr.Dataset | None:
    """Return coordinates of the data in the basis, or of aligned waves, with velocities; the data
    as they are without.
    """
    if data is None or front is None:
        return data
    coordinates = runtime.computed("coordinates", front.project(data))[0]
    if "velocity" in coordinates:
        return coordinates
    return check_dataset(needing_velocity(coordinates))


def _wave(symmetry: str | Shifts, data: xr.Dataset, basis: object, system: System | None) -> Wave:
    """Return coordinates of the waves in the data.

    Raises:
        InputError: a system without the symmetry, or data without waves of one number.
    """
    fix = "leave the basis out: the coordinates of a wave are its harmonics"
    checks.absent("beside symmetry", fix, basis=basis)
    frame = Frame.from_dataset(data)
    if system is not None:
        return _symmetric(symmetry, data, system).wave(data, frame)
    if symmetry != "shift":
        assert isinstance(symmetry, Shifts)  # as words are checked
        return symmetry.wave(data, frame)
    if frame.fields.is_plain:
        raise InputError(
            "symmetry",
            expected="a system, or variables over the ring",
            got="a state of unknown fields",
            fix="pass system=..., or symmetry=Shifts(variables=2) for two fields",
        )
    return Shifts().wave(data, frame)


def _symmetric(
    symmetry: str | Shifts, data: xr.Dataset, system: System, *, commutes: float = 1e-9
) -> Shifts:
    """Return shifts that a system declares, or that were given, which its field commutes with.

    `commutes`: largest relative difference of f(g x) and g f(x) that counts as rounding.
    """
    shifts = system.symmetry if symmetry == "shift" else symmetry
    expected = "a system whose field commutes with shifts"
    fix = "leave symmetry out, or declare it: symmetry = Shifts() of the system"
    if shifts is None:
        raise InputError(
            "symmetry", expected=expected, got=f"{system.name}, which declares none", fix=fix
        )
    if system.order != 1:
        raise InputError(
            "symmetry", expected=expected, got=f"{system.name}, which is of second order", fix=fix
        )
    # some snapshots are enough, and every one costs two evaluations of the field
    every = max(1, data.sizes["time"] // 4)
    sample = snapshots(data, every=every)
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(sample.state.shape, generator=draw, dtype=torch.float64)
    # waves that stand still have no rate to compare with
    size = 0.1 * sample.state.std()
    beside = sample.state + size * noise
    assert isinstance(shifts, Shifts)
    error = system.commutator(shifts, beside, sample.context)
    if error > commutes:
        raise InputError(
            "symmetry",
            expected=expected,
            got=f"{system.name}, whose field breaks it by {error:.1e}",
            fix=fix,
        )
    return shifts


def _load_chunks(data: xr.Dataset, *, copies: int = 5) -> xr.Dataset:
    """Return the data, which are read if they are in chunks of dask.

    `copies`: memory that training takes, in sizes of states and velocities in float64.

    Raises:
        InputError: they are too large.
    """
    size = 0
    for variable in data.data_vars.values():
        if variable.chunks:
            size += 8 * variable.size
    fix = (
        "add basis=64, say, which reads chunk by chunk, or select some: "
        "data.isel(time=slice(None, None, 10))"
    )
    refuse_too_large("data", size, multiple=copies, fix=fix)
    return runtime.computed("data", data)[0]


def _add_velocities(
    kind: type[Projection], data: xr.Dataset, basis: int | Basis | None
) -> xr.Dataset:
    """Return the data, checked, with velocities, unless a basis gives coordinates to differentiate;
    untrained, with zeros.
    """
    if kind.trained and basis is not None and "velocity" not in data:
        return check_states(data)
    if kind.trained:
        return check_dataset(needing_velocity(data))
    return data.assign(velocity=xr.zeros_like(check_states(data)["state"]))


def _warn_undeclared_context(data: xr.Dataset) -> None:
    """Warn where data do not declare their context."""
    names = context_names(data)
    if names and not is_declared(data):
        text = f"the context is taken to be {', '.join(names)}"
        kind = "every coordinate of numbers along the trajectories"
        fix = "declare it: romkit.data.describe(data, context=[...])"
        warn(f"{text}, {kind}; {fix}", DataWarning)


def _basis(basis: int | Basis | None, data: xr.Dataset, system: System | None) -> Basis | None:
    """Return the basis in front: as it is, or of so many modes of the data in the metric of their
    system.
    """
    if basis is None:
        return None
    if isinstance(basis, Basis):
        check_size(basis, data)
        return basis
    rank = checks.check_minimum("basis", basis, 1)
    weight = None
    if system is not None:
        weight = system.weight
    return make_basis(data, rank, weight)


def raise_precision(model: Projection) -> Projection:
    """Return the model in float64 if it is least squares alone, which keeps all digits of the data."""
    return model if model.trained else model.double()
