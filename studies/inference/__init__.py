"""Contexts from observations, against the Cramer-Rao bound."""
