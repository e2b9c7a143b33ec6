"""Facts about compiled MuJoCo models: what their closed form lacks, what may touch, what moves them."""

import numpy as np

from romkit.core.errors import InputError
from romkit.core.types import Array, ArrayPair
from romkit.systems.mujoco.engine import mujoco
from romkit.systems.mujoco.joints import FREE

Numbers = dict[str, Array]
"""Numbers of a compiled model, by name."""


NO_MECHANICS = ("name", "names", "paths", "text", "numeric", "tuple", "user", "sensor", "key")
PICTURES = ("cam", "light", "mat", "tex", "skin", "bvh", "oct")
INERT = NO_MECHANICS + PICTURES
"""First words of the names of arrays that move nothing; starts are compared by themselves."""

INERT_ENDS = ("_rgba", "_group", "_matid", "_user", "_castshadow", "pathadr", "_signature")

SHAPES = ("geom", "pair", "exclude", "hfield", "mesh")
"""First words of arrays of shapes, which matter where bodies touch, in a fluid, or below a tendon:
their masses are those of the bodies.
"""


def check_state(model: "mujoco.MjModel") -> None:
    """Raise unless positions and velocities are the whole state.

    Raises:
        InputError: actuators with an activation or a delay, plugins, plastic parts, mocap bodies
            that a keyframe moves.
    """
    memories = {
        "the activation of actuators (dyntype, timeconst)": model.na,
        "delays of actuators or sensors": model.nhistory,
        "states of plugins": model.npluginstate,
        "plastic deformation": model.nplastic,
    }
    lacking = [name for name, count in memories.items() if count]
    clock = 1
    mechanical = clock + model.nq + model.nv
    size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    if size != mechanical and not lacking:
        lacking = ["further states"]
    if lacking:
        names = ", ".join(lacking)
        raise InputError(
            "model",
            expected="positions and velocities as the whole state",
            got=f"also {names}",
            fix=f"take out {names}: data do not have that state",
        )
    _check_mocap(model)


def _check_mocap(model: "mujoco.MjModel") -> None:
    if model.nkey == 0 or model.nmocap == 0:
        return
    bodies = np.flatnonzero(model.body_mocapid >= 0)
    bodies = bodies[np.argsort(model.body_mocapid[bodies])]
    places = model.key_mpos[0].reshape(-1, 3)
    turns = model.key_mquat[0].reshape(-1, 4)
    placed = (model.body_pos[bodies], model.body_quat[bodies])
    in_file = np.concatenate(placed, axis=-1)
    in_keyframe = np.concatenate([places, turns], axis=-1)
    if not np.allclose(in_file, in_keyframe):
        raise InputError(
            "model",
            expected="mocap bodies where the bodies of the file are",
            got="a keyframe that moves them",
            fix="move the bodies themselves, or take mpos and mquat out of the keyframe",
        )


def unsmooth(model: "mujoco.MjModel") -> list[str]:
    """Return names of the features of a model that its closed form lacks."""
    curved = [model.dof_dampingpoly, model.jnt_stiffnesspoly, model.actuator_dampingpoly]
    limited_forces = [model.actuator_forcelimited, model.jnt_actfrclimited]
    features = {
        "ball or free joints": model.nq > model.nv,
        "contacts": _has_contacts(model),
        "limits of joints": model.jnt_limited.any(),
        "dry friction": model.dof_frictionloss.any(),
        "equality constraints": model.neq,
        "tendons": model.ntendon,
        "flexible bodies": model.nflex,
        "a fluid": _has_fluid(model),
        "compensated gravity": model.body_gravcomp.any(),
        "damping or stiffness that is not linear": any(numbers.any() for numbers in curved),
        "armature of actuators": model.actuator_armature.any(),
        "actuators that are not affine in joints": not _affine(model),
        "limits of forces": any(numbers.any() for numbers in limited_forces),
        "limits of controls": model.actuator_ctrllimited.any(),
    }
    return [name for name, present in features.items() if present]


def _has_contacts(model: "mujoco.MjModel") -> bool:
    return not model.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_CONTACT)


