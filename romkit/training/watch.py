"""Training that watches itself: held-out data, the best parameters, an early end, and who wants to know of an epoch."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
import xarray as xr
from torch import Tensor

from romkit.core.boundary import Count, Natural, Share, validated
from romkit.core.errors import InputError
from romkit.data import check_dataset, context_names, needing_velocity, split
from romkit.data.layout import component_names
from romkit.data.trajectories import matched
from romkit.training.batches import AnyBatch

CHUNK = 1024
"""Held-out snapshots that are evaluated at a time."""

LINES = 20
"""Most lines of a training in the log."""

log = logging.getLogger("romkit.training")


@validated
class Epoch(NamedTuple):
    """What a callback gets after an epoch: its number, how many there are, and the loss of each seed (S,).

    `validation` (S,) is the loss on held-out data, None where there are none.

    Example:
        >>> import romkit
        >>> losses = []
        >>> def follow_training(epoch):
        ...     losses.append(epoch.losses.item())
        ...     return epoch.number == 1  # ends training
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.18])
        >>> ncae = romkit.fit("ncae", data, latent_dim=2, epochs=50, callback=follow_training, verbose=False)
        >>> len(losses)
        2
    """

    number: Natural
    epochs: Count
    losses: Tensor
    validation: Tensor | None


@validated
@dataclass(frozen=True)
class Watch:
    """How the training on snapshots is watched. `romkit.fit` takes these names as keywords.

    Attributes:
        validation: share of the trajectories that is held out, by context (`romkit.data.split`), or a dataset of them.
            The report has the loss there after every epoch, and the parameters that are kept are the best ones.
        patience: epochs without a better loss on held-out data after which training ends; None for never.
        callback: called with an `Epoch` after every epoch; training ends when it returns True, of Python, NumPy or
            torch: `lambda epoch: epoch.losses < 1e-3` ends it when all seeds are below.
        verbose: whether there are bars. What happens is logged in any case, as "romkit.training" at level INFO.

    Raises:
        InputError: patience without held-out data, or a share that leaves nothing to train on.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.2).dataset(F=[3.14, 3.15, 3.16, 3.17, 3.18])
        >>> ncae = romkit.fit("ncae", data, latent_dim=2, epochs=3, validation=0.2, patience=2, verbose=False)
        >>> len(ncae.report["validation_losses"])
        3
    """

    validation: Share | xr.Dataset = 0.0
    patience: Count | None = None
    callback: Callable[[Epoch], object] | None = None
    verbose: bool = True

    def __post_init__(self):
        share = self.validation
        if not isinstance(share, xr.Dataset) and share == 1:
            fix = "give 0.2, say"
            raise InputError("validation", expected="a share below 1, or a dataset", got=repr(share), fix=fix)
        if self.patience is not None and not self.validates:
            fix = "give validation=0.2, say"
            raise InputError("patience", expected="held-out data to be patient about", got="none", fix=fix)

    @property
    def validates(self) -> bool:
        """Whether data are held out."""
        return isinstance(self.validation, xr.Dataset) or self.validation > 0

    @validated
    def divided(self, data: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset | None]:
        """The part of a dataset for training, and the held-out data."""
        if isinstance(self.validation, xr.Dataset):
            held_out = check_dataset(needing_velocity(self.validation))
            return data, matched("validation", held_out, context_names(data), component_names(data))
        return split(data, self.validation) if self.validation > 0 else (data, None)

    @validated
    def ends(self, epoch: Epoch, best: "Best") -> bool:
        """Tell whoever wants to know of an epoch; whether training ends with it."""
        if epoch.number % max(1, epoch.epochs // LINES) == 0 or epoch.number == epoch.epochs - 1:
            held_out = "" if epoch.validation is None else f", validation {epoch.validation.median().item():.4g}"
            loss = epoch.losses.median().item()
            log.info("epoch %d of %d: loss %.4g%s", epoch.number + 1, epoch.epochs, loss, held_out)
        asked = self.callback is not None and _yes(self.callback(epoch))
        tired = exhausted(self.patience, epoch.number, best)
        if tired:
            log.info("no better validation loss for %d epochs: training ends", self.patience)
        return asked or tired


def _yes(answer: object) -> bool:
    """Whether an answer is True; other values that count as true are none, since not every callback means to answer."""
    return answer is True or (str(getattr(answer, "dtype", "")).endswith("bool") and bool(answer.all()))


NAMES = tuple(each.name for each in fields(Watch))


class Best(NamedTuple):
    """The parameters (S, P) with the lowest loss (S,) on held-out data, their epoch (S,), and all losses (epochs, S).

    P = 0 where nothing is held out.
    """

    theta: Tensor
    loss: Tensor
    epoch: Tensor
    losses: Tensor

    @classmethod
    def start(cls, theta: Tensor, watching: bool) -> "Best":
        kept = theta.clone() if watching else theta[:, :0]
        none = theta.new_full((len(theta),), torch.inf)
        return cls(kept, none, torch.zeros_like(none), theta.new_zeros(0, len(theta)))

    def after(self, epoch: int, theta: Tensor, losses: Tensor) -> "Best":
        """With the parameters of an epoch where they are better."""
        better = losses < self.loss
        return Best(
            torch.where(better.unsqueeze(1), theta, self.theta),
            torch.where(better, losses, self.loss),
            torch.where(better, float(epoch), self.epoch),
            torch.cat([self.losses, losses.unsqueeze(0)]),
        )


def exhausted(patience: int | None, epoch: int, best: Best) -> bool:
    """Whether no seed has had a better loss on held-out data for this many epochs."""
    return patience is not None and bool((epoch - best.epoch >= patience).all())


def held_out_loss(loss: Callable[..., Tensor], theta: Tensor, rows: AnyBatch) -> Tensor:
    """(S,) mean loss over held-out rows (N, ...)."""
    total, N = torch.zeros(len(theta), dtype=theta.dtype, device=theta.device), len(rows.y)
    with torch.no_grad():
        for start in range(0, N, CHUNK):
            part = [tensor[start : start + CHUNK] for tensor in rows]
            batch = [tensor.unsqueeze(0).expand(len(theta), *tensor.shape) for tensor in part]
            total = total + loss(theta, *batch) * (len(part[0]) / N)
    return total
