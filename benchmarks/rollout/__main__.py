"""python -m benchmarks.rollout [smoke|full] [--device cpu|cuda]: see the README beside."""

import argparse

from benchmarks.rollout.run import CONFIGS, main

parser = argparse.ArgumentParser(prog="python -m benchmarks.rollout")
parser.add_argument("config", nargs="?", default="full", choices=CONFIGS)
parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
arguments = parser.parse_args()
main(CONFIGS[arguments.config], arguments.device)
