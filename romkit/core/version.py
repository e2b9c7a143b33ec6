"""Version of romkit: in the package itself, so that a checkout needs no metadata of an installation."""

VERSION = "0.1.0"
"""Version, which `.ci/release` sets here and in the files that cite the software."""
