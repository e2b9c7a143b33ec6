"""`romkit study`: hands over to `python -m studies` of this checkout, which has the options."""

import os
import sys
from pathlib import Path

import typer

from romkit.cli.app import app
from romkit.core.errors import InputError


@app.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False},
)
def study(context: typer.Context) -> None:
    """Reproduce a study: run its tasks, and write its report."""
    checkout = Path(__file__).parents[2]
    if not (checkout / "studies" / "__main__.py").is_file():
        fix = "clone the repository and install it with pip install -e"
        raise InputError("study", expected="a checkout of romkit, which has them", got=str(checkout), fix=fix)
    path = os.pathsep.join(filter(None, (str(checkout), os.environ.get("PYTHONPATH"))))
    # -P: a folder `studies` where the user happens to be is none of ours.
    command = [sys.executable, "-P", "-m", "studies", *context.args]
    # In place of this process, so that terminal, Ctrl-C, kill and exit code are those of the study.
    os.execve(sys.executable, command, os.environ | {"PYTHONPATH": path})
