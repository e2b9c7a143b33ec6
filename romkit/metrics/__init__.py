"""Metrics: each is one function, with its definition and source."""

from romkit.metrics.idempotency import idempotency_error
from romkit.metrics.reconstruction import rmse
from romkit.metrics.rollout import VALID_THRESHOLD, nrmse, valid_time

__all__ = ["VALID_THRESHOLD", "idempotency_error", "nrmse", "rmse", "valid_time"]
