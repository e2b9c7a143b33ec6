"""Joints of MuJoCo models: the numbers that describe their positions, and how these change with joint velocities."""

from typing import NamedTuple

import numpy as np

from romkit.errors import InputError
from romkit.systems.mujoco_engine import mujoco

HINGE, SLIDE, BALL, FREE = (
    int(getattr(mujoco.mjtJoint, f"mjJNT_{kind}")) for kind in ("HINGE", "SLIDE", "BALL", "FREE")
)
NAMES = {HINGE: ("",), SLIDE: ("",), BALL: ("_w", "_i", "_j", "_k"), FREE: ("_x", "_y", "_z", "_w", "_i", "_j", "_k")}
"""What is appended to the name of a joint, for each number of its position; w, i, j, k are those of a quaternion."""
UNITS = {HINGE: ("rad",), SLIDE: ("m",), BALL: ("1",) * 4, FREE: ("m",) * 3 + ("1",) * 4}


class Joints(NamedTuple):
    """The nq positions and nv velocities of a model.

    A hinge or slide has one of each, whose rate is the velocity. A unit quaternion u of a ball or free joint has four
    numbers and its angular velocity ω, in the frame of the body, three: u̇ = ½ u (0, ω).

    Attributes:
        names, units: one for each of the nq positions.
        plain: places among positions and among velocities of those whose rate is the velocity.
        turns: first place of each quaternion among positions, and of its ω among velocities.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    plain: tuple[list[int], list[int]]
    turns: list[tuple[int, int]]

    @classmethod
    def of(cls, model: "mujoco.MjModel") -> "Joints":
        """Those of a compiled model.

        Raises:
            InputError: none, or two of one name, as a joint q1 and the second one without a name have.
        """
        if model.njnt == 0:
            raise InputError("model", expected="one joint or more", got="none", fix="add joints to the file")
        names, units, plain, turns = [], [], ([], []), []
        for k, kind in enumerate(model.jnt_type.tolist()):
            name, q, v = model.joint(k).name or f"q{k}", int(model.jnt_qposadr[k]), int(model.jnt_dofadr[k])
            names += [name + end for end in NAMES[kind]]
            units += UNITS[kind]
            straight = {BALL: 0, FREE: 3}.get(kind, 1)
            plain[0].extend(range(q, q + straight))
            plain[1].extend(range(v, v + straight))
            turns += [(q + straight, v + straight)] if kind in (BALL, FREE) else []
        if twice := {name for name in names if names.count(name) > 1}:
            got, fix = f"{', '.join(sorted(twice))} twice", "give every joint a name of its own"
            raise InputError("model", expected="joints whose names differ", got=got, fix=fix)
        return cls(tuple(names), tuple(units), plain, turns)

    def normalised(self, q: np.ndarray) -> np.ndarray:
        """q (..., nq) with quaternions of length one."""
        q = q.copy()
        for place, _ in self.turns:
            q[..., place : place + 4] /= np.linalg.norm(q[..., place : place + 4], axis=-1, keepdims=True)
        return q

    def rates(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """q̇ (..., nq) from joint velocities v (..., nv); linear in both where there are quaternions."""
        found = np.zeros(q.shape)
        found[..., self.plain[0]] = v[..., self.plain[1]]
        for p, w in self.turns:
            found[..., p : p + 4] = _turned(q[..., p : p + 4], v[..., w : w + 3]) / 2
        return found

    def velocities(self, q: np.ndarray, rates: np.ndarray) -> np.ndarray:
        """v (..., nv) from q̇ (..., nq) at q with quaternions of length one."""
        found = np.zeros((*q.shape[:-1], len(self.plain[1]) + 3 * len(self.turns)))
        found[..., self.plain[1]] = rates[..., self.plain[0]]
        for p, w in self.turns:
            back = q[..., p : p + 4] * [1, -1, -1, -1]
            scalar, vector = rates[..., p : p + 1], rates[..., p + 1 : p + 4]
            found[..., w : w + 3] = 2 * (_turned(back, vector)[..., 1:] + scalar * back[..., 1:])
        return found

    def second(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        """q̈ (..., nq) from velocities and accelerations (..., nv): ü = ½ u (0, ω̇) + ½ u̇ (0, ω)."""
        found, rates = self.rates(q, a), self.rates(q, v)
        for p, w in self.turns:
            found[..., p : p + 4] += _turned(rates[..., p : p + 4], v[..., w : w + 3]) / 2
        return found


def _turned(u: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Product of quaternions u (..., 4) and (0, w), w (..., 3)."""
    scalar, vector = u[..., :1], u[..., 1:]
    return np.concatenate([-(vector * w).sum(-1, keepdims=True), scalar * w + np.cross(vector, w)], axis=-1)
