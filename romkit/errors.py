"""Errors and warnings: `from romkit.errors import InputError`."""

from romkit.core.errors import (
    DataWarning,
    DivergenceWarning,
    ExtrapolationWarning,
    FileError,
    FitWarning,
    InputError,
    RomkitError,
    one_line,
    warn,
)

__all__ = [
    "DataWarning",
    "DivergenceWarning",
    "ExtrapolationWarning",
    "FileError",
    "FitWarning",
    "InputError",
    "RomkitError",
    "one_line",
    "warn",
]
