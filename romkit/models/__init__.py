"""Reduced models: a projection with latent dynamics, for any contexts and at some, and its flow."""

from romkit.models.flow import LatentFlow
from romkit.models.match import Dynamics, check_field, check_match
from romkit.models.reduced import AtContexts, ReducedModel, constant, double_copy, trained_dynamics

__all__ = [
    "AtContexts",
    "Dynamics",
    "LatentFlow",
    "ReducedModel",
    "check_field",
    "check_match",
    "constant",
    "double_copy",
    "trained_dynamics",
]
