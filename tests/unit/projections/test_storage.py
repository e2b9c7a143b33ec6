"""`romkit.save` and `load` of projections: the same projection comes back, or an error."""

import copy
import json
import multiprocessing
import time

import numpy as np
import pytest
import safetensors.torch
import torch

import romkit
from romkit import load, save
from romkit.core import files
from romkit.core.errors import FileError, InputError
from romkit.projections import (
    CAE,
    METHODS,
    Frame,
    NcAE,
    Projection,
    method_named,
    stack,
    storage,
    unstack,
)
from romkit.verbs.presets import sized

SIGNATURE = Frame("lorenz96", tuple(f"x{k}" for k in range(36)), ("1",) * 36, ("F",), ("1",))
TINY = Frame("", ("p", "é"), ("m", "m / s"), ("a", "b"), ("kg", ""))
REPORT = {"seed": 3, "losses": [0.1, float("inf"), 1e-300], "recipe": {"epochs": 2, "name": "π"}, "none": None}


def build(method, seed=0, frame=SIGNATURE, **settings):
    frame = copy.deepcopy(frame)
    frame.state_shift += 0.3
    frame.state_scale *= 1.7
    model = method(frame, torch.Generator().manual_seed(seed), **sized(method, frame, settings))
    model.report = REPORT | {"seed": seed}
    return model


def outputs(model, count=50):
    dtype = model.frame.state_scale.dtype
    draws = torch.Generator().manual_seed(7)
    x, v = (torch.randn(count, len(model.frame.state_names), generator=draws).to(dtype) for _ in range(2))
    c = torch.rand(count, len(model.frame.context_names), generator=draws).to(dtype)
    if model.seeds is not None:
        x, v, c = x[None], v[None], c[None]
    P = model(c)
    z = P.encode(x)
    return [z, P.decode(z), *P.jvp(x, v), *P.decode_jacobian(z)]


def assert_same(a, b):
    assert type(a) is type(b)
    assert a.config == b.config
    assert a.seeds == b.seeds
    assert a.report == b.report
    assert a.latent_dim == b.latent_dim
    assert a.frame.to_json() == b.frame.to_json()
    parameters = dict(b.named_parameters())
    assert all(p.requires_grad == parameters[name].requires_grad for name, p in a.named_parameters())
    state = b.state_dict()
    assert list(a.state_dict()) == list(state)
    assert all(t.dtype == state[name].dtype and torch.equal(t, state[name]) for name, t in a.state_dict().items())


@pytest.fixture
def tiny(tmp_path):
    """A small file, and the projection in it."""
    model = build(CAE, frame=TINY, layers=(1, 2))
    return save(model, tmp_path / "tiny.safetensors"), model


# -- round trips ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_round_trip_is_exact(tmp_path, method, dtype):
    stacked = stack([build(method, seed) for seed in (1, 2, 3)])
    # a fresh model has weights that are column-major in memory, a trained one has not
    for k, model in enumerate((build(method), stacked, unstack(stacked)[1])):
        model.to(dtype)
        back = load(save(model, tmp_path / f"{k}.safetensors"))
        assert_same(model, back)
        assert all(torch.equal(a, b) for a, b in zip(outputs(model), outputs(back), strict=True))
    assert [m.report["seed"] for m in unstack(load(tmp_path / "1.safetensors"))] == [1, 2, 3]


def test_round_trip_of_a_fitted_projection(tmp_path, lorenz_data):
    for k, settings in enumerate(({"seed": 1}, {"seeds": [1, 2]})):
        model = romkit.fit("ncae", lorenz_data, epochs=1, **settings)
        back = load(save(model, tmp_path / f"{k}.safetensors"))
        assert_same(model, back)
        assert torch.equal(model(F=3.15).encode(torch.ones(36)), back(F=3.15).encode(torch.ones(36)))


def test_a_loaded_projection_owns_its_tensors(tiny):
    path, model = tiny
    back = load(path)
    with torch.no_grad():
        for parameter in back.parameters():
            parameter.add_(1)
    assert_same(load(path), model)
    back.to(torch.float64)
    assert all(parameter.requires_grad for parameter in back.parameters())


