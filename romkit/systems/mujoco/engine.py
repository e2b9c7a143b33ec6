"""MuJoCo models, simulated many at once: the chain of capsules, and files of the user's. The only
one to import it.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from romkit.core.errors import InputError
from romkit.core.runtime import lazy, track
from romkit.core.types import Array, ArrayPair, Field
from romkit.solvers import Solver
from romkit.solvers.base import Prepared
from romkit.systems.mujoco.chain import GRAVITY, MASS, RADIUS

if TYPE_CHECKING:
    import mujoco as mujoco
else:
    mujoco = lazy("mujoco")

LINK = """<body pos="0 0 {above}"><joint axis="0 1 0"/>
<geom type="capsule" {shape} fromto="0 0 0 0 0 {end}"/>{next}</body>"""
"""A link that swings about the end of the one above it."""

# Links overlap at the hinges, hence no contacts. No reset: a diverged state must not turn into a
# valid one.
CHAIN = """<mujoco><option integrator="RK4" timestep="{step}" gravity="0 0 {gravity}">
<flag contact="disable" autoreset="disable"/></option><worldbody>{links}</worldbody></mujoco>"""


def compile_chain(lengths: Sequence[float], timestep: float) -> "mujoco.MjModel":
    """Return a frictionless chain of capsules in the x-z plane, hanging straight down at q = 0.

    Args:
        lengths: of the cylindrical part of each capsule, in m; the next hinge is at its end.
        timestep: step of the RK4 integrator, in s.
    """
    links = ""
    shape = f'size="{RADIUS}" mass="{MASS}"'
    joined = list(pairwise([0.0, *lengths]))
    for above, length in reversed(joined):
        links = LINK.format(above=-above, shape=shape, end=-length, next=links)
    text = CHAIN.format(step=timestep, gravity=-GRAVITY, links=links)
    return mujoco.MjModel.from_xml_string(text)


@dataclass(frozen=True, eq=False)
class Simulator(Solver):
    """MuJoCo's batched rollout of one model for each member, in equal steps.

    Between two outputs, which are equally spaced, it takes the fewest steps that are no longer than
    `step`. Times are in s. Controls are those of the middle of a step, held during it. A member is
    lost where MuJoCo stops its clock, or where a joint leaves the threshold.

    Args:
        name: of the integrator.
        step: largest step.
        models: one for each member with a timestep; all have the same joints.
        joints: positions (N, nq) and velocities (N, nv) of the joints at states (N, d).
        states: (N, T, d) at positions and velocities.
        controls: of the actuators, (N, S, nu) at times (S,); None where there are no actuators.
        threads: members at a time; those of torch when this is made, since torch itself has one
            while it solves.
    """

    name: str
    step: float
    models: "Callable[[float], list[mujoco.MjModel]]"
    joints: Callable[[Array], ArrayPair]
    states: Callable[[Array, Array], Array]
    controls: Callable[[Array], Array] | None = None
    threads: int = field(default_factory=torch.get_num_threads)

    divergence_threshold = math.inf  # that of joints is enough

    def __str__(self) -> str:
        return f"{self.name}(dt={self.step:g})"

    def prepare(self, field: Field, y0: Tensor, times: Tensor, engine: str, label: str) -> Prepared:
        substeps, step = count_substeps(times.cpu().numpy(), self.step)
        models = self.models(step)

        def run(y: Tensor, times: Tensor) -> Tensor:
            members = y.reshape(-1, y.shape[-1])
            members = members.cpu().double()
            q, v = self.joints(members.numpy())
            begin = float(times[0])
            steps = (substeps, step)
            physics = self._integrated(models, q, v, begin, len(times), steps, label)
            clock, motion = physics[..., 0], physics[..., 1:]
            passed = np.arange(len(times)) * substeps * step
            # MuJoCo's clock stops where a member diverges
            on_time = np.abs(clock - passed) < step / 2
            states = self._states(motion, q.shape[-1], on_time)  # (N, T, d)
            over_time = torch.from_numpy(states).to(y).movedim(1, 0)
            return over_time.reshape(len(times), *y.shape)

        return run, "MuJoCo"

    def _integrated(
        self,
        models: "list[mujoco.MjModel]",
        q: Array,
        v: Array,
        begin: float,
        outputs: int,
        steps: tuple[int, float],
        label: str,
        *,
        steps_per_call: int = 50_000,
    ) -> Array:
        """MuJoCo's clock from 0, positions and velocities, (N, T, 1 + nq + nv); `steps` are the
        number and length of those between two outputs, `steps_per_call` those of all members between
        two updates of the progress bar: about a third of a second on one core.
        """
        substeps, step = steps
        members = len(models)
        threads = min(self.threads, members)
        # one workspace for each thread serves all members: their models have equal sizes
        datas = [mujoco.MjData(models[0]) for _ in range(threads)]
        start = np.concatenate([q, v], axis=-1)
        shape = (members, outputs, 1 + start.shape[-1])
        physics = np.zeros(shape)
        physics[:, 0, 1:] = start
        if threads == 1:
            # MuJoCo's word for none beside this one
            threads = 0
        at_once = max(1, steps_per_call // (substeps * members))
        from mujoco.rollout import Rollout  # with MuJoCo, which is loaded when it is used

        with Rollout(nthread=threads) as pool, _quiet():
            for output in track(range(1, outputs, at_once), label):
                count = min(at_once, outputs - output)
                number = count * substeps
                controls = None
                if self.controls is not None:
                    middles = (output - 1) * substeps + np.arange(number) + 0.5
                    controls = self.controls(begin + middles * step)
                before = physics[:, output - 1]
                states, _ = pool.rollout(models, datas, before, controls, nstep=number)
                ends = slice(output, output + count)
                physics[:, ends] = states[:, substeps - 1 :: substeps]
        return physics

    def _states(self, motion: Array, positions: int, on_time: Array) -> Array:
        """Return states (N, T, d) of positions and velocities, NaN from where a member is lost."""
        inside = (np.abs(motion) <= Solver.divergence_threshold).all(-1)
        alive = np.logical_and.accumulate(on_time & inside, axis=-1)
        q, v = np.split(motion, [positions], axis=-1)
        states = self.states(q, v)
        return np.where(alive[..., None], states, np.nan)


def accelerations(models: "Sequence[mujoco.MjModel]", q: Array, v: Array, controls: Array) -> Array:
    """MuJoCo's own v̇ (N, T, nv), with contacts and all, of one model per row.

    Args:
        models: N of them.
        q: positions (N, T, nq).
        v: velocities (N, T, nv).
        controls: (N, T, nu).
    """
    rates = np.full_like(v, np.nan)
    motion = np.concatenate([q, v], axis=-1)
    finite = np.isfinite(motion).all(-1)
    with _quiet():
        for k, model in enumerate(models):
            data = mujoco.MjData(model)
            for i in np.flatnonzero(finite[k]):
                data.ctrl[:] = controls[k, i]
                _evaluate(model, data, q[k, i], v[k, i])
                rates[k, i] = data.qacc
    return rates


def _evaluate(
    model: "mujoco.MjModel", data: "mujoco.MjData", q: Array | float, v: Array | float = 0.0
) -> None:
    """All that MuJoCo derives from positions and velocities."""
    data.qpos[:] = q
    data.qvel[:] = v
    mujoco.mj_forward(model, data)


def inertia(model: "mujoco.MjModel", q: Array) -> Array:
    """MuJoCo's mass matrices (N, nv, nv) at q (N, nq)."""
    data = mujoco.MjData(model)
    matrices = np.zeros((len(q), model.nv, model.nv))
    with _quiet():
        for matrix, position in zip(matrices, q, strict=True):
            _evaluate(model, data, position)
            mujoco.mj_fullM(model, data, matrix)
    return matrices


