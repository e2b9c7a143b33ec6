"""Coefficients of the methods with step-size control, for torch and, as arrays of C, for kernels."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from romkit.core.types import Array

Rows = Sequence[Sequence[float]]


class Explicit(NamedTuple):
    """An embedded explicit Runge-Kutta pair, whose last stage is the first one of the next step.

    Attributes:
        order: of the solution.
        nodes: (S,) times of the stages, as shares of a step.
        stages: rows of the weights of earlier stages; the last row gives the solution.
        error: (S,) weights of the solution minus those of the embedded one.
        dense: (S, 4) coefficients of θ, ..., θ⁴ of the weights at a share θ of the step.
        stable: largest |h λ| on the negative real axis for which errors do not grow.
    """

    order: int
    nodes: Sequence[float]
    stages: Rows
    error: Sequence[float]
    dense: Rows
    stable: float


class Rosenbrock(NamedTuple):
    """A linearly implicit method in the form of Hairer and Wanner, section IV.7.

    Stage s solves (I / (γ h) - J) u_s = f(t + α_s h, y + Σ a_sj u_j) + Σ c_sj u_j / h + h γ_s ∂f/∂t. The
    last stage is the estimate of the error, and adds to the state of its own evaluation.

    Attributes:
        order: of the solution.
        gamma: γ.
        nodes: (S,) α.
        stages: rows of a.
        couplings: rows of c.
        drifts: (S,) γ_s.
        dense: (2, S - 1) weights of the stages in the two terms of the interpolation.
    """

    order: int
    gamma: float
    nodes: Sequence[float]
    stages: Rows
    couplings: Rows
    drifts: Sequence[float]
    dense: Rows


TSIT5 = Explicit(
    order=5,
    nodes=(0.0, 0.161, 0.327, 0.9, 0.9800255409045097, 1.0, 1.0),
    stages=(
        (),
        (0.161,),
        (-0.008480655492356989, 0.335480655492357),
        (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
        (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
        (
            5.86145544294642, -12.92096931784711, 8.159367898576159,
            -0.071584973281401, -0.02826905039406838,
        ),
        (
            0.09646076681806523, 0.01, 0.4798896504144996,
            1.379008574103742, -3.290069515436081, 2.324710524099774,
        ),
    ),
    error=(
        0.00178001105222577714, 0.0008164344596567469, -0.007880878010261995,
        0.1447110071732629, -0.5823571654525552, 0.45808210592918697, -1 / 66,
    ),
    dense=(
        (0.9999999999999998, -2.763706197274826, 2.9132554618219126, -1.0530884977290216),
        (0.0, 0.13169999999999998, -0.2234, 0.1017),
        (0.0, 3.930296236894751, -5.941033872131505, 2.490627285651253),
        (0.0, -12.411077166933676, 30.338188630282318, -16.548102889244902),
        (0.0, 37.50931341651104, -88.1789048947664, 47.37952196281928),
        (0.0, -27.896526289197286, 65.09189467479368, -34.87065786149661),
        (0.0, 1.5, -4.0, 2.5),
    ),  # the products of polynomials of the source, multiplied out
    stable=3.3,
)  # fmt: skip
"""Tsitouras (2011), Runge-Kutta pairs of order 5(4) satisfying only the first column simplifying
assumption.
"""

LAST = (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.687886036105895)

RODAS4 = Rosenbrock(
    order=4,
    gamma=0.25,
    nodes=(0.0, 0.386, 0.21, 0.63, 1.0, 1.0),
    stages=(
        (),
        (1.544,),
        (0.9466785280815826, 0.2557011698983284),
        (3.314825187068521, 2.896124015972201, 0.9986419139977817),
        LAST,
        (*LAST, 1.0),
    ),
    couplings=(
        (),
        (-5.6688,),
        (-2.430093356833875, -0.2063599157091915),
        (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
        (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.7089089320616),
        (
            8.083246795921522, -7.981132988064893, -31.52159432874371,
            16.31930543123136, -6.058818238834054,
        ),
    ),
    drifts=(0.25, -0.1043, 0.1035, -0.0362, 0.0, 0.0),
    dense=(
        (
            10.12623508344586, -7.487995877610167, -34.80091861555747,
            -7.992771707568823, 1.025137723295662,
        ),
        (
            -0.6762803392801253, 6.087714651680015, 16.43084320892478,
            24.76722511418386, -6.594389125716872,
        ),
    ),
)  # fmt: skip
"""RODAS of Hairer and Wanner (1996), Solving Ordinary Differential Equations II, section IV.7."""


def c_constants(**tables: float | Sequence[float] | Rows) -> str:
    """Constants of C by name: a number, or an array of one or two axes, whose rows zeros fill up."""
    return "\n".join(_constant(name, np.array(_filled(table))) for name, table in tables.items())


def _filled(table: float | Sequence[float] | Rows) -> object:
    if not isinstance(table, Sequence):
        return table
    rows = [row for row in table if isinstance(row, Sequence)]
    length = max(map(len, rows), default=0)
    return [[*row, *[0.0] * (length - len(row))] for row in rows] or table


def _constant(name: str, values: Array) -> str:
    sizes = "".join(f"[{size}]" for size in values.shape)
    braces = str(values.tolist()).replace("[", "{").replace("]", "}")
    return f"static const T {name}{sizes} = {braces};"
