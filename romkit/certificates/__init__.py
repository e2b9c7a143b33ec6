"""Certificates: bounds that hold for every state of a ball, or for all states, at one context."""

from romkit.certificates.certify import certify

__all__ = ["certify"]
