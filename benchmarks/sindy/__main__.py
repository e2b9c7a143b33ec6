"""python -m benchmarks.sindy [smoke]."""

import sys

from benchmarks.sindy.run import CONFIGS, main

main(CONFIGS[sys.argv[1] if len(sys.argv) > 1 else "full"])
