"""CPU seconds of every public verb beside those of an earlier commit."""
