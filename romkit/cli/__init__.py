"""The command line, `romkit COMMAND`: one file per command, names as in Python.

Commands import what they need when they run, so that `romkit --help` does not wait for it.
"""

from romkit.cli import (  # noqa: F401, each adds its command to the app
    check,
    compare,
    dataset,
    explore,
    fit,
    forecast,
    info,
    law,
    report,
    rollout,
    study,
)
from romkit.cli.app import app, main

__all__ = ["app", "main"]
