"""Benchmarks: each against its rival in one run."""
