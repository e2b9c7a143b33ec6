"""python -m benchmarks NAME [full|smoke|report] [--device cpu|cuda]: measure a benchmark, or write
its pages again.
"""

import argparse
from pathlib import Path

import torch

from benchmarks import harness

HERE = Path(__file__).parent

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument(
        "name", choices=sorted(file.parent.name for file in HERE.glob("*/presets.toml"))
    )
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
