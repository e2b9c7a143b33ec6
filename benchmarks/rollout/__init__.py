"""Rollouts of a reduced model against torchdiffeq, torchode, JAX and diffrax."""
