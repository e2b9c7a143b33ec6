"""Foundations: errors, the boundary, tensors, files, display, provenance."""
