"""Files that are damaged, forged, or in places that vanish: refused soon, and nothing that was
computed is lost.
"""

import json
import resource
import shutil
from itertools import product

import pytest
import safetensors.torch
import torch

import romkit
from romkit.core import files as sealed
from romkit.core.errors import FileError
from romkit.data import open_dataset, save_dataset
from romkit.systems import system_of
from romkit.training.checkpoint import Checkpoint, Snapshot
from romkit.training.optimizers import State
from romkit.training.schedules import Plateaus
from romkit.training.watch import Best
from tests.refusals import refused
from tests.robustness.test_faults import data, model

SETTINGS = {"layers": (2, 4), "batch_size": 10, "engine": "torch"}


# -- checkpoints ---------------------------------------------------------------------------------------------------


def snapshot(seeds=2, parameters=5):
    theta = torch.linspace(0, 1, seeds * parameters).reshape(seeds, parameters)
    state = State(
        theta, (theta + 1, theta + 2), torch.tensor(7.0), torch.ones(seeds, 1, dtype=torch.bool)
    )
    return Snapshot(
        state, Plateaus.start(theta), torch.full((3, seeds), torch.inf), Best.start(theta, True)
    )


@pytest.mark.parametrize(
    "other",
    [
        snapshot(3),
        snapshot(2, 6),
        snapshot()._replace(state=State(*snapshot().state[:1], (), *snapshot().state[2:])),
    ],
)
def test_a_checkpoint_of_other_shapes_or_parts_is_refused(tmp_path, other):
    checkpoint = Checkpoint(tmp_path / "a.safetensors", {"run": 1})
    checkpoint.save(other)
    with pytest.raises(FileError, match=r"does not fit this run .*delete it to start again"):
        checkpoint.load(snapshot())


def test_a_forged_checkpoint_is_refused(tmp_path):
    checkpoint = Checkpoint(tmp_path / "a.safetensors", {"run": 1})
    names = ("losses", "best.loss", "plateau.factor", "theta", "moment.0", "alive")
    for name, wrong in product(names, ("removed", "transposed", "another precision")):
        checkpoint.save(snapshot())
        like = sealed.read(checkpoint.path)[1]
        forge(checkpoint.path, {}, {name: WRONG[wrong](like[name])})
        with pytest.raises(FileError, match="delete it to start again"):
            checkpoint.load(snapshot())


def test_a_checkpoint_that_cannot_be_written_is_refused_before_training(tmp_path):
    (tmp_path / "a").write_text("")
    for folder in ("/proc/nowhere", tmp_path / "a"):
        with pytest.raises(FileError, match="cannot be written to") as caught:
            romkit.fit("cae", data(), epochs=10**6, checkpoint=folder, **SETTINGS)
        assert str(caught.value).isprintable()


def test_a_checkpoint_folder_that_vanishes_does_not_cost_the_model(tmp_path, monkeypatch):
    write, folder = sealed.write, tmp_path / "a"

    def vanish(*given):
        shutil.rmtree(folder, ignore_errors=True)
        return write(*given)

    monkeypatch.setattr(sealed, "write", vanish)
    with pytest.warns(
        RuntimeWarning, match="training goes on without checkpoints: .*folder does not exist"
    ):
        found = romkit.fit("cae", data(), epochs=3, checkpoint=folder, **SETTINGS)
    whole = romkit.fit("cae", data(), epochs=3, **SETTINGS)
    assert all(
        torch.equal(a, b) for a, b in zip(found.parameters(), whole.parameters(), strict=True)
    )


# -- forged models -------------------------------------------------------------------------------------------------


def forge(path, header_changes, tensor_changes):
    """The file with other contents, its checksum made to fit; None leaves an entry out."""
    with safetensors.safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["romkit"]) | header_changes
        tensors = {name: file.get_tensor(name) for name in file.keys()} | tensor_changes  # noqa: SIM118
    header.pop("sha256", None)
    header = {key: value for key, value in header.items() if value is not REMOVED}
    tensors = {key: value.contiguous() for key, value in tensors.items() if value is not REMOVED}
    header["sha256"] = sealed._sha256(header, tensors)
    path.write_bytes(safetensors.torch.save(tensors, {"romkit": json.dumps(header)}))


