"""Branches of equilibria and periodic orbits along a parameter, and how near a model's are."""

from romkit.branches.continuation import continuation
from romkit.branches.verification import verify

__all__ = ["continuation", "verify"]
