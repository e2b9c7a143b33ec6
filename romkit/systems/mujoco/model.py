"""MuJoCo models of the user: what a context parameter sets in a model file, and the joints of a
compiled model.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from romkit.core.boundary import Finite, validated
from romkit.core.errors import InputError
from romkit.systems.mujoco.engine import mujoco

HINGE, SLIDE, BALL, FREE = (
    int(getattr(mujoco.mjtJoint, f"mjJNT_{k}")) for k in ("HINGE", "SLIDE", "BALL", "FREE")
)
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

    names: tuple[str, ...]
    units: tuple[str, ...]
    plain: tuple[list[int], list[int]]
    turns: list[tuple[int, int]]

    @classmethod
    def of(cls, model: "mujoco.MjModel") -> "Joints":
        """Joints of a compiled model.

        Raises:
            InputError: none, or two of one name, as a joint q1 and the second one without a name
                have.
        """
        if model.njnt == 0:
            raise InputError(
                "model", expected="one joint or more", got="none", fix="add joints to the file"
            )
        names, units, plain, turns = [], [], ([], []), []
        for k, kind in enumerate(model.jnt_type.tolist()):
            name, q, v = (
                model.joint(k).name or f"q{k}",
                int(model.jnt_qposadr[k]),
                int(model.jnt_dofadr[k]),
            )
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
            q[..., place : place + 4] /= np.linalg.norm(
                q[..., place : place + 4], axis=-1, keepdims=True
            )
        return q

    def rates(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """q̇ (..., nq) from joint velocities v (..., nv); linear in both where there are
        quaternions.
        """
        found = np.zeros(q.shape)
        found[..., self.plain[0]] = v[..., self.plain[1]]
        for p, w in self.turns:
            found[..., p : p + 4] = _turned(q[..., p : p + 4], v[..., w : w + 3]) / 2
        return found

    def states(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """y = (q, q̇), (..., 2 nq)."""
        return np.concatenate([q, self.rates(q, v)], axis=-1)

    def of_states(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """q (..., nq), with quaternions of length one, and v (..., nv) of y = (q, q̇)."""
        q, rates = np.split(y, 2, axis=-1)
        q, v = (
            self.normalised(q),
            np.zeros((*q.shape[:-1], len(self.plain[1]) + 3 * len(self.turns))),
        )
        v[..., self.plain[1]] = rates[..., self.plain[0]]
        for p, w in self.turns:
            back = q[..., p : p + 4] * [1, -1, -1, -1]
            scalar, vector = rates[..., p : p + 1], rates[..., p + 1 : p + 4]
            v[..., w : w + 3] = 2 * (_turned(back, vector)[..., 1:] + scalar * back[..., 1:])
        return q, v

    def second(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        """q̈ (..., nq) from velocities and accelerations (..., nv): ü = ½ u (0, ω̇) + ½ u̇ (0, ω)."""
        found, rates = self.rates(q, a), self.rates(q, v)
        for p, w in self.turns:
            found[..., p : p + 4] += _turned(rates[..., p : p + 4], v[..., w : w + 3]) / 2
        return found


def _turned(u: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Product of quaternions u (..., 4) and (0, w), w (..., 3)."""
    scalar, vector = u[..., :1], u[..., 1:]
    return np.concatenate(
        [-(vector * w).sum(-1, keepdims=True), scalar * w + np.cross(vector, w)], axis=-1
    )


TARGET = re.compile(r"(\w+)/([^/\s]+)\.(\w+)(?:\[(\d+)\])?")
"""kind/name.attribute, or kind/name.attribute[index]"""


