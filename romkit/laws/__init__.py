"""Latent dynamics that are learned from data: estimators, and the laws that they fit."""

from romkit.laws.base import Estimator
from romkit.laws.cells import CellEquation, CellLaw
from romkit.laws.chebyshev import Chebyshev as Chebyshev
from romkit.laws.equations import Equation
from romkit.laws.hamiltonian import Hamiltonian, HamiltonianLaw
from romkit.laws.libraries import Fourier as Fourier
from romkit.laws.libraries import Functions as Functions
from romkit.laws.libraries import Library as Library
from romkit.laws.libraries import Polynomial as Polynomial
from romkit.laws.limit_cycle import LimitCycle, LimitCycleLaw
from romkit.laws.network import NeuralODEModel
from romkit.laws.neural_ode import NeuralODE
from romkit.laws.operators import DMD, OperatorInference
from romkit.laws.phase import PhaseLaw
from romkit.laws.polynomial import PolynomialLaw
from romkit.laws.rational import Rational, RationalLaw
from romkit.laws.samples import LatentSamples
from romkit.laws.scaling import Scaling
from romkit.laws.sindy import SINDy, WeakSINDy
from romkit.laws.sources import (
    differentiated_samples,
    encoded_samples,
    galerkin_samples,
)
from romkit.laws.steady import Steady

LAWS: dict[str, type[Estimator]] = {
    "polynomial": PolynomialLaw,
    "sindy": SINDy,
    "weak-sindy": WeakSINDy,
    "operator-inference": OperatorInference,
    "dmd": DMD,
    "neural-ode": NeuralODE,
    "steady": Steady,
    "limit-cycle": LimitCycle,
    "hamiltonian": Hamiltonian,
    "rational": Rational,
    "cells": CellLaw,
}
"""Estimators of latent dynamics by the name that the command line and files take."""

__all__ = [
    "DMD",
    "LAWS",
    "CellEquation",
    "CellLaw",
    "Equation",
    "Estimator",
    "Hamiltonian",
    "HamiltonianLaw",
    "LatentSamples",
    "LimitCycle",
    "LimitCycleLaw",
    "NeuralODE",
    "NeuralODEModel",
    "OperatorInference",
    "PhaseLaw",
    "PolynomialLaw",
    "Rational",
    "RationalLaw",
    "SINDy",
    "Scaling",
    "Steady",
    "WeakSINDy",
    "differentiated_samples",
    "encoded_samples",
    "galerkin_samples",
]