REMOVED = object()
WRONG = {
    "NaN": lambda x: torch.full_like(x, torch.nan),
    "infinite": lambda x: torch.full_like(x, torch.inf),
    "complex": lambda x: x.to(torch.complex64),
    "integers": lambda x: x.int(),
    "another precision": lambda x: x.double(),
    "transposed": lambda x: torch.cat([x.reshape(1, -1)] * 2),
    "empty": lambda x: x[:0],
    "removed": lambda x: REMOVED,
}
HEADERS = [
    *({"report": report} for report in (None, "a", 3, [], {"seeds": []}, {"seeds": [1]}, {"recipe": {}, "seeds": {}})),
    *({"seeds": seeds} for seeds in (0, -1, True, 1.5, "a", [1], 10**8, 10**18, 3)),
    *({"method": method} for method in (None, 3, ["ncae"], {}, "nobody", "cae", "pod", "\x1b[2J", "a" * 10**6)),
    *({"config": config} for config in (None, 3, [], {}, {"layers": [2, 10**9, 4], "embedding": [1, 2, 2]})),
    *({"config": {"layers": layers, "embedding": [1, 2, 2]}} for layers in ([10**9] * 3, [0, 4], [-2, 4], ["a", 4], "ab")),
    *({"frame": wrong} for wrong in (None, 3, [], {}, {"system": 3}, "a")),
    *({"column_major": columns} for columns in (None, 3, ["nothing"], [3], "ab")),
    *({name: REMOVED} for name in ("method", "config", "frame", "seeds", "report", "column_major", "format")),
    *({"format": version} for version in (1, 10**9, "2", None, [])),
    {"report": {"a\x1b[31m": 1}}, {"report": {"a": "\x07"}}, {"law": "sindy"}, {"law": ["sindy"]}, {"law": None},
]  # fmt: skip


def test_more_than_100_forged_models_are_refused_at_once_and_cost_nothing(tmp_path):
    path = romkit.save(model(), tmp_path / "a.safetensors")
    content, tensors = path.read_bytes(), sealed.read(path)[1]
    forgeries = [
        ({}, {name: change(tensors[name])})
        for name, (kind, change) in product(sorted(tensors)[::3], WRONG.items())
        if not (
            name.startswith("frame.exact.") and kind in ("another precision", "removed")
        )  # or files of before
    ]
    forgeries += [(header, {}) for header in HEADERS]
    scales = (f"frame.{name}" for name in ("state_scale", "state_std", "context_scale"))
    forgeries += [
        ({}, {name: torch.full_like(tensors[name], number)})
        for name, number in product(scales, (0.0, -1.0))
    ]
    assert len(forgeries) > 100
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for header, changes in forgeries:
        path.write_bytes(content)
        forge(path, header, changes)
        with pytest.raises(FileError) as caught:
            romkit.load(path)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 1000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_an_unknown_dynamics_in_a_report_is_refused_where_it_is_followed(tmp_path):
    path = romkit.save(model(), tmp_path / "a.safetensors")
    for recipe in ({"rollouts": {"dynamics": "magic"}}, {"rollouts": "galerkn"}, {"phase": [1]}):
        forge(path, {"report": {"recipe": recipe}}, {})
        refused(
            "dynamics of the training: expected one of", romkit.follow, romkit.load(path), data()
        )


@pytest.mark.parametrize("bomb", ["[" * 10**6 + "]" * 10**6, '{"a":' * 10**5 + "1" + "}" * 10**5])
def test_nested_bombs_are_refused(tmp_path, bomb):
    path = tmp_path / "a.safetensors"
    header = '{"format": 2, "sha256": "", "report": ' + bomb + "}"
    path.write_bytes(safetensors.torch.save({"a": torch.ones(2)}, {"romkit": header}))
    with pytest.raises(FileError, match="no romkit header, or a damaged one"):
        romkit.load(path)
    forged = data().assign_attrs(parameters=bomb)
    refused("parameters", system_of, forged)


# -- places --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/proc/a.nc", "/proc/self/a.nc", "/dev/null/a.nc", "/", "~nobody-here/a.nc"]
)
def test_places_that_cannot_be_written(path):
    for save, thing in ((save_dataset, data()), (romkit.save, model())):
        with pytest.raises(FileError) as caught:
            save(thing, path)
        assert str(caught.value).isprintable()
    with pytest.raises(FileError):
        open_dataset(path)
    with pytest.raises(FileError):
        romkit.load(path + "x")