@validated
@dataclass(frozen=True)
class ModelParameter:
    """A context parameter of a MuJoCo model.

    Args:
        low: smallest value in training.
        high: largest.
        sets: what it sets: for each target `kind/name.attribute[index]` the factor that the value
            is multiplied by, `{"geom/upper.fromto[5]": -1, "body/lower.pos[2]": -1}`; an array
            without an index means its first entry. Or a function of the `mujoco.MjSpec` and the
            value, for what is not proportional.
        units: of the parameter.
        long_name: what it is, for figures.

    Example:
        >>> from romkit.systems import ModelParameter
        >>> length = ModelParameter(0.3, 0.5, {"geom/upper.fromto[5]": -1, "body/lower.pos[2]": -1}, units="m")
        >>> length.low, length.high, sorted(length.sets)
        (0.3, 0.5, ['body/lower.pos[2]', 'geom/upper.fromto[5]'])
    """

    low: Finite
    high: Finite
    sets: Mapping[str, float] | Callable[[object, float], None]
    units: str = "1"
    long_name: str = ""

    def __post_init__(self):
        if self.low > self.high:
            raise InputError(
                "high", expected=f"{self.low:g} or more, as low", got=self.high, fix="exchange them"
            )

    @validated
    def apply(self, spec: "mujoco.MjSpec", value: float) -> None:
        """Set the value in a model."""
        if callable(self.sets):
            self.sets(spec, value)
            return
        for target, factor in self.sets.items():
            _set(spec, target, factor * value)


def _set(spec: "mujoco.MjSpec", target: str, value: float) -> None:
    """Set the number of a model that a target names."""
    match = TARGET.fullmatch(target)
    if match is None:
        expected, fix = (
            "kind/name.attribute or kind/name.attribute[index]",
            "write 'geom/upper.size[0]', say",
        )
        raise InputError("sets", expected=expected, got=repr(target), fix=fix)
    kind, name, attribute, index = match.groups()
    try:
        element = getattr(spec, kind)(name)
        entries = np.array(getattr(element, attribute), dtype=float)
        entries.flat[int(index or 0)] = value
        setattr(element, attribute, entries if entries.ndim else value)
    except IndexError as error:
        raise InputError(
            "sets", expected=f"an index below {entries.size}", got=repr(target), fix="lower it"
        ) from error
    except (AttributeError, TypeError, ValueError) as error:
        expected, fix = (
            "an element and a number or numbers of it",
            "compare with the names in the file",
        )
        raise InputError("sets", expected=expected, got=repr(target), fix=fix) from error


def unsmooth(model: "mujoco.MjModel") -> list[str]:
    """Names of the features of a model that its closed form lacks."""
    affine = {int(mujoco.mjtGain.mjGAIN_FIXED), int(mujoco.mjtGain.mjGAIN_AFFINE)}
    bias = {int(mujoco.mjtBias.mjBIAS_NONE), int(mujoco.mjtBias.mjBIAS_AFFINE)}
    curved = (model.dof_dampingpoly, model.jnt_stiffnesspoly, model.actuator_dampingpoly)
    found = {
        "ball or free joints": model.nq > model.nv,
        "contacts": not model.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_CONTACT),
        "limits of joints": model.jnt_limited.any(),
        "dry friction": (model.dof_frictionloss != 0).any(),
        "equality constraints": model.neq,
        "tendons": model.ntendon,
        "flexible bodies": model.nflex,
        "a fluid": model.opt.density or model.opt.viscosity,
        "compensated gravity": (model.body_gravcomp != 0).any(),
        "damping or stiffness that is not linear": any((factors != 0).any() for factors in curved),
        "armature of actuators": (model.actuator_armature != 0).any(),
        "actuators that are not affine in joints": (
            (model.actuator_trntype != int(mujoco.mjtTrn.mjTRN_JOINT)).any()
            or (model.actuator_dyntype != int(mujoco.mjtDyn.mjDYN_NONE)).any()
            or not set(model.actuator_gaintype.tolist()) <= affine
            or not set(model.actuator_biastype.tolist()) <= bias
        ),
        "limits of forces": model.actuator_forcelimited.any() or model.jnt_actfrclimited.any(),
        "limits of controls": model.actuator_ctrllimited.any(),
    }
    return [name for name, present in found.items() if present]
