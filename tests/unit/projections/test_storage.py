"""`romkit.save` and `load` of projections: the same projection comes back, or an error."""

import copy

import numpy as np
import pytest
import safetensors.torch
import torch

import romkit
from romkit import load, save
from romkit.core.errors import FileError
from romkit.data import open_dataset, save_dataset
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
from romkit.projections.networks import orthonormal, uniform
from romkit.verbs.presets import sized
from tests.refusals import refused
from tests.robustness.test_damage import forge
from tests.unit.data.test_storage import assert_same as same_dataset
from tests.unit.data.test_storage import small as dataset

SIGNATURE = Frame("lorenz96", tuple(f"x{k}" for k in range(36)), ("1",) * 36, ("F",), ("1",))
TINY = Frame("", ("p", "é"), ("m", "m / s"), ("a", "b"), ("kg", ""))
REPORT = {
    "seed": 3,
    "losses": [0.1, float("inf"), 1e-300],
    "recipe": {"epochs": 2, "name": "π"},
    "none": None,
}


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
    x, v = (
        torch.randn(count, len(model.frame.state_names), generator=draws).to(dtype)
        for _ in range(2)
    )
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
    assert all(
        p.requires_grad == parameters[name].requires_grad for name, p in a.named_parameters()
    )
    state = b.state_dict()
    assert list(a.state_dict()) == list(state)
    assert all(
        t.dtype == state[name].dtype and torch.equal(t, state[name])
        for name, t in a.state_dict().items()
    )


@pytest.fixture
def tiny(tmp_path):
    """A small file, and the projection in it."""
    model = build(CAE, frame=TINY, layers=(1, 2))
    return save(model, tmp_path / "tiny.safetensors"), model


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


def test_a_projection_without_context(tmp_path):
    data = romkit.data.from_arrays(
        np.random.default_rng(0).normal(size=(2, 6, 3)), 0.1 * np.arange(6)
    )
    for method in ("pod", "film-ae"):
        model = romkit.fit(method, data, latent_dim=1, seeds=range(2), epochs=1, verbose=False)
        assert_same(model, load(save(model, tmp_path / "a")))


def test_a_loaded_projection_owns_its_tensors(tiny):
    path, model = tiny
    back = load(path)
    with torch.no_grad():
        for parameter in back.parameters():
            parameter.add_(1)
    assert_same(load(path), model)
    back.to(torch.float64)
    assert all(parameter.requires_grad for parameter in back.parameters())
    before = torch.get_rng_state()
    assert (
        save(load(path), path.with_name("again")).read_bytes() == path.read_bytes()
    )  # and no generator moves
    assert torch.equal(before, torch.get_rng_state())


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
    incomplete = Own(copy.deepcopy(TINY), torch.Generator(), latent_dim=1, complete=False)
    refused("projection.config", save, incomplete, tmp_path / "b")
    assert not (tmp_path / "b").exists()
    forge(tmp_path / "a", {"method": "nobody"}, {})
    fact = "unknown method 'nobody'; import the module that defines it first, romkit --import"
    refused(fact, load, tmp_path / "a", error=FileError)


def test_the_newest_class_of_a_name_is_found():
    def define():
        class Redefined(Own):
            name = "redefined"

        return Redefined

    first, second = define(), define()
    assert method_named("redefined") is second is not first
    assert method_named("ncae") is NcAE
    assert method_named("nobody") is None


def test_what_could_not_be_loaded_is_not_saved(tiny, tmp_path):
    class Mine(NcAE):
        pass

    path, model = tiny
    before = path.read_bytes()
    refused("model", save, "a", path)
    refused("projection", save, load(path).half(), path)
    refused("got 'ncae', which is another's; set Mine.name", save, build(Mine), path)
    model.report = {"loss": torch.ones(2)}
    refused("projection.report", save, model, path)
    model.report = {"note": "a\x1b[31m"}
    refused("control characters", save, model, path)
    model.report = {}
    model.frame.state_shift[0] = torch.nan
    refused("NaN or infinity in frame.state_shift", save, model, path)
    assert path.read_bytes() == before


