"""python -m benchmarks.sindy [full|smoke]."""

from benchmarks.harness import command
from benchmarks.sindy import report, run

command(report.FOLDER, run.PRESETS, run.measure, report.page)
