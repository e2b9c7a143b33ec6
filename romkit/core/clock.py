"""Functions of time that a user wrote in plain Python, NumPy or torch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from romkit.core.errors import InputError, one_line


def evaluate_time(function: Callable[[Any], object], t: float | Tensor, argument: str) -> object:
    """Return the value of a user's function of time, which gets a number, or a scalar tensor if it
    is written in torch.

    Args:
        function: of one time.
        t: the time.
        argument: name of what the function is given for.

    Raises:
        InputError: a function that takes neither.
    """
    try:
        return function(float(t))
    except (TypeError, AttributeError):
        # `torch.sin` of a number; an error of the function's own comes up again below
        pass
    try:
        return function(torch.tensor(float(t), dtype=torch.float64))
    except (TypeError, AttributeError) as error:
        raise InputError(
            argument,
            expected="a function of time",
            got=f"{type(error).__name__}: {one_line(str(error))}",
            fix="write it for one time, with math, numpy or torch: lambda t: 2 + math.sin(t)",
        ) from error
