"""Hidden contexts in files: laws, contexts and errors as tensors, and the runs as the bytes of their
netCDF file.
"""

import math
import tempfile
from pathlib import Path

import torch

from romkit.bases import storage as bases
from romkit.core import packing
from romkit.core.errors import FileError
from romkit.core.files import Header, reason
from romkit.core.packing import Classes
from romkit.core.types import PathLike, Tensors
from romkit.data.storage import decode_dataset, save_dataset
from romkit.hidden.context import HiddenContext
from romkit.hidden.discovery import Discovery
from romkit.hidden.errors import Noise, Posterior
from romkit.hidden.family import ContextTerms, Family, Scale, Structure
from romkit.hidden.labels import Labels, Polynomial
from romkit.hidden.reading import Frame, group_labels, order_groups
from romkit.hidden.search import Trial
from romkit.laws.storage import FAULTS

PARTS = (Discovery, Posterior, Family, ContextTerms, Noise, Trial, Structure, Scale)
CLASSES: Classes = {kind.__name__: kind for kind in (*PARTS, Labels, Polynomial)}
"""Everything that a file of a hidden context may hold."""

RUNS, BASIS = "runs", "basis."
"""Name of the bytes of the runs, and what begins names of tensors of the basis."""


def packed(found: HiddenContext) -> tuple[Header, Tensors]:
    """Return header and tensors of a hidden context, with its runs.

    Raises:
        InputError: runs that netCDF cannot hold.
    """
    frame = found.frame
    fields = [found.discovery, frame.scale, frame.low, frame.high, found.labels]
    entry, tensors = packing.packed(fields, CLASSES, "found")
    header: Header = {"hidden": entry, "group": found.group, "known": list(found.known)}
    if frame.basis is not None:
        header["modes"], of_basis = bases.packed(frame.basis)
        tensors |= {f"{BASIS}{name}": value for name, value in of_basis.items()}
    with tempfile.TemporaryDirectory() as folder:
        content = save_dataset(found.data, Path(folder, "runs.nc")).read_bytes()
    tensors[RUNS] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    return header, tensors


def unpacked(path: PathLike, header: Header, tensors: Tensors) -> HiddenContext:
    """Return the hidden context of a file.

    Raises:
        FileError: parts that do not fit each other.
    """
    try:
        data = decode_dataset(tensors[RUNS].numpy().tobytes(), f"runs in {path}")
        fields = packing.unpacked(header["hidden"], tensors, CLASSES)
        discovery, scale, low, high, labels = fields
        modes = None
        if "modes" in header:
            of_basis = {n.removeprefix(BASIS): x for n, x in tensors.items() if n.startswith(BASIS)}
            modes = bases.unpacked(path, header["modes"], of_basis)
        group, recorded = header["group"], tuple(header["known"])
        groups, rows = order_groups(group_labels(data, group))
        _check(discovery, len(groups), len(recorded))
        frame = Frame(modes, scale, low, high)
        return HiddenContext(data, group, recorded, groups, rows, frame, discovery, labels)
    except FAULTS as error:
        problem = f"holds a hidden context whose parts do not fit each other ({reason(error)})"
        fix = "restore it from a copy, or find it again"
        raise FileError(path, problem=problem, fix=fix) from error


def _check(discovery: Discovery, groups: int, known: int) -> None:
    """Raise unless a law has the terms of its structure, and contexts are those of the groups."""
    family, structure = discovery.posterior.family, discovery.chosen.structure
    terms, theta = family.terms, family.theta
    K, q, m = theta.shape
    r = structure.hidden
    wanted = math.comb(m + structure.degree, m), math.comb(known + r + terms.degree, terms.degree)
    P = theta.numel() + groups * r
    fits = (
        (K, q) == wanted
        and (terms.known, terms.hidden) == (known, r)
        and family.known.shape == (groups, known)
        and family.hidden.shape == (groups, r)
        and discovery.posterior.covariance.shape == (P, P)
    )
    if not fits:
        raise ValueError(f"coefficients of shape {tuple(theta.shape)}")
