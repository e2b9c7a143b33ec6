"""Metrics: each is one function, with its definition and source."""

from romkit.metrics.idempotency import idempotency_error
from romkit.metrics.reconstruction import Reconstruction, reconstruction_rmse
from romkit.metrics.rollout import VALID_THRESHOLD, nrmse, valid_time

__all__ = ["VALID_THRESHOLD", "Reconstruction", "idempotency_error", "nrmse", "reconstruction_rmse", "valid_time"]
