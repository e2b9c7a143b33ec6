"""Joints of a compiled MuJoCo model: names, units, and the way between its velocities and rates."""

from typing import NamedTuple

import numpy as np

from romkit.core.errors import InputError
from romkit.core.types import Array, ArrayPair, Names
from romkit.systems.mujoco.engine import mujoco

FREE, BALL, SLIDE, HINGE = range(4)
"""Kinds of joints, by the numbers of `mujoco.mjtJoint`."""

NAMES = {
    HINGE: ("",),
    SLIDE: ("",),
    BALL: ("_w", "_i", "_j", "_k"),
    FREE: ("_x", "_y", "_z", "_w", "_i", "_j", "_k"),
}
"""Suffixes of the name of a joint, one for each number of its position; w, i, j, k are those of a
quaternion.
"""
UNITS = {HINGE: ("rad",), SLIDE: ("m",), BALL: ("1",) * 4, FREE: ("m",) * 3 + ("1",) * 4}

STRAIGHT = {HINGE: 1, SLIDE: 1, BALL: 0, FREE: 3}
"""Numbers of a joint whose rate is the velocity; those behind them are a quaternion."""


class Joints(NamedTuple):
    """The nq positions and nv velocities of a model.

    A hinge or slide has one of each, whose rate is the velocity. A unit quaternion u of a ball or
    free joint has four numbers and its angular velocity ω, in the frame of the body, three: u̇ = ½
    u (0, ω).

    Attributes:
        names, units: one for each of the nq positions.
        plain: places among positions and among velocities of those whose rate is the velocity.
        turns: first place of each quaternion among positions, and of its ω among velocities.
    """

    names: Names
    units: Names
    plain: tuple[list[int], list[int]]
    turns: list[tuple[int, int]]

    @classmethod
    def read(cls, model: "mujoco.MjModel") -> "Joints":
        """Joints of a compiled model.

        Raises:
            InputError: none, or two of one name, as a joint q1 and the second one without a name
                have.
        """
        names: list[str] = []
        units: list[str] = []
        turns: list[tuple[int, int]] = []
        positions: list[int] = []
        velocities: list[int] = []
        for k, kind in enumerate(model.jnt_type.tolist()):
            joint = model.joint(k).name or f"q{k}"
            names += [joint + suffix for suffix in NAMES[kind]]
            units += UNITS[kind]
            position = int(model.jnt_qposadr[k])
            velocity = int(model.jnt_dofadr[k])
            straight = STRAIGHT[kind]
            positions += range(position, position + straight)
            velocities += range(velocity, velocity + straight)
            if kind in (BALL, FREE):
                turns.append((position + straight, velocity + straight))
        _check_names(names)
        return cls(tuple(names), tuple(units), (positions, velocities), turns)

    def normalised(self, q: Array) -> Array:
        """q (..., nq) with quaternions of length one."""
        q = q.copy()
        for quaternion, _ in self._turns():
            length = np.linalg.norm(q[..., quaternion], axis=-1, keepdims=True)
            q[..., quaternion] /= length
        return q

    def rates(self, q: Array, v: Array) -> Array:
        """q̇ (..., nq) from joint velocities v (..., nv); linear in both where there are
        quaternions.
        """
        positions, velocities = self.plain
        rates = np.zeros(q.shape)
        rates[..., positions] = v[..., velocities]
        for quaternion, angular in self._turns():
            turned = _turned(q[..., quaternion], v[..., angular])
            rates[..., quaternion] = turned / 2
        return rates

    def states(self, q: Array, v: Array) -> Array:
        """y = (q, q̇), (..., 2 nq)."""
        return np.concatenate([q, self.rates(q, v)], axis=-1)

    def of_states(self, y: Array) -> ArrayPair:
        """q (..., nq), with quaternions of length one, and v (..., nv) of y = (q, q̇)."""
        q, rates = np.split(y, 2, axis=-1)
        q = self.normalised(q)
        positions, velocities = self.plain
        count = len(velocities) + 3 * len(self.turns)
        v = np.zeros((*q.shape[:-1], count))
        v[..., velocities] = rates[..., positions]
        for quaternion, angular in self._turns():
            u = q[..., quaternion]
            rate = rates[..., quaternion]
            # ω = 2 ū u̇ (..., 3) of unit quaternions u (..., 4) and their rates
            conjugate = u * [1, -1, -1, -1]
            scalar = rate[..., :1]
            vector = rate[..., 1:]
            product = _turned(conjugate, vector)[..., 1:]
            v[..., angular] = 2 * (product + scalar * conjugate[..., 1:])
        return q, v

    def second(self, q: Array, v: Array, a: Array) -> Array:
        """q̈ (..., nq) from velocities and accelerations (..., nv): ü = ½ u (0, ω̇) + ½ u̇ (0, ω)."""
        second = self.rates(q, a)
        rates = self.rates(q, v)
        for quaternion, angular in self._turns():
            turned = _turned(rates[..., quaternion], v[..., angular])
            second[..., quaternion] += turned / 2
        return second

    def _turns(self) -> list[tuple[slice, slice]]:
        """Return places of each quaternion among positions, and of its ω among velocities."""
        slices = []
        for place, velocity in self.turns:
            quaternion = slice(place, place + 4)
            slices.append((quaternion, slice(velocity, velocity + 3)))
        return slices


def _check_names(names: list[str]) -> None:
    if not names:
        raise InputError(
            "model", expected="one joint or more", got="none", fix="add joints to the file"
        )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(
            "model",
            expected="joints whose names differ",
            got=f"{', '.join(repeated)} twice",
            fix="give every joint a name of its own",
        )


def _turned(u: Array, w: Array) -> Array:
    """Return product of quaternions u (..., 4) and (0, w), w (..., 3)."""
    scalar = u[..., :1]
    vector = u[..., 1:]
    dot = (vector * w).sum(-1, keepdims=True)
    imaginary = scalar * w + np.cross(vector, w)
    return np.concatenate([-dot, imaginary], axis=-1)
