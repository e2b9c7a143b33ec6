"""python -m benchmarks.rollout [full|smoke] [--device cpu|cuda]: see the README beside."""

from benchmarks.harness import command
from benchmarks.rollout import report, run

command(report.FOLDER, run.PRESETS, run.measure, report.page, "torchode", "jax", "diffrax")
