"""Commands of actuators: constant, functions of time, or samples that are held."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from romkit.core import tensors
from romkit.core.clock import evaluate_time
from romkit.core.errors import InputError
from romkit.core.types import Array

Signal = Callable[[Array], Array]
"""u (S, nu) at times (S,)."""


@dataclass(frozen=True)
class Constant:
    """u (nu,) at all times."""

    values: Array

    def __call__(self, times: Array) -> Array:
        return np.broadcast_to(self.values, (len(times), len(self.values)))


@dataclass(frozen=True)
class Held:
    """Samples u (T, nu) at multiples of an interval, each held until the next one comes."""

    samples: Array
    interval: float

    def __call__(self, times: Array) -> Array:
        # 0.3 / 0.1 is below 3
        passed = np.floor(times / self.interval + 1e-6).astype(int)
        return self.samples[passed.clip(0, len(self.samples) - 1)]


@dataclass(frozen=True)
class Functions:
    """A function of time, or a number, for each actuator."""

    entries: tuple[float | Callable[[float], float], ...]

    def __call__(self, times: Array) -> Array:
        columns = [self._column(entry, times) for entry in self.entries]
        return np.stack(columns, axis=-1)

    def _column(self, entry: float | Callable[[float], float], times: Array) -> Array:
        if not callable(entry):
            return np.full(len(times), entry)
        column = np.zeros(len(times))
        for k, t in enumerate(times):
            value = np.asarray(evaluate_time(entry, t, "control"), dtype=float)
            if value.size != 1:
                raise InputError(
                    "control",
                    expected="functions of one number",
                    got=f"{value.size} numbers",
                    fix="give a function for each actuator",
                )
            column[k] = value.item()
        return column


class Commands(NamedTuple):
    """Commands at contexts: a signal, in which parameters of the context replace some columns.

    Attributes:
        signal: u (S, nu) at times (S,).
        places: (k,) controls that the context sets.
        values: (N, k) of them.
    """

    signal: Signal
    places: list[int]
    values: Array

    @property
    def constant(self) -> bool:
        """Whether they are the same at all times."""
        return isinstance(self.signal, Constant)

    def at(self, times: Array) -> Array:
        """u (N, S, nu) at times (S,)."""
        common = self.signal(times)
        controls = np.repeat(common[None], len(self.values), axis=0)
        controls[:, :, self.places] = self.values[:, None]
        return controls


def signal_of(
    control: Callable[[float], object] | Iterable[object], number: int, interval: float
) -> Signal:
    """Return the signal that a user gave: a list of numbers or functions, one for each actuator, or
    rows of samples.

    Args:
        control: as given.
        number: of actuators.
        interval: between samples.

    Raises:
        InputError: another number of entries, or what is neither number nor function.
    """
    if callable(control):
        control = [control]
    entries = list(control)
    if any(callable(entry) for entry in entries):
        _check_number(len(entries), number)
        return Functions(
            tuple(
                entry if callable(entry) else float(tensors.finite("control", entry))
                for entry in entries
            )
        )
    values = tensors.finite("control", control).double().numpy()
    if values.ndim not in (1, 2):
        raise InputError(
            "control",
            expected="one number, function or column for each actuator",
            got=f"{values.ndim} axes",
            fix="give a list of numbers or functions, or rows of samples (times, actuators)",
        )
    _check_number(values.shape[-1], number)
    if values.ndim == 1:
        return Constant(values)
    return Held(values, interval)


def _check_number(count: int, number: int) -> None:
    if count != number:
        raise InputError(
            "control",
            expected=f"{number} entries, as there are actuators",
            got=count,
            fix="give one for each, in their order in the file",
        )
