"""python -m benchmarks.training: see the README beside."""

import sys

from benchmarks.training.run import CONFIGS, main

main(CONFIGS[sys.argv[1] if len(sys.argv) > 1 else "full"])