def _has_fluid(model: "mujoco.MjModel") -> bool:
    return bool(model.opt.density or model.opt.viscosity)


def _affine(model: "mujoco.MjModel") -> bool:
    """Tell whether forces of all actuators are affine in the positions and velocities of joints."""
    allowed = (
        (model.actuator_trntype, (mujoco.mjtTrn.mjTRN_JOINT,)),
        (model.actuator_dyntype, (mujoco.mjtDyn.mjDYN_NONE,)),
        (model.actuator_gaintype, (mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtGain.mjGAIN_AFFINE)),
        (model.actuator_biastype, (mujoco.mjtBias.mjBIAS_NONE, mujoco.mjtBias.mjBIAS_AFFINE)),
    )
    return all(set(kinds.tolist()) <= set(map(int, affine)) for kinds, affine in allowed)


def may_touch(model: "mujoco.MjModel") -> list[str]:
    """Return names of pairs of geoms of which MuJoCo computes contacts: of a mechanism and the
    world, or of two mechanisms.

    Links of one mechanism often overlap at their joints, so pairs of these are left out.
    """
    i, j = _allowed_pairs(model)
    bodies = [model.geom_bodyid[i], model.geom_bodyid[j]]
    body_i, body_j = np.sort(bodies, axis=0)
    excluded = np.isin((body_i << 16) + body_j, model.exclude_signature)
    # -1 for what does not move
    apart = model.body_treeid[body_i] != model.body_treeid[body_j]
    touching = np.flatnonzero(apart & ~excluded)
    pairs = []
    for geoms in zip(i[touching].tolist(), j[touching].tolist(), strict=True):
        names = [model.geom(k).name or f"geom {k}" for k in geoms]
        pairs.append(" and ".join(names))
    return pairs


def _allowed_pairs(model: "mujoco.MjModel") -> ArrayPair:
    """Return numbers of the geoms of pairs that may touch by their types and masks, or that are
    named.
    """
    types = model.geom_contype
    masks = model.geom_conaffinity
    i, j = np.triu_indices(model.ngeom, 1)
    # MuJoCo's own rule: the type of one and the mask of the other share a bit
    shared = (types[i] & masks[j]) | (types[j] & masks[i])
    matching = shared != 0
    return np.concatenate([i[matching], model.pair_geom1]), np.concatenate(
        [j[matching], model.pair_geom2]
    )


def constants(model: "mujoco.MjModel") -> Numbers:
    """Return numbers of a compiled model that its motion may depend on, but for its step and its
    start.
    """
    # where bodies touch, in a fluid, or below a tendon
    shapes = _has_contacts(model) or _has_fluid(model) or bool(model.ntendon or model.nflex)
    arrays = {}
    for name in dir(model):
        value = getattr(model, name)
        if isinstance(value, Array) and not _is_inert(name, shapes):
            arrays[name] = value.copy()
    for name in dir(model.opt):
        if name != "timestep" and not name.startswith("_"):
            arrays[f"opt.{name}"] = np.array(getattr(model.opt, name))
    for joint in np.flatnonzero(model.jnt_type == FREE):
        # a free body starts where the state says
        place = model.jnt_qposadr[joint]
        body = model.jnt_bodyid[joint]
        arrays["qpos0"][place : place + 7] = 0.0
        arrays["qpos_spring"][place : place + 7] = 0.0
        arrays["body_pos"][body] = 0.0
        arrays["body_quat"][body] = 0.0
    return arrays


def _is_inert(name: str, shapes: bool) -> bool:
    """Tell whether an array of a model has no effect on its motion.

    `shapes`: whether geometry counts, as it does for contacts.
    """
    word = name.partition("_")[0]
    if word in SHAPES and not shapes:
        return True
    return word in INERT or name.endswith(INERT_ENDS)


def same(a: Numbers, b: Numbers) -> bool:
    """Tell whether two models have equal numbers."""
    if a.keys() != b.keys():
        return False
    for name, numbers in a.items():
        # NaN in arrays of MuJoCo is a mark for what is not set
        is_float = numbers.dtype.kind == "f"
        if not np.array_equal(numbers, b[name], equal_nan=is_float):
            return False
    return True
