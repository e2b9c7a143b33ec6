"""Who watches a training: held-out data, the best parameters there, a callback, and an early end."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from romkit.core.boundary import Count, Natural, Share, validated
from romkit.core.errors import InputError
from romkit.data import check_dataset, context_names, split
from romkit.data.layout import component_names
from romkit.data.trajectories import matched
from romkit.data.units import Units
from romkit.data.velocity import needing_velocity

log = logging.getLogger("romkit.training")


@validated
class Epoch(NamedTuple):
    """Argument of a callback after an epoch: its number, the number of epochs, and the loss of each
    seed (S,).

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
    """Held-out data, early end and messages of the training on snapshots. `romkit.fit` takes these
    names as keywords.

    Attributes:
        validation: share of the trajectories that is held out, by context (`romkit.data.split`), or
            a dataset of them. The report has the loss there after every epoch, and the parameters
            that are kept are the best ones.
        patience: epochs without a better loss on held-out data after which training ends; None for
            never.
        callback: called with an `Epoch` after every epoch; training ends when it returns True, of
            Python, NumPy or torch: `lambda epoch: epoch.losses < 1e-3` ends it when all seeds are
            below.
        verbose: whether there are bars. What happens is logged in any case, as "romkit.training" at
            level INFO.

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

    def __post_init__(self) -> None:
        share = self.validation
        if not isinstance(share, xr.Dataset) and share == 1:
            raise InputError(
                "validation",
                expected="a share below 1, or a dataset",
                got=repr(share),
                fix="give 0.2, say",
            )
        if self.patience is not None and not self.validates:
            raise InputError(
                "patience",
                expected="held-out data to be patient about",
                got="none",
                fix="give validation=0.2, say",
            )

    @property
    def validates(self) -> bool:
        """Whether data are held out."""
        return isinstance(self.validation, xr.Dataset) or self.validation > 0

    @validated
    def divided(self, data: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset | None]:
        """Return the part of a dataset for training, and the held-out data."""
        if isinstance(self.validation, xr.Dataset):
            held_out = check_dataset(needing_velocity(self.validation))
            names = context_names(data)
            units = Units.read(data, names)
            components = component_names(data)
            return data, matched("validation", held_out, names, components, units)
        if self.validation > 0:
            return split(data, self.validation)
        return data, None

    @validated
    def ends(self, epoch: Epoch, best: "Best") -> bool:
        """Tell whoever wants to know of an epoch; whether training ends with it."""
        is_last = epoch.number == epoch.epochs - 1
        between_lines = max(1, epoch.epochs // 20)
        if is_last or epoch.number % between_lines == 0:
            self._log(epoch)
        answer = None
        if self.callback is not None:
            answer = self.callback(epoch)
        tired = exhausted(self.patience, epoch.number, best)
        if tired:
            log.info("no better validation loss for %d epochs: training ends", self.patience)
        return _is_yes(answer) or tired

    @staticmethod
    def _log(epoch: Epoch) -> None:
        held_out = ""
        if epoch.validation is not None:
            held_out = f", validation {epoch.validation.median().item():.4g}"
        loss = epoch.losses.median().item()
        log.info("epoch %d of %d: loss %.4g%s", epoch.number + 1, epoch.epochs, loss, held_out)


def _is_yes(answer: object) -> bool:
    """Tell whether a callback asks to end: True, or an array or tensor of booleans that are all
    true.

    Other true values do not count, since not every callback means to answer.
    """
    if answer is True:
        return True
    if not isinstance(answer, Tensor | np.ndarray | np.generic):
        return False
    return str(answer.dtype).endswith("bool") and bool(answer.all())


NAMES = tuple(field.name for field in fields(Watch))


class Best(NamedTuple):
    """The parameters (S, P) with the lowest loss (S,) on held-out data, their epoch (S,), and all
    losses (epochs, S).

    P = 0 where nothing is held out.
    """

    theta: Tensor
    loss: Tensor
    epoch: Tensor
    losses: Tensor

    @classmethod
    def start(cls, theta: Tensor, watching: bool) -> "Best":
        kept = theta[:, :0]
        if watching:
            kept = theta.clone()
        seeds = len(theta)
        no_loss = theta.new_full((seeds,), torch.inf)
        return cls(kept, no_loss, torch.zeros_like(no_loss), theta.new_zeros(0, seeds))

    def after(self, epoch: int, theta: Tensor, losses: Tensor) -> "Best":
        """Take over the parameters of an epoch where they are better."""
        better = losses < self.loss
        return Best(
            torch.where(better.unsqueeze(1), theta, self.theta),
            torch.where(better, losses, self.loss),
            torch.where(better, float(epoch), self.epoch),
            torch.cat([self.losses, losses.unsqueeze(0)]),
        )


def exhausted(patience: int | None, epoch: int, best: Best) -> bool:
    """Tell whether no seed has had a better loss on held-out data for this many epochs."""
    if patience is None:
        return False
    return bool(((epoch - best.epoch) >= patience).all())
