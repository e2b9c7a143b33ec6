"""Studies whose work is a list of pieces: each writes its numbers when it is done, and is skipped from then on."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from romkit.core import runtime
from romkit.core.files import atomic

Numbers = dict[str, object]


def stored(file: Path) -> dict[str, Numbers]:
    """What a file of results has so far, by piece."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def complete(
    pieces: Mapping[str, Callable[[], Numbers]], file: Path, only: str = "", more: Numbers | None = None, *packages: str
) -> None:
    """Computes on one thread what is missing.

    The file is read again before it is written, so that several processes may work on pieces of their own.

    Args:
        pieces: by name.
        file: of the results.
        only: pieces whose name contains this text.
        more: settings that each piece records, beside device and versions.
        *packages: whose versions count as well.
    """
    torch.set_num_threads(1)
    for name, piece in pieces.items():
        if name in stored(file) or only not in name:
            continue
        found = piece()
        print(name, found, flush=True)
        record = {"device": runtime.device_name("cpu"), "versions": runtime.versions(*packages)}
        with atomic(file) as temporary:
            temporary.write_text(json.dumps(stored(file) | {name: found | (more or {}) | record}, indent=1))
