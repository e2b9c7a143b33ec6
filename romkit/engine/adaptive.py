"""Kernels whose steps an estimate of their error controls, and what such a run keeps of each member.

The same numbers are what `romkit.solvers.stepping` works on in torch.
"""

import ctypes
import enum
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from romkit.engine.kernel import Kernel, at
from romkit.engine.pairs import RODAS4, TSIT5, c_constants

SAFETY = 0.9
"""Share of the step that the estimate of the error allows."""

SHORTER, LONGER = 0.2, 5.0
"""Smallest and largest ratio of two steps."""

STABILISER = 0.04
"""Weight of the error before (Hairer, Nørsett, Wanner, section IV.2: a PI controller)."""

FLOOR = 1e-2
"""Share of a member's largest component so far to which all its components are computed."""

LATER = 1e-5
"""Distance of the difference in time, as a share of the step."""

UNCOUNTED = -1
"""Mark of a member whose steps are not tested for stiffness."""


class Code(enum.IntEnum):
    """State of a member: on its way, at the last time, where steps are bounded by stability alone,
    or lost.
    """

    RUNNING = 0
    COMPLETED = 1
    STIFF = 2
    LOST = 3


@dataclass
class Progress:
    """All that a run keeps of N members between two calls; `advance` changes it in place.

    Attributes:
        t: (N,) times that are reached.
        y: (N, d) states there.
        h: (N,) lengths of the next steps.
        previous: (N,) logarithms of the errors of the last steps.
        scale: (N,) largest component so far.
        next: (N,) int64, the outputs to come.
        code: (N,) int64 of `Code`.
        stiff: (N,) int64, counts of steps that stability bounds; `UNCOUNTED` where it is not asked
            for.
        taken: (N,) int64, steps so far.
        rejected: (N,) whether the last step was not taken.
    """

    t: Tensor
    y: Tensor
    h: Tensor
    previous: Tensor
    scale: Tensor
    next: Tensor
    code: Tensor
    stiff: Tensor
    taken: Tensor
    rejected: Tensor

    @classmethod
    def begin(cls, t: Tensor, y: Tensor, h: Tensor, alive: Tensor) -> "Progress":
        """Members (N,) at one time t with first steps h (N,), those that are not alive lost from the
        start.
        """
        count = torch.zeros_like(h, dtype=torch.int64)
        return cls(
            t=t.expand(h.shape).clone(),
            y=y.clone(memory_format=torch.contiguous_format),
            h=h.clone(),
            previous=torch.zeros_like(h),
            scale=y.abs().amax(-1),
            next=count + 1,  # the first output is the start
            code=torch.where(alive, int(Code.RUNNING), int(Code.LOST)),
            stiff=count.clone(),
            taken=count.clone(),
            rejected=count.clone(),
        )


class Limits(NamedTuple):
    """Settings that all members share.

    Attributes:
        times: (T,) of the output.
        jumps: (J,) increasing times at which the field jumps; no step goes across.
        rtol: tolerance of the error of a step, relative to the state.
        atol: the same, absolute.
        floor: share of the member's largest component that is added to the state there.
        longest: largest step.
        bound: magnitude from which on a member is lost.
    """

    times: Tensor
    jumps: Tensor
    rtol: float
    atol: float
    floor: float
    longest: float
    bound: float


def control(order: int) -> dict[str, float]:
    """Constants of the controller for a method of this order, whose estimate is of one less."""
    return {
        "SAFETY": SAFETY,
        "SHORTER": SHORTER,
        "LONGER": LONGER,
        "INTEGRAL": STABILISER,
        "PROPORTIONAL": 1 / order - 0.75 * STABILISER,
        "ORDER": order,
        "FLOOR": FLOOR,
    }


class Controlled(Kernel):
    """A compiled field, and steps of a method of two orders."""

    def advance(self, progress: Progress, limits: Limits, states: Tensor, attempts: int) -> None:
        """Try at most so many steps with every member on its way.

        Args:
            progress: changed in place.
            limits: of all members.
            states: (T, N, d), contiguous; states at the output times are written here.
            attempts: largest number of steps, those that are not taken included.
        """
        count, real = ctypes.c_int64, self._real
        numbers = (limits.rtol, limits.atol, limits.floor, limits.longest, limits.bound)
        # in the order of `advance` in adaptive.hpp
        arrays = (
            *(progress.t, progress.h, progress.previous, progress.scale, progress.y),
            *(
                progress.next,
                progress.code,
                progress.stiff,
                progress.taken,
                progress.rejected,
                states,
            ),
        )
        self._library.advance(
            *(at(limits.times), count(len(limits.times))),
            *(at(limits.jumps), count(len(limits.jumps))),
            *map(real, numbers),
            count(attempts),
            *map(at, arrays),
            *self._constants(),
        )


class Explicit(Controlled):
    """The pair of Tsitouras."""

    loop = ("block.hpp", "lanes.hpp", "explicit.hpp", "adaptive.hpp")
    tables = f"enum {{ STAGES = {len(TSIT5.nodes)} }};\n" + c_constants(
        NODES=TSIT5.nodes,
        WEIGHTS=TSIT5.stages,
        ERROR=TSIT5.error,
        DENSE=TSIT5.dense,
        STABLE=TSIT5.stable,
        **control(TSIT5.order),
    )

    @staticmethod
    def numbers_kept(size: int) -> int:
        return (len(TSIT5.nodes) + 5) * size


class Implicit(Controlled):
    """RODAS."""

    loop = ("block.hpp", "lanes.hpp", "implicit.hpp", "adaptive.hpp")
    tables = f"enum {{ STAGES = {len(RODAS4.nodes)} }};\n" + c_constants(
        NODES=RODAS4.nodes,
        WEIGHTS=RODAS4.stages,
        COUPLINGS=RODAS4.couplings,
        DRIFTS=RODAS4.drifts,
        DENSE=RODAS4.dense,
        GAMMA=RODAS4.gamma,
        LATER=LATER,
        **control(RODAS4.order),
    )

    @staticmethod
    def numbers_kept(size: int) -> int:
        return (len(RODAS4.nodes) + 10 + 3 * size) * size