def gravity(model: "mujoco.MjModel") -> Array:
    """(3,), zero where a flag of the file switches it off."""
    is_off = model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY
    return model.opt.gravity * (not is_off)


def affine_forces(model: "mujoco.MjModel", control: Array) -> Array:
    """Drive, stiffness and damping (3, nv) of springs, dampers and actuators: τ = d - k q - b v.

    Asked of MuJoCo, which knows what the flags of a file switch off.
    """
    data = mujoco.MjData(model)
    data.ctrl[:] = control

    def force(q: float, v: float) -> Array:
        _evaluate(model, data, q, v)
        return data.qfrc_passive + data.qfrc_actuator

    with _quiet():
        drive = force(0, 0)
        stiffness = drive - force(1, 0)
        damping = drive - force(0, 1)
    return np.stack([drive, stiffness, damping])


def count_substeps(times: Array, dt: float) -> tuple[int, float]:
    """Return steps between two of the output times (T,), the fewest that are no longer than dt, and
    their length.
    """
    if len(times) == 1:
        return 1, dt
    gaps = np.diff(times)
    spacing = (times[-1] - times[0]) / len(gaps)
    # The tolerance admits times that were computed in float32.
    if not np.allclose(gaps, spacing, rtol=1e-3, atol=0):
        raise InputError(
            "times",
            expected="equally spaced times",
            got=f"steps from {gaps.min():g} to {gaps.max():g} s",
            fix="simulate on a uniform grid and select from it",
        )
    substeps = max(1, math.ceil(spacing / dt - 1e-6))
    return substeps, spacing / substeps


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings of MuJoCo."""
    # MuJoCo reports a diverging member on the terminal and in a file in the working directory
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
