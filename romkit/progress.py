"""One progress bar for everything that can take more than two seconds."""

from collections.abc import Iterable
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")


def track(items: Iterable[T], label: str) -> "tqdm[T]":
    """Iterate over `items`; a bar on stderr appears once two seconds have passed, and leaves no trace."""
    return tqdm(items, desc=label, delay=2, leave=False, mininterval=0.5, dynamic_ncols=True)
