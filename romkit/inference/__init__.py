"""Inference on reduced models: state and context from observations, and continuation along a context."""

from romkit.inference.branches import continuation, verify
from romkit.inference.filter import Track, Tracker, assimilate

__all__ = ["Track", "Tracker", "assimilate", "continuation", "verify"]
