"""Inference on reduced models: continuation of equilibria and periodic orbits along a context."""

from romkit.inference.branches import continuation, verify

__all__ = ["continuation", "verify"]
