"""Studies of independent pieces: each writes its numbers as JSON when it is done, and is skipped from then on."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from romkit.core import runtime
from romkit.engine.threads import one_thread
from studies.report import write_text

Numbers = dict[str, object]
Pieces = Mapping[str, Callable[[], Numbers]]


def stored(file: Path) -> dict[str, Numbers]:
    """Contents of a file of results, by piece."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def complete(
    pieces: Pieces, file: Path, only: Sequence[str] = (), more: Numbers | None = None, packages: Sequence[str] = ()
) -> None:
    """Compute missing pieces on one thread.

    The file is read again before it is written, so that several processes may work on pieces of their own.

    Args:
        pieces: by name.
        file: of the results.
        only: names, or parts of names, of the pieces that are wanted; all by default.
        more: settings that each piece records, beside device and versions.
        packages: names of packages whose versions are recorded as well.
    """
    parts = [text for text in only if text not in pieces]
    record = {"device": runtime.device_name("cpu"), "versions": runtime.versions(*packages)}
    for name, piece in pieces.items():
        if name in stored(file) or (only and name not in only and not any(part in name for part in parts)):
            continue
        with one_thread():
            found = {name: piece() | (more or {}) | record}
        print(json.dumps(found), flush=True)
        write_text(file, json.dumps(stored(file) | found, indent=1) + "\n")


def command(
    folder: Path,
    presets: Mapping[str, Pieces],
    page: Callable[[dict[str, Numbers]], str] | None = None,
    *,
    file: str = "results.json",
    target: str = "RESULTS.md",
    more: Numbers | None = None,
    packages: Sequence[str] = (),
) -> None:
    """Command line of a study: `python -m studies.NAME.run [PIECE ...] [--preset full|smoke]`.

    Args:
        folder: of the study, where the preset "full" keeps its results; another one does in runs/NAME/PRESET.
        presets: pieces by preset.
        page: results -> text of the page, which is written when all pieces are complete.
        file: name of the file of results.
        target: name of the page.
        more: settings that each piece records.
        packages: names of packages whose versions are recorded.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("only", nargs="*", metavar="PIECE", help="name of a piece, or part of several names")
    parser.add_argument("--preset", default="full", choices=presets)
    given = parser.parse_args()
    pieces = presets[given.preset]
    place = folder if given.preset == "full" else Path("runs", folder.name, given.preset)
    place.mkdir(parents=True, exist_ok=True)
    complete(pieces, place / file, given.only, more, packages)
    if page is not None and pieces.keys() <= stored(place / file).keys():
        write_text(place / target, page(stored(place / file)))
