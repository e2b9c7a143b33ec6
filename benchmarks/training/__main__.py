"""python -m benchmarks.training [full|smoke]."""

from benchmarks.harness import command
from benchmarks.training import report, run

command(report.FOLDER, run.PRESETS, run.measure, report.page, ("jax",))