@pytest.fixture(params=["dataset", "projection"])
def stored(request, tiny, tmp_path):
    """A file, its bytes, and `noticed()`: whether the damage to it is refused; if not, the content
    is the same.
    """
    kinds = {
        "dataset": (
            save_dataset(dataset(), tmp_path / "small.nc"),
            dataset(),
            open_dataset,
            same_dataset,
        ),
        "projection": (*tiny, load, assert_same),
    }
    path, original, read, compare = kinds[request.param]

    def noticed():
        try:
            back = read(path)
        except FileError as error:
            return "restore" in str(error) or "give a file" in str(error)
        compare(back, original)
        return False

    return path, path.read_bytes(), noticed


def test_flipped_bytes_and_truncations_are_noticed_or_harmless(stored):
    path, content, noticed = stored
    rng, places = np.random.default_rng(0), range(0, len(content), max(1, len(content) // 200))
    hits = []
    for position in places:
        damaged = bytearray(content)
        damaged[position] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        hits.append(noticed())
    assert sum(hits) > 0.97 * len(hits)  # all but padding and a letter that JSON reads alike
    for size in (0, 1, 4, 7, 8, 79, 80, *rng.integers(len(content), size=20)):
        path.write_bytes(content[:size])
        assert noticed() or size >= len(content) - 80  # in the seal that a dataset ends with


def test_what_is_no_dataset(tmp_path):
    magic = b"\x89HDF\r\n\x1a\n"
    strange = {
        b"": "is empty",
        b"hello" * 99: "not a netCDF file",
        magic + b"\x07" * 999: "cannot be read",
    }
    for garbage, problem in strange.items():
        (tmp_path / "a.nc").write_bytes(garbage)
        refused(f"a.nc: .*{problem}", open_dataset, tmp_path / "a.nc", error=FileError)


def test_a_file_of_another_version(tiny):
    content = tiny[0].read_bytes()
    for changes, fact in (
        ({"format": 3}, "is of format 3, this romkit reads 2; update romkit"),
        ({"config": {"size": 3}}, "does not fit CAE as it is here .*layers"),
        ({"config": {"layers": [2, 2]}}, "does not fit CAE as it is here .*size mismatch"),
    ):
        tiny[0].write_bytes(content)
        forge(tiny[0], changes, {})
        refused(fact, load, tiny[0], error=FileError)


def test_a_safetensors_file_of_others(tmp_path):
    for metadata in (None, {"romkit": "no JSON"}, {"romkit": "[]"}, {"romkit": "{}"}):
        (tmp_path / "a").write_bytes(safetensors.torch.save({"a": torch.ones(2)}, metadata))
        fact = "no romkit header, or a damaged one; give a file by romkit.save"
        refused(fact, load, tmp_path / "a", error=FileError)


def test_pretrained_names(tiny, tmp_path, monkeypatch):
    shipped, model = tmp_path / "pretrained", tiny[1]
    shipped.mkdir()
    for name in ("ncae-lorenz96", "pod-pendulum"):
        save(model, shipped / f"{name}.safetensors")
    monkeypatch.setattr(storage, "PRETRAINED", shipped)
    assert romkit.projections.pretrained() == ("ncae-lorenz96", "pod-pendulum")
    assert_same(load("ncae-lorenz96"), model)
    for name, fact in (
        ("ncae-lorenz", r"did you mean 'ncae-lorenz96'\? romkit ships ncae-lorenz96, pod-pendulum"),
        ("zzz", "neither a file nor a pretrained projection; check the path; romkit ships ncae"),
        (tmp_path / "ncae-lorenz96.safetensors", "no such file; check the path"),
    ):
        refused(fact, load, name, error=FileError)
    monkeypatch.chdir(tmp_path)
    other = build(CAE, seed=5, frame=TINY, layers=(1, 2))
    save(other, "ncae-lorenz96")
    assert_same(load("ncae-lorenz96"), other)  # a file beats a name


def test_a_projection_of_sizes_alone_draws_no_numbers():
    """Files are read into one; arithmetic on tensors without numbers imports torch's compiler."""
    generator = torch.Generator("cpu")
    before = generator.get_state()
    with torch.device("meta"):
        matrices = orthonormal(5, 2, generator), uniform((5, 2), 1.0, generator)
    for matrix in matrices:
        assert matrix.is_meta
        assert matrix.shape == (5, 2)
        assert matrix.dtype == torch.get_default_dtype()
    assert torch.equal(generator.get_state(), before)
