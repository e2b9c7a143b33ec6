"""python -m benchmarks.rollout [full|smoke] [--device cpu|cuda]: see the README beside."""

from benchmarks.harness import command
from benchmarks.rollout import report, run

packages = ("torchode", "jax", "diffrax")
command(report.FOLDER, run.PRESETS, run.measure, report.page, packages, ("cpu", "cuda"))
