"""MuJoCo models, simulated many at once: the chain of capsules, and files of the user's. The only one to import it."""

import contextlib
import math
from collections.abc import Iterator, Sequence

import mujoco
import numpy as np
from mujoco.rollout import Rollout

from romkit.core.errors import InputError
from romkit.core.runtime import track
from romkit.solvers import Solver
from romkit.systems.mujoco.chain import GRAVITY, MASS, RADIUS

STEPS_PER_CALL = 50_000
"""Steps between two updates of the progress bar, over all members: about a third of a second on one core."""


def compile_chain(lengths: Sequence[float], timestep: float) -> mujoco.MjModel:
    """A frictionless chain of capsules in the x-z plane, hanging straight down at q = 0.

    Args:
        lengths: of the cylindrical part of each capsule, in m; the next hinge is at its end.
        timestep: step of the RK4 integrator, in s.
    """
    spec = mujoco.MjSpec()
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
    spec.option.timestep = timestep
    spec.option.gravity = [0, 0, -GRAVITY]
    # Links overlap at the hinges, hence no contacts. No reset: a diverged state must not turn into a valid one.
    spec.option.disableflags = int(mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    body, end = spec.worldbody, 0.0
    for k, length in enumerate(map(float, lengths), start=1):
        body = body.add_body(name=f"link{k}", pos=[0, 0, -end])
        body.add_joint(name=f"q{k}", type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 1, 0])
        shape = {"fromto": [0, 0, 0, 0, 0, -length], "size": [RADIUS, 0, 0]}
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_CAPSULE, mass=MASS, **shape)
        end = length
    return spec.compile()


def simulate_chains(
    q0: np.ndarray, v0: np.ndarray, lengths: np.ndarray, times: np.ndarray, dt: float, *, threads: int, label: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simulate one chain per row, each with lengths of its own.

    Args:
        q0: (N, n) joint angles in rad at times[0].
        v0: (N, n) joint velocities in rad/s at times[0].
        lengths: (N, n) link lengths in m.
        times: (T,) equally spaced output times in s.
        dt: largest step; between two outputs it takes the fewest equal steps that are no longer.
        threads: how many chains to simulate at the same time.
        label: what the progress bar says.

    Returns:
        Angles (N, T, n), velocities (N, T, n), and a mask (N, T) that is false from a member's divergence on.

    Raises:
        InputError: times that are not increasing and equally spaced, or a length that is not positive.
    """
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        worst = lengths.min() if np.isfinite(lengths).all() else "NaN or infinity"
        raise InputError("context", expected="positive link lengths in m", got=str(worst), fix="check the lengths")
    substeps, step = substeps_of(times, dt)
    models = [compile_chain(row, step) for row in lengths]
    return roll(models, q0, v0, len(times), substeps, threads=threads, label=label)


def roll(
    models: Sequence[mujoco.MjModel],
    q0: np.ndarray,
    v0: np.ndarray,
    outputs: int,
    substeps: int,
    *,
    threads: int,
    label: str,
    control: Sequence[float] = (),
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simulate one model per row; all have the same joints.

    Args:
        models: with the timestep between two steps.
        q0: (N, nq) positions.
        v0: (N, nv) velocities.
        outputs: T, with that of the start.
        substeps: steps between two outputs.
        threads: how many models to simulate at the same time.
        label: what the progress bar says.
        control: of the actuators, constant; zero by default.

    Returns:
        Positions (N, T, nq), velocities (N, T, nv), and a mask (N, T) that is false from a member's divergence on.
    """
    n, step = q0.shape[-1] + v0.shape[-1], models[0].opt.timestep
    states = np.zeros((len(q0), outputs, mujoco.mj_stateSize(models[0], mujoco.mjtState.mjSTATE_FULLPHYSICS)))
    states[:, 0, 1 : 1 + n] = np.concatenate([q0, v0], axis=-1)  # columns: time, positions, velocities, activations
    drive = np.broadcast_to(np.asarray(control, dtype=np.float64), (len(models), 1, len(control)))
    outputs_per_call = max(1, STEPS_PER_CALL // (substeps * len(models)))
    datas = [mujoco.MjData(models[0]) for _ in range(max(1, min(threads, len(models))))]
    with Rollout(nthread=len(datas) if len(datas) > 1 else 0) as pool, _quiet():
        for first in track(range(1, outputs, outputs_per_call), label):
            count = min(outputs_per_call, outputs - first)
            driven = {"control": np.repeat(drive, count * substeps, axis=1)} if len(control) else {}
            run, _ = pool.rollout(models, datas, states[:, first - 1], nstep=count * substeps, **driven)
            states[:, first : first + count] = run[:, substeps - 1 :: substeps]
    expected = np.arange(outputs) * substeps * step
    on_time = np.abs(states[..., 0] - expected) < step / 2  # MuJoCo stops the clock of a member that diverges
    q, v = np.split(states[..., 1 : 1 + n], [q0.shape[-1]], axis=-1)
    inside = (np.abs(states[..., 1 : 1 + n]) <= Solver.divergence_threshold).all(-1)
    return q, v, np.logical_and.accumulate(on_time & inside, axis=-1)


def accelerations(
    models: Sequence[mujoco.MjModel], q: np.ndarray, v: np.ndarray, control: Sequence[float] = ()
) -> np.ndarray:
    """MuJoCo's own v̇ (N, T, nv), with contacts and all, at q (N, T, nq) and v (N, T, nv) of one model per row."""
    found = np.full_like(v, np.nan)
    with _quiet():
        for k, model in enumerate(models):
            data = mujoco.MjData(model)
            data.ctrl[:] = control if len(control) else 0.0
            for i in np.flatnonzero(np.isfinite(q[k]).all(-1) & np.isfinite(v[k]).all(-1)):
                data.qpos[:], data.qvel[:] = q[k, i], v[k, i]
                mujoco.mj_forward(model, data)
                found[k, i] = data.qacc
    return found


def affine_forces(model: mujoco.MjModel, control: Sequence[float]) -> tuple[np.ndarray, ...]:
    """Gravity (3,), and drive, stiffness and damping (nv,) of springs, dampers and actuators: τ = d - k q - b v.

    Asked of MuJoCo, which knows what the flags of a file switch off.
    """
    data, off = mujoco.MjData(model), model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY
    data.ctrl[:] = control if len(control) else 0.0

    def force(q: float, v: float) -> np.ndarray:
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_forward(model, data)
        return data.qfrc_passive + data.qfrc_actuator

    with _quiet():
        drive = force(0, 0)
        return model.opt.gravity * (not off), drive, drive - force(1, 0), drive - force(0, 1)


def substeps_of(times: np.ndarray, dt: float) -> tuple[int, float]:
    """Steps between two of the output times (T,), the fewest that are no longer than dt, and their length."""
    if len(times) == 1:
        return 1, dt
    spacing = (times[-1] - times[0]) / (len(times) - 1)
    # The tolerance admits times that were computed in float32.
    if spacing <= 0 or not np.allclose(np.diff(times), spacing, rtol=1e-3, atol=0):
        got = f"steps from {np.diff(times).min():g} to {np.diff(times).max():g} s"
        fix = "simulate on a uniform grid and select from it"
        raise InputError("times", expected="increasing, equally spaced times", got=got, fix=fix)
    substeps = max(1, math.ceil(spacing / dt - 1e-6))
    return substeps, spacing / substeps


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    # by default MuJoCo reports a diverging member on the terminal and in a file in the working directory.
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
