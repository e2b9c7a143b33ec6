"""python -m benchmarks NAME [full|smoke|report] [--device cpu|cuda]: measure a benchmark, or write
its pages again; those with a command of their own, `benchmarks/NAME/__main__.py`, take what it takes.
"""

import argparse
import runpy
import sys
from pathlib import Path

import torch

from benchmarks import harness

HERE = Path(__file__).parent

OWN = sorted(file.parent.name for file in HERE.glob("*/__main__.py"))
"""Benchmarks with a command of their own."""

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in OWN:
        name = sys.argv.pop(1)
        runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)
        sys.exit()
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    names = {file.parent.name for file in HERE.glob("*/presets.toml")}
    parser.add_argument("name", choices=sorted({*names, *OWN}))
    parser.add_argument("preset", nargs="?", default="full", choices=("full", "smoke", "report"))
    parser.add_argument("--device", default="cpu", choices=harness.LARGE)
    given = parser.parse_args()
    folder = (
        Path("runs", "benchmarks", given.name) if given.preset == "smoke" else HERE / given.name
    )
    if given.preset == "report":
        harness.report(given.name, folder)
    elif given.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch finds no GPU here, so nothing is measured; --device cuda needs one")
    else:
        harness.keep_to_one_core()
        harness.run(given.name, harness.preset(given.name, given.preset), folder, given.device)
