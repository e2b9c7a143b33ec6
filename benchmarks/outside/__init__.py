"""Boards that others made: families of systems over parameters, chaos, moving fronts."""
