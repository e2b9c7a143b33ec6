"""Parameters of a stack as one matrix, and batches as functions of (seed, epoch)."""

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor, nn

from romkit.core.types import Shape, TensorFunction, Tensors
from romkit.data import DIMS, snapshots
from romkit.data.trajectories import Snapshots
from romkit.projections import Frame, Projection
from romkit.projections.weights import BiorthogonalPair


class FlatParameters:
    """Reads and writes the trainable parameters of a stack of S seeds as one tensor theta (S, P)."""

    def __init__(self, stacked: Projection):
        self.stacked = stacked
        self._parameters = {}
        for name, parameter in stacked.named_parameters():
            if parameter.requires_grad:
                self._parameters[name] = parameter
        self.names = list(self._parameters)
        self.shapes = [p.shape for p in self._parameters.values()]
        self.sizes = [p[0].numel() for p in self._parameters.values()]
        self._pairs = {
            name  # of biorthogonal pairs of which all is trained
            for name, module in stacked.named_modules()
            if isinstance(module, BiorthogonalPair)
            and all(parameter.requires_grad for parameter in module.parameters())
        }
        self._blocks = self._find_blocks()
        self._alike = self._find_alike()

    def read(self) -> Tensor:
        """theta (S, P), a copy."""
        columns = [p.detach().flatten(1) for p in self._parameters.values()]
        return torch.cat(columns, dim=1)

    def write(self, theta: Tensor) -> None:
        """Put theta (S, P) into the parameters of the stack."""
        for name, value in self._split(theta).items():
            self._parameters[name].data.copy_(value)

    def split(self, theta: Tensor) -> tuple[list[Tensor], Tensor]:
        """Cuts theta (S, P) into the biorthogonal pairs (S, 2, n, r), Φ before Ψ, and the rest (S,
        Q).
        """
        sizes = [math.prod(block) for block in self._blocks]
        pieces = theta.split(sizes, dim=1)
        pairs = []
        plain = [theta[:, :0]]  # Q = 0 where there are only pairs
        for piece, block in zip(pieces, self._blocks, strict=True):
            if len(block) == 3:
                pairs.append(piece.unflatten(1, block))
            else:
                plain.append(piece)
        return pairs, torch.cat(plain, dim=1)

    def join(self, pairs: Sequence[Tensor], rest: Tensor) -> Tensor:
        """Put together what `split` cut."""
        sizes = [block[0] for block in self._blocks if len(block) == 1]
        plain = iter(rest.split(sizes, dim=1))
        points = iter(pairs)
        pieces = []
        for block in self._blocks:
            if len(block) == 3:
                pieces.append(next(points).flatten(1))
            else:
                pieces.append(next(plain))
        return torch.cat(pieces, dim=1)

    def matrices(self, theta: Tensor) -> list[Tensor]:
        """theta (S, P) as matrices, those of one size in one tensor (S, K, a, b). A vector is a
        matrix of one row.
        """
        pieces = theta.split(self.sizes, dim=1)
        matrices = []
        for size, members in self._alike.items():
            of_size = [pieces[k].unflatten(1, size) for k in members]
            matrices.append(torch.stack(of_size, dim=1))
        return matrices

    def join_matrices(self, matrices: Sequence[Tensor]) -> Tensor:
        """Put together what `matrices` cut."""
        pieces: dict[int, Tensor] = {}
        for members, alike in zip(self._alike.values(), matrices, strict=True):
            pieces |= zip(members, alike.unbind(1), strict=True)
        columns = [pieces[k].flatten(1) for k in range(len(self.sizes))]
        return torch.cat(columns, dim=1)

    def leaves(
        self, theta: Tensor, pair: Callable[[Tensor], nn.Parameter] | None = None
    ) -> list[nn.Parameter]:
        """Return the parameters of one seed, theta (1, P), in order and each with its own shape.

        With `pair`, a biorthogonal pair is one parameter, made by it from (2n, r), Φ above Ψ.
        """
        values = {name: value[0] for name, value in self._split(theta).items()}
        leaves = []
        for name, value in values.items():
            owner, _, leaf = name.rpartition(".")
            if pair is None or owner not in self._pairs:
                leaves.append(nn.Parameter(value.clone()))
            elif leaf == "phi":
                both = torch.cat([value, values[f"{owner}.psi"]])
                leaves.append(pair(both))
        return leaves

    def function(self, objective: nn.Module) -> TensorFunction:
        """`objective`, whose attribute `projection` is the stack, as a function of (theta, *batch)."""

        def loss(theta: Tensor, *batch: Tensor) -> Tensor:
            views = {f"projection.{name}": value for name, value in self._split(theta).items()}
            return torch.func.functional_call(objective, views, batch)

        return loss

    def _matching_pair(self, k: int) -> str:
        """Return name of the pair that parameter k belongs to; "" if it is none's."""
        owner, _, _ = self.names[k].rpartition(".")
        return owner if owner in self._pairs else ""

    def _find_alike(self) -> dict[tuple[int, int], list[int]]:
        """Return groups of parameters that are matrices (a, b) of one size."""
        alike: dict[tuple[int, int], list[int]] = {}
        for k, shape in enumerate(self.shapes):
            columns = 1
            if len(shape) > 1:
                columns = shape[-1]
            size = (self.sizes[k] // columns, columns)
            alike.setdefault(size, []).append(k)
        return alike

    def _find_blocks(self) -> list[Shape]:
        """Return shapes (2, n, r) of pairs and (size,) of what stands between them, in their order."""
        blocks: list[Shape] = []
        for pair, group in itertools.groupby(range(len(self.names)), self._matching_pair):
            members = list(group)
            if pair:
                _, *shape = self.shapes[members[0]]
                blocks.append((2, *shape))
            else:
                blocks.append((sum(self.sizes[k] for k in members),))
        return blocks

    def _split(self, theta: Tensor) -> Tensors:
        pieces = theta.split(self.sizes, dim=1)
        values = {}
        for name, piece, shape in zip(self.names, pieces, self.shapes, strict=True):
            values[name] = piece.reshape(len(piece), *shape[1:])
        return values


class Batch(NamedTuple):
    """States y and velocities dy (..., n) with contexts c (..., p), in normalised coordinates on
    one device.
    """

    y: Tensor
    dy: Tensor
    c: Tensor

    @classmethod
    def from_dataset(
        cls,
        data: xr.Dataset,
        frame: Frame,
        every: int,
        unit: float = 1.0,
    ) -> "Batch":
        """Return each `every`-th snapshot (N, ...) of a dataset, velocities per `unit` of its time."""
        return cls.normalise_snapshots(snapshots(data, every=every), frame, unit)

    @classmethod
    def select_incomplete(cls, data: xr.Dataset, frame: Frame, every: int) -> "Batch":
        """Return each `every`-th snapshot (N, ...) of which some component is there, NaN in place
        of what is missing; velocities are zero.
        """
        thinned = data.isel(time=slice(None, None, every))
        gaps = thinned["state"].transpose(*DIMS).values.astype(np.float64)
        present = np.isfinite(gaps).any(-1).ravel()
        zeros = xr.zeros_like(thinned["state"])
        rows = snapshots(thinned.assign(state=zeros, velocity=zeros))
        rows = rows._replace(state=torch.from_numpy(gaps).reshape(rows.state.shape))
        kept = torch.from_numpy(present)
        rows = type(rows)(*(tensor[kept] for tensor in rows))
        return cls.normalise_snapshots(rows, frame)

    @classmethod
    def normalise_snapshots(cls, rows: Snapshots, frame: Frame, unit: float = 1.0) -> "Batch":
        """Return snapshots in normalised coordinates, in the precision of the frame."""
        state, velocity, context = (tensor.double() for tensor in rows)
        # in float32 a large mean would swallow what varies about it
        exact = copy.deepcopy(frame).double()
        y = exact.normalise(state)
        dy = exact.normalise_tangent(unit * velocity)
        c = exact.normalise_context(context)
        dtype = frame.state_scale.dtype
        return cls(y.to(dtype), dy.to(dtype), c.to(dtype))


class ExtendedBatch(NamedTuple):
    """`Batch` with what a term of the loss attached to each snapshot, (..., k)."""

    y: Tensor
    dy: Tensor
    c: Tensor
    extra: Tensor


AnyBatch = Batch | ExtendedBatch


class Noise(NamedTuple):
    """Standard deviations of the Gaussian noise on states and on contexts, per component,
    normalised coordinates.
    """

    state: Tensor
    context: Tensor


def batches(
    rows: AnyBatch, seeds: Sequence[int], epoch: int, batch_size: int, noise: Noise | None
) -> Iterator[AnyBatch]:
    """Batches (S, batch_size, ...) of one epoch over rows (N, ...), each seed shuffled and
    perturbed on its own.

    Velocities stay clean. The last, incomplete batch is left out: which rows that hits changes
    every epoch.
    """
    n = len(rows.y)
    generators = seed_generators(seeds, epoch)
    orders = [torch.randperm(n, generator=generator) for generator in generators]
    order = torch.stack(orders).to(rows.y.device)  # (S, N)
    last = n - min(batch_size, n)
    for start in range(0, last + 1, batch_size):
        batch = order[:, start : start + batch_size]
        chosen = type(rows)(*(tensor[batch] for tensor in rows))
        if noise is not None:
            chosen = _perturbed(chosen, noise, generators)
        yield chosen


def seed_generators(seeds: Sequence[int], epoch: int) -> list[torch.Generator]:
    """Return a generator of each seed for an epoch: a stack and a single seed see the same batches."""
    return [torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63) for seed in seeds]


def batches_per_epoch(n: int, batch_size: int) -> int:
    """Return number of batches that `batches` yields."""
    return max(1, n // batch_size)


def _perturbed(rows: AnyBatch, noise: Noise, generators: Sequence[torch.Generator]) -> AnyBatch:
    """Return rows with noise on states and contexts, drawn for each seed by its own generator."""

    def draw(like: Tensor, sigma: Tensor) -> Tensor:
        shape = like.shape[1:]
        of_seeds = [torch.randn(shape, generator=generator) for generator in generators]
        return like + torch.stack(of_seeds).to(like) * sigma

    return rows._replace(y=draw(rows.y, noise.state), c=draw(rows.c, noise.context))
