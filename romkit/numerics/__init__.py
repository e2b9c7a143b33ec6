"""Numbers alone, on arrays: smoothers of the context, folds, least squares, errors of forecasts."""

from romkit.numerics.design import Design
from romkit.numerics.errors import LOST, forecast_error, normal_factor
from romkit.numerics.folds import find_interior, folds, groups_of
from romkit.numerics.smoothers import (
    Covariance,
    Kriging,
    Nearest,
    Polynomial,
    Smoother,
    Spline,
    changes,
    chosen,
    left_out,
)

__all__ = [
    "LOST",
    "Covariance",
    "Design",
    "Kriging",
    "Nearest",
    "Polynomial",
    "Smoother",
    "Spline",
    "changes",
    "chosen",
    "find_interior",
    "folds",
    "forecast_error",
    "groups_of",
    "left_out",
    "normal_factor",
]
