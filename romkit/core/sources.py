"""Code that made a result: the commit of the checkout, and a digest of the package's sources."""

import contextlib
import functools
import hashlib
import subprocess
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]

SUFFIXES = {".py", ".pyi", ".c", ".cpp", ".h", ".toml", ".json", ".safetensors"}
"""Endings of the files that can change a number: code, and what it reads."""


@functools.cache
def provenance() -> dict[str, object]:
    """Return `commit`, whether the tree `is_dirty`, and the `digest` of the sources.

    They are those of the first call in a process: what it has imported does not change later.
    """
    commit = checkout_commit()
    return {
        "commit": commit.removesuffix("-dirty"),
        "is_dirty": commit.endswith("-dirty"),
        "digest": digest(),
    }


def checkout_commit() -> str:
    """Return the commit, with `-dirty` where files differ from it; empty without git."""
    git = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        done = subprocess.run(git, cwd=PACKAGE, capture_output=True, text=True, check=True)
        return done.stdout.strip()
    return ""


def digest(folder: Path = PACKAGE) -> str:
    """Return the first 16 digits of the SHA-256 of names and contents of all sources in a folder.

    Example:
        >>> len(digest()), digest() == digest()
        (16, True)
    """
    digester = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix not in SUFFIXES or not file.is_file():
            continue
        digester.update(file.relative_to(folder).as_posix().encode() + b"\0")
        digester.update(hashlib.sha256(file.read_bytes()).digest())
    return digester.hexdigest()[:16]
