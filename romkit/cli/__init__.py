"""The command line, `romkit COMMAND`; names are those of Python. Nothing slow is imported before a
command runs.
"""

from romkit.cli.main import app, main

__all__ = ["app", "main"]
