"""Folders of learned models: files of the models and data, and a list of numbers with checksums."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from romkit.core.errors import FileError, InputError
from romkit.core.files import LEARNED, atomic_folder, plain, read_list, reason, write_list
from romkit.core.types import Array
from romkit.core.version import VERSION
from romkit.data import open_dataset, save_dataset
from romkit.laws import LAWS, Estimator
from romkit.learning.errors import Errors, VariableErrors
from romkit.learning.interpolation import InterpolatedRuns
from romkit.learning.judged import Judged
from romkit.projections import Projection
from romkit.verbs.calibration import Calibration
from romkit.verbs.storage import load as load_model
from romkit.verbs.storage import save as save_model

PROJECTION, LAW, HIDDEN = "projection.safetensors", "law.safetensors", "hidden.safetensors"

CALIBRATION = "calibration_of_law.nc"

DATA = ("train", "test", "run")
"""Attributes that are datasets, each in a file of its own."""

PLAIN = ("seconds", "held_out", "period", "inside")
"""Attributes that are numbers or text."""

FIX = "save it again by model.save(folder), or restore the folder from a copy"


def write(learned: Judged, folder: Path) -> None:
    """Write a learned model into a folder, which is made; an earlier one is replaced once the new one
    is complete.
    """
    content = _numbers(learned)  # what cannot be written is refused before a folder is made
    with atomic_folder(folder) as staged:
        save_model(learned.projection, staged / PROJECTION)
        save_model(learned.law, staged / LAW)
        if learned.hidden is not None:
            save_model(learned.hidden, staged / HIDDEN)
        for name in DATA:
            save_dataset(getattr(learned, name), staged / f"{name}.nc")
        if learned.calibration is not None:
            save_dataset(learned.calibration.to_dataset(), staged / CALIBRATION)
        if learned.interpolated is not None:
            learned.interpolated.save(staged)
        content["has_intervals"] = learned.calibration is not None
        content["has_hidden_context"] = learned.hidden is not None
        content["is_interpolated"] = learned.interpolated is not None
        write_list(staged / LEARNED, content)


def attributes(folder: Path) -> dict[str, object]:
    """Attributes of the learned model that `write` put into a folder.

    Raises:
        FileError: files that are missing, changed, or of another save.
    """
    content = read_list(folder / LEARNED)
    projection = load_model(folder / PROJECTION)
    values: dict[str, object] = {"projection": projection, "law": load_model(folder / LAW)}
    for name in DATA:
        values[name] = open_dataset(folder / f"{name}.nc")
    values["calibration"] = None
    if content["has_intervals"]:
        values["calibration"] = Calibration.from_dataset(open_dataset(folder / CALIBRATION))
    if content["has_hidden_context"]:
        values["hidden"] = load_model(folder / HIDDEN)
    if content["is_interpolated"]:
        assert isinstance(projection, Projection)
        values["interpolated"] = InterpolatedRuns.load(folder, projection)
    try:
        return values | _decoded(content)
    except (KeyError, TypeError, ValueError) as error:
        problem = f"is of another version of romkit ({reason(error)})"
        raise FileError(folder / LEARNED, problem=problem, fix=FIX) from error


def _numbers(learned: Judged) -> dict[str, object]:
    """Attributes that are no files."""
    content: dict[str, Any] = {"romkit": VERSION, "settings": _settings(learned.settings)}
    for name in PLAIN:
        content[name] = getattr(learned, name)
    content["errors"] = _lists(learned.errors)
    content["errors_of_seen"] = _lists(learned.errors_of_seen)
    content["errors_of_variables"] = {}
    for name, errors in learned.errors_of_variables.items():
        of_variable = {"units": errors.units, "absolute": _lists(errors.absolute)}
        of_variable["relative"] = _lists(errors.relative)
        content["errors_of_variables"][name] = of_variable
    return content


def _decoded(content: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes from what `_numbers` made of them."""
    values = {name: content[name] for name in PLAIN}
    chosen = content["settings"]
    values["settings"] = LAWS[chosen["law"]](**chosen["values"])
    values["errors"] = _arrays(content["errors"])
    values["errors_of_seen"] = _arrays(content["errors_of_seen"])
    values["errors_of_variables"] = {}
    for name, errors in content["errors_of_variables"].items():
        of_variable = VariableErrors(
            errors["units"], _arrays(errors["absolute"]), _arrays(errors["relative"])
        )
        values["errors_of_variables"][name] = of_variable
    return values


def _settings(estimator: Estimator) -> dict[str, object]:
    """Return name and settings of a law.

    Raises:
        InputError: a law that is not one of romkit's, which a file cannot name.
    """
    names = {kind: name for name, kind in LAWS.items()}
    if type(estimator) not in names:
        raise InputError(
            "kinds",
            expected=f"one of {', '.join(LAWS)}, which a file can name",
            got=type(estimator).__name__,
            fix="export the model, or learn with one of these",
        )
    law = names[type(estimator)]
    values = {field.name: getattr(estimator, field.name) for field in dataclasses.fields(estimator)}
    # a library of terms of its own has no place in text
    return {"law": law, "values": plain("settings", values)}


def _lists(errors: Errors) -> dict[str, list[float]]:
    return {name: np.asarray(values).tolist() for name, values in errors.items()}


def _arrays(errors: Mapping[str, list[float]]) -> dict[str, Array]:
    return {name: np.array(values, dtype=float) for name, values in errors.items()}
