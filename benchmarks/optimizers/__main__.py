"""python -m benchmarks.optimizers [full|smoke]: see the README beside."""

from benchmarks.harness import command
from benchmarks.optimizers import report, run

report.write_curves(command(report.FOLDER, run.PRESETS, run.measure, report.page))
