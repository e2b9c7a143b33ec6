"""Which contexts a dataset of a system has."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from romkit import checks
from romkit.data.context import context_rows
from romkit.errors import InputError

SPLITS = ("train", "test")


class Split(Protocol):
    """A system, as far as it is asked for contexts."""

    context_names: tuple[str, ...]

    def train_contexts(self, rng: np.random.Generator) -> np.ndarray: ...

    def test_contexts(self) -> np.ndarray: ...


def contexts_of(
    system: Split, split: str | None, seed: int, named: Mapping[str, object]
) -> tuple[Tensor, np.random.Generator | None]:
    """Contexts (C, p) of a split, or given by name, and a generator for initial states where those are random."""
    if split is None:
        return torch.from_numpy(context_rows(system.context_names, named)), None
    checks.one_of("split", split, SPLITS)
    if named:
        got = f"both {split!r} and {sorted(named)}"
        raise InputError("split", expected="a split or contexts by name", got=got, fix="drop one")
    if split == "test":
        return torch.from_numpy(system.test_contexts()), None
    rng = np.random.default_rng(seed)
    return torch.from_numpy(system.train_contexts(rng)), rng
