"""Damaged, encrypted and boasting files of others: one line, in the memory of a small file."""

import gzip
import io
import resource
import struct
import zipfile

import h5py
import numpy as np
import pytest
import scipy.io

import romkit
from romkit.errors import RomkitError

TIME = np.linspace(0, 1, 21)


def _zipped(name, content):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return packed.getvalue()


def _table():
    rows = [f"{t:.2f},{np.sin(5 * t):.6f}" for t in TIME]
    return "\n".join(["t,x", *rows]) + "\n"


def _arrays():
    rng = np.random.default_rng(0)
    matlab, numbers = io.BytesIO(), io.BytesIO()
    arrays = {"t": TIME, "x": rng.random((21, 3))}
    scipy.io.savemat(matlab, arrays, do_compression=True)
    np.savez(numbers, **arrays)
    return {".mat": matlab.getvalue(), ".npz": numbers.getvalue()}


def _netcdf():
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file["time"], file["x"] = TIME, np.sin(TIME)
    return content.getvalue()


WHOLE = {
    ".csv.gz": gzip.compress(_table().encode()),
    ".zip": _zipped("a.csv", _table()),
    ".nc": _netcdf(),
    **_arrays(),
}


def damaged(content, rng):
    """Content with changed bytes, cut, or doubled at a place."""
    way = rng.integers(3)
    place = int(rng.integers(8, len(content)))
    if way == 0:
        return content[:place]
    if way == 1:
        return content[:place] + content[place // 2 :]
    changed = bytearray(content)
    for k in rng.integers(0, len(content), 4):
        changed[k] ^= 0x5A
    return bytes(changed)


def _outcome(path):
    try:
        return romkit.open(path)
    except RomkitError as error:
        message = str(error)
    assert "\n" not in message
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ending", WHOLE)
def test_damaged_files_are_read_or_refused_in_one_line(ending, tmp_path):
    rng = np.random.default_rng(0)
    for number in range(25):
        path = tmp_path / f"{number}{ending}"
        path.write_bytes(damaged(WHOLE[ending], rng))
        _outcome(path)


def _encrypted(content):
    content = bytearray(content)
    for sign, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.find(sign) + offset] |= 1
    return bytes(content)


def _huge():
    head = b"{'descr':'<f8','fortran_order':False,'shape':(21,1000000000000)}\n"
    return _zipped("t.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head)


HOSTILE = {
    "encrypted.zip": _encrypted(WHOLE[".zip"]),
    "encrypted.npz": _encrypted(WHOLE[".npz"]),
    "huge.npz": _huge(),
    "other.npz": _zipped("readme.txt", b"hello"),
    "deep.jsonl": b'{"t":' + b"[" * 200_000 + b"]" * 200_000 + b"}\n",
    "mixed.jsonl": b'{"t":0,"x":1}\n5\n',
    **{f"empty{ending}": b"" for ending in (*WHOLE, ".jsonl", ".csv", ".xlsx", ".parquet", ".vtu")},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_one_line(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(HOSTILE[name])
    assert _outcome(path) is None


@pytest.mark.parametrize("read", [romkit.data.open_dataset, romkit.open])
def test_a_small_file_that_declares_gigabytes_is_refused(read, tmp_path):
    path = tmp_path / "small.nc"
    with h5py.File(path, "w") as file:
        file["time"] = TIME
        file.create_dataset("u", shape=(21, 20_000_000), chunks=(1, 1000), compression="gzip")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RomkitError, match="declares"):
        read(path)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000  # kB


def test_what_compression_can_hold_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("romkit.data.untrusted.SMALL", 0)
    path = tmp_path / "zeros.nc"
    with h5py.File(path, "w") as file:
        file["time"] = TIME
        options = {"chunks": (1, 100_000), "compression": "gzip", "compression_opts": 9}
        file.create_dataset("u", data=np.zeros((21, 200_000)), **options)
    assert path.stat().st_size < 0.01 * 21 * 200_000 * 8
    assert float(romkit.open(path).u.sum()) == 0
