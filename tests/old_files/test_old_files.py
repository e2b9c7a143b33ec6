"""Files that earlier versions wrote: they are read as they were, and refused where they are damaged."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from romkit.errors import FileError

import romkit
from romkit.bases import Basis
from romkit.projections import Projection
from romkit.systems import Lorenz96

HERE = Path(__file__).parent
FILES = HERE / "files"
NUMBERS = json.loads((HERE / "numbers.json").read_text())

TOLERANCES = {torch.float64: 1e-6, torch.float32: 1e-4}
"""Largest difference relative to the largest number beside it; of data that were computed in this precision."""


def read(path: Path) -> object:
    """Content of a file or folder, by the package's own loaders."""
    if path.suffix == ".nc":
        return romkit.data.open_dataset(path)
    return {"ensemble": romkit.Ensemble.load, "checkpoint": resumed}.get(path.name, romkit.load)(path)


def resumed(folder: Path) -> Projection:
    """The projection of a run of two epochs that is in this checkpoint folder.

    Its data are ones and minus ones, whose scaling is the same to the last bit on every processor.
    """
    signs = np.array([[(-1.0) ** (i * (i + k) // 2) for k in range(4)] for i in range(16)]).reshape(4, 4, 4)
    data = romkit.data.from_arrays(signs, 1.0 * np.arange(4), context={"a": [1.0, 2.0, 3.0, 4.0]})
    settings = {"latent_dim": 2, "epochs": 2, "batch_size": 4, "verbose": False, "engine": "torch"}
    return romkit.fit("cae", data.assign(velocity=data.state), checkpoint=folder, **settings)


def wave(n: int) -> torch.Tensor:
    """(n,) a fixed state of order one, none of whose components equal each other."""
    k = torch.arange(n, dtype=torch.float64)
    return torch.sin(1.7 * k) + 0.3 * torch.cos(0.9 * k)


def contents(found: object) -> tuple[object, ...]:
    """Arrays that show a file's content: states, singular values, ρ and φ of a state, or the rate of a law."""
    if isinstance(found, xr.Dataset):
        return (found["state" if "state" in found else "latent"],)
    if isinstance(found, romkit.Ensemble):
        data = Lorenz96(n=8, transient=2.0).dataset(F=[3.14, 3.16, 3.18], duration=0.5)
        run = found.follow(data.isel(time=slice(5))).isel(time=-1)
        return run.state, run.lower
    if isinstance(found, Basis):
        return found.singular_values, found.energy, found.decode(found.encode(3.0 + wave(found.size)))
    if isinstance(found, Projection):
        found, n = found.double(), len(found.frame.state_names)
        lead = () if found.seeds is None else (1, 1)
        P = found(torch.full((*lead, len(found.frame.context_names)), 3.15, dtype=torch.float64))
        z = P.encode((3.0 if n == 8 else 0.0) + wave(n).expand(*lead, -1))
        return z, P.decode(z)
    stacked = hasattr(found, "coefficients") and found.coefficients.ndim > 2
    kind = found.coefficients.dtype if hasattr(found, "coefficients") else torch.float32
    parameters = torch.full((len((*found.context_names, *found.control_names)),), 3.15, dtype=kind)
    return (found.right_hand_side(parameters)(torch.full((2, 1, 2) if stacked else (2,), 0.5, dtype=kind)),)


def some(values: np.ndarray, room: int) -> np.ndarray:
    """A few entries, and the root mean square of all, so that no entry can change unseen."""
    if len(values) <= room:
        return values
    places = np.linspace(0, len(values) - 1, room - 1).round().astype(int) if room > 1 else []
    return np.append(values[places], np.sqrt(np.square(values).mean()))


def assert_same(found: Sequence[object], stored: Sequence[Sequence[float]]) -> None:
    for array, numbers in zip(found, stored, strict=True):
        tolerance = TOLERANCES.get(getattr(array, "dtype", None), 1e-6)
        values = np.asarray(array.detach() if torch.is_tensor(array) else array, dtype=np.float64).reshape(-1)
        shown = some(values, 8 // len(found))
        np.testing.assert_allclose(shown, numbers, rtol=0, atol=tolerance * max(np.abs(numbers).max(), 1e-12))


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.filterwarnings("ignore")
def test_a_file_of_before_is_read_as_it_was(name, tmp_path):
    path = FILES / name  # loaders may write beside
    copy = (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / name)
    assert_same(contents(read(Path(copy))), NUMBERS[name])


def test_every_file_has_numbers():
    assert {path.name for path in FILES.iterdir()} == set(NUMBERS)


@pytest.mark.parametrize(
    "file", sorted(path for path in FILES.rglob("*") if path.is_file()), ids=lambda path: path.name
)
@pytest.mark.parametrize("damage", ["a flipped bit", "truncated"])
def test_damaged_files_are_refused(file, damage, tmp_path):
    within = file.relative_to(FILES)
    top = tmp_path / within.parts[0]
    (shutil.copytree if (FILES / top.name).is_dir() else shutil.copy)(FILES / top.name, top)
    content = bytearray(file.read_bytes())
    content[2 * len(content) // 3] ^= 16
    (tmp_path / within).write_bytes(content if damage == "a flipped bit" else file.read_bytes()[: len(content) // 2])
    with pytest.raises(FileError):
        read(top)
