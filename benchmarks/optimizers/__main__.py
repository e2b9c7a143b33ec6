"""python -m benchmarks.optimizers: see the README beside."""

import sys

from benchmarks.optimizers.run import CONFIGS, main

main(CONFIGS[sys.argv[1] if len(sys.argv) > 1 else "full"])