def test_a_projection_without_context(tmp_path):
    data = romkit.data.from_arrays(np.random.default_rng(0).normal(size=(2, 6, 3)), 0.1 * np.arange(6))
    for method in ("pod", "film-ae"):
        model = romkit.fit(method, data, latent_dim=1, seeds=range(2), epochs=1, verbose=False)
        assert_same(model, load(save(model, tmp_path / "a")))


def test_what_could_not_be_loaded_is_not_saved(tiny):
    path, _ = tiny
    before = path.read_bytes()
    with pytest.raises(InputError, match="projection: expected one in float32 or float64"):
        save(load(path).half(), path)
    assert path.read_bytes() == before


def test_equal_projections_make_equal_files_and_no_generator_moves(tiny, tmp_path):
    path, _ = tiny
    before = torch.get_rng_state()
    assert save(load(path), tmp_path / "again").read_bytes() == path.read_bytes()
    assert torch.equal(before, torch.get_rng_state())


# -- methods of the user's own -------------------------------------------------------------------------------------


class Own(Projection):
    """Draws from the global generator, as torch's own layers do."""

    name = "own"

    def __init__(self, frame, generator, *, latent_dim, complete=True):
        super().__init__(frame, {"latent_dim": latent_dim} if complete else {})
        self.latent_dim = latent_dim
        self.linear = torch.nn.Linear(latent_dim, 2)

    def at(self, c):
        raise NotImplementedError


def test_a_method_of_the_users_own(tmp_path):
    model = Own(copy.deepcopy(TINY), torch.Generator(), latent_dim=1)
    before = torch.get_rng_state()
    assert_same(model, load(save(model, tmp_path / "a")))
    both = stack([model, model])
    assert_same(both, load(save(both, tmp_path / "stack")))
    assert torch.equal(before, torch.get_rng_state())
    with pytest.raises(InputError, match=r"projection.config: expected arguments that rebuild it, .*latent_dim"):
        save(Own(copy.deepcopy(TINY), torch.Generator(), latent_dim=1, complete=False), tmp_path / "b")
    assert not (tmp_path / "b").exists()
    with pytest.raises(FileError, match="unknown method 'nobody'; import the module that defines it first"):
        load(rewritten(tmp_path / "a", method="nobody"))


def test_the_newest_class_of_a_name_is_found():
    def define():
        class Redefined(Own):
            name = "redefined"

        return Redefined

    first, second = define(), define()
    assert method_named("redefined") is second is not first
    assert method_named("ncae") is NcAE
    assert method_named("nobody") is None


def test_a_name_that_belongs_to_another_method(tmp_path):
    class Mine(NcAE):
        pass

    with pytest.raises(InputError, match=r"got 'ncae', which is another's; set Mine.name"):
        save(build(Mine), tmp_path / "a")


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(InputError, match="model: expected a Projection or a LearnedField or a Basis, got 'a'"):
        save("a", tmp_path / "a")
    model = build(CAE)
    model.report = {"loss": torch.ones(2)}
    with pytest.raises(InputError, match=r"projection.report: .*not JSON serializable; .*tolist"):
        save(model, tmp_path / "a")


# -- damage --------------------------------------------------------------------------------------------------------


def noticed(path, model):
    try:
        back = load(path)
    except FileError as error:
        message = str(error)
    else:
        assert_same(back, model)
        return False
    assert "\n" not in message
    assert "restore" in message
    return True


def test_every_flipped_byte_is_noticed_or_harmless(tiny):
    path, model = tiny
    content, rng = path.read_bytes(), np.random.default_rng(0)
    hits = 0
    for position in range(0, len(content), max(1, len(content) // 200)):
        damaged = bytearray(content)
        damaged[position] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        hits += noticed(path, model)
    assert hits > 195  # all but padding and a letter that JSON reads alike


def test_every_truncation_is_noticed(tiny):
    path, model = tiny
    content = path.read_bytes()
    for size in (0, 7, 8, len(content) - 1, *np.random.default_rng(1).integers(len(content), size=20)):
        path.write_bytes(content[:size])
        assert noticed(path, model)


def rewritten(path, tensors=(), **changes):
    """The file with another header, and other tensors, its digest made to fit."""
    header, content = files.read(path)
    header, content = header | changes, content | dict(tensors)
    digest = files._sha256(header, content)
    path.write_bytes(safetensors.torch.save(content, {"romkit": json.dumps(header | {"sha256": digest})}))
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 3}, "is of format 3, this romkit reads 2; update romkit"),
        ({"config": {"size": 3}}, "does not fit CAE as it is here .*layers"),
        ({"config": {"layers": [2, 2]}}, "does not fit CAE as it is here .*size mismatch"),
    ],
)
def test_a_file_of_another_version(tiny, changes, message):
    with pytest.raises(FileError, match=message) as caught:
        load(rewritten(tiny[0], **changes))
    assert "\n" not in str(caught.value)


def test_what_would_be_refused_is_not_saved(tiny, tmp_path):
    model = tiny[1]
    model.report = {"note": "a\x1b[31m"}
    with pytest.raises(InputError, match="control characters"):
        save(model, tmp_path / "a")
    model.report = {}
    model.frame.state_shift[0] = torch.nan
    with pytest.raises(InputError, match=r"NaN or infinity in frame\.state_shift"):
        save(model, tmp_path / "a")


def test_a_safetensors_file_of_others(tmp_path):
    for k, metadata in enumerate((None, {"romkit": "no JSON"}, {"romkit": "[]"}, {"romkit": "{}"})):
        path = tmp_path / f"{k}.safetensors"
        path.write_bytes(safetensors.torch.save({"a": torch.ones(2)}, metadata))
        with pytest.raises(FileError, match=r"no romkit header, or a damaged one; give a file by romkit.save"):
            load(path)


def _write_forever(models, path):
    while True:
        for model in models:
            save(model, path)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_killed_writer_leaves_a_whole_file(tmp_path):
    models = [build(NcAE, seed) for seed in (0, 1)]
    path = save(models[0], tmp_path / "a.safetensors")
    for k in range(4):
        writer = multiprocessing.get_context("fork").Process(target=_write_forever, args=(models, path))
        writer.start()
        time.sleep(0.02 + 0.0142 * k)
        writer.kill()
        writer.join()
        back = load(path)
        assert_same(back, models[back.report["seed"]])


# -- names ---------------------------------------------------------------------------------------------------------


def test_pretrained_names(tiny, tmp_path, monkeypatch):
    shipped = tmp_path / "pretrained"
    shipped.mkdir()
    model = tiny[1]
    for name in ("ncae-lorenz96", "pod-pendulum"):
        save(model, shipped / f"{name}.safetensors")
    monkeypatch.setattr(storage, "PRETRAINED", shipped)
    assert romkit.projections.pretrained() == ("ncae-lorenz96", "pod-pendulum")
    assert_same(load("ncae-lorenz96"), model)
    with pytest.raises(FileError, match=r"did you mean 'ncae-lorenz96'\? romkit ships ncae-lorenz96, pod-pendulum"):
        load("ncae-lorenz")
    with pytest.raises(
        FileError, match="neither a file nor a pretrained projection; check the path; romkit ships ncae"
    ):
        load("zzz")
    with pytest.raises(FileError, match="no such file; check the path"):
        load(tmp_path / "ncae-lorenz96.safetensors")


def test_every_projection_that_ships_loads():
    for name in romkit.projections.pretrained():
        assert load(name).report


def test_a_file_beats_a_pretrained_name(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "PRETRAINED", tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    save(tiny[1], "ncae-lorenz96")
    assert_same(load("ncae-lorenz96"), tiny[1])


def test_missing_folder(tiny, tmp_path):
    with pytest.raises(FileError, match="folder does not exist; make it first"):
        save(tiny[1], tmp_path / "none" / "a")
