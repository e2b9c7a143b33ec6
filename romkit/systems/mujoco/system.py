"""MuJoCo models of the user's own as systems: `romkit.systems.MuJoCo("model.xml", context={...})`."""

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from romkit.core import checks, tensors
from romkit.core.boundary import FilePath, Finite, NotNegative, Positive, validated
from romkit.core.errors import FileError, InputError
from romkit.core.files import existing, reason
from romkit.core.types import Metric, SecondOrderField
from romkit.data import ContextParameter
from romkit.solvers import Solver
from romkit.systems.base import MechanicalSystem
from romkit.systems.mujoco import engine, multibody
from romkit.systems.mujoco.engine import mujoco
from romkit.systems.mujoco.model import SLIDE, Joints, ModelParameter, unsmooth


@validated
class MuJoCo(MechanicalSystem):
    """A MuJoCo model whose geometry, masses, gains or lengths are set by named context parameters.

        M(q; c) q̈ + h(q, q̇; c) = τ(q, q̇; c)

    Datasets come from MuJoCo's batched rollout: RK4 without contacts, the integrator of the file
    with them. Without, and where the model is smooth (no limits, dry friction, tendons,
    constraints), it has a field as well, the same physics in closed form. With contacts, or with
    ball or free joints, it gives data only. The state of these is a position and a unit quaternion,
    and the velocity its rate.

    Args:
        path: of the MJCF file.
        context: a `ModelParameter` for each name.
        dt: sampling interval; the timestep of the file by default.
        step: largest step of the simulation; the timestep of the file by default.
        duration: of the trajectories in a dataset.
        horizon: default length of a rollout; that duration by default.
        transient: simulated before the first sample.
        start: (n,) positions that trajectories start from, at rest; those of the first keyframe, or
            of the file.
        spread: in the training set, starts are uniform within start ± spread, one number or one per
            joint.
        contacts: whether contacts are simulated.
        control: of the actuators, constant; zero by default.
        name: of the system in files; that of the file by default.

    Raises:
        FileError: no file, or none that MuJoCo reads.
        InputError: no joints, actuators with a state of their own, or parameters that set nothing.

    Example:
        >>> from pathlib import Path
        >>> import romkit
        >>> from romkit.systems import ModelParameter
        >>> path = Path("arm.xml")
        >>> _ = path.write_text('''<mujoco model="arm"><worldbody><body><joint name="hinge" axis="0 1 0"/>
        ...   <geom name="link" type="capsule" size="0.05" fromto="0 0 0 0 0 -0.5"/></body></worldbody></mujoco>''')
        >>> length = ModelParameter(0.3, 0.6, {"geom/link.fromto[5]": -1}, units="m")
        >>> arm = romkit.systems.MuJoCo(path, context={"length": length}, start=[0.3])
        >>> dict(romkit.simulate(arm, length=[0.4, 0.5], duration=0.02).state.sizes)
        {'trajectory': 2, 'time': 11, 'component': 1}
    """

    time_units = "s"

    def __init__(
        self,
        path: FilePath,
        *,
        context: Mapping[str, ModelParameter],
        dt: Positive | None = None,
        step: Positive | None = None,
        duration: Positive = 5.0,
        horizon: Positive | None = None,
        transient: NotNegative = 0.0,
        start: Sequence[Finite] | None = None,
        spread: NotNegative | Sequence[NotNegative] = 0.0,
        contacts: bool = False,
        control: Sequence[Finite] = (),
        name: str | None = None,
    ):
        self.path, self.parameters, self.contacts = existing(path), context, contacts
        try:
            self.spec = mujoco.MjSpec.from_file(str(self.path))
        except ValueError as error:
            problem, fix = f"is no MJCF ({reason(error)})", "check it with MuJoCo's viewer"
            raise FileError(path, problem=problem, fix=fix) from error
        middle = self.compiled([(p.low + p.high) / 2 for p in context.values()])
        self.name = Path(path).stem if name is None else name
        parameters = (
            (key, p.units, p.low, p.high, p.long_name or key) for key, p in context.items()
        )
        self.context = tuple(ContextParameter(*parameter) for parameter in parameters)
        self.joints = Joints.of(middle)
        self.state_names, self.state_units = self.joints.names, self.joints.units
        self.step = middle.opt.timestep if step is None else step
        self.dt = self.step if dt is None else dt
        self.duration, self.transient = duration, transient
        self.horizon = duration if horizon is None else horizon
        first = middle.key_qpos[0] if middle.nkey else middle.qpos0
        self.first = tensors.states(
            "start", first if start is None else start, len(self.state_names), 1
        )[0]
        if not all(self.first[place : place + 4].any() for place, _ in self.joints.turns):
            fix = "give 1, 0, 0, 0 for one that is not turned"
            raise InputError("start", expected="quaternions", got="one of zeros", fix=fix)
        self.spread = torch.tensor(spread, dtype=torch.float64)
        if self.spread.ndim:
            checks.last_axis("spread", self.spread.shape, len(self.first), "the joints")
        if control:
            checks.last_axis("control", (len(control),), middle.nu, "the actuators")
        if middle.na:
            fix = "leave out their activation (dyntype, timeconst): it is a state that data do not have"
            raise InputError(
                "model", expected="actuators without a state of their own", got="others", fix=fix
            )
        self.control = tuple(float(u) for u in control) or (0.0,) * middle.nu
        self._unsmooth = unsmooth(middle)

    def compiled(self, values: Sequence[float], step: float | None = None) -> "mujoco.MjModel":
        """The model with these values of the parameters, without resets; frictionless steps are
        those of RK4.

        Raises:
            InputError: a target that is not there, or values that make no model.
        """
        spec = self.spec.copy()
        flags = (
            mujoco.mjtDisableBit.mjDSBL_AUTORESET
        )  # a diverged state must not turn into a valid one
        if not self.contacts:
            flags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
            spec.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
        spec.option.disableflags |= int(flags)
        if step is not None:
            spec.option.timestep = step
        for parameter, value in zip(self.parameters.values(), values, strict=True):
            parameter.apply(spec, float(value))
        try:
            return spec.compile()
        except ValueError as error:
            got = ", ".join(
                f"{name}={value:g}" for name, value in zip(self.parameters, values, strict=True)
            )
            fix = f"check what they set ({reason(error)})"
            raise InputError(
                "context", expected="values that make a model", got=got, fix=fix
            ) from error

    def acceleration(self, t: Tensor, q: Tensor, v: Tensor, c: Tensor) -> Tensor:
        """q̈ in closed form.

        Raises:
            InputError: the model is not smooth.
        """
        return multibody.acceleration(_like(self._tree(c), q), q, v)

    def field(self, context: Tensor | float | None = None, **named: object) -> SecondOrderField:
        tree = self._tree(self._context_tensor(context, named))
        return lambda t, q, v: multibody.acceleration(_like(tree, q), q, v)

    def weigh(self, q: Tensor, u: Tensor, c: Tensor) -> Tensor:
        """M(q; c) u."""
        return multibody.mass_matrix(_like(self._tree(c), q), q) @ u

    def metric(self, context: Tensor) -> Metric:
        tree = self._tree(self._context_tensor(context, {}))
        return lambda q, u: multibody.mass_matrix(_like(tree, q), q) @ u

    def initial_state(self, contexts: Tensor, rng: np.random.Generator | None) -> Tensor:
        shape = (*contexts.shape[:-1], len(self.first))
        apart = (
            0.0 if rng is None else torch.from_numpy(rng.uniform(-1, 1, size=shape)) * self.spread
        )
        return torch.from_numpy(self.joints.normalised((self.first + apart).expand(shape).numpy()))

    def provenance(self) -> dict[str, object]:
        parameters = {"path": str(self.path), "control": self.control, "contacts": self.contacts}
        return super().provenance() | {"parameters": json.dumps(parameters), "step": self.step}

    @property
    def simulator(self) -> str:
        """MuJoCo, with its integrator."""
        return "MuJoCo, the integrator of the file" if self.contacts else "MuJoCo, RK4"

    def make_solver(self, context: Tensor) -> Solver:
        models, joints = functools.partial(self._compiled, context), self.joints
        return engine.Simulator(
            self.simulator, self.step, models, joints.of_states, joints.states, self.control
        )

    def rate_along(self, context: Tensor, times: Tensor, q: Tensor, v: Tensor) -> Tensor:
        """MuJoCo's own accelerations, with contacts and all."""
        motion = torch.cat([q, v], dim=-1)
        places, speeds = self.joints.of_states(motion.reshape(-1, *motion.shape[-2:]).cpu().numpy())
        found = engine.accelerations(self._compiled(context), places, speeds, self.control)
        return torch.from_numpy(self.joints.second(places, speeds, found)).to(q).reshape(q.shape)

    def _compiled(self, context: Tensor, step: float | None = None) -> list:
        rows = (
            context.detach().cpu().double().reshape(context.shape[:-1].numel(), len(self.context))
        )
        return [self.compiled(row, step) for row in rows.numpy()]

    def _tree(self, c: Tensor) -> multibody.Tree:
        """The bodies at contexts (..., p), constants with the same leading axes."""
        if self._unsmooth:
            fix = "take them out of the model; or fit laws to its data, which need no field"
            raise InputError(
                "system",
                expected="a smooth model",
                got=f"one with {', '.join(self._unsmooth)}",
                fix=fix,
            )
        with (
            torch._C._DisableFuncTorch()
        ):  # inside torch.func, tensors have no numbers, not even those from outside
            models = self._compiled(c)
        return tree_of(models, c.shape[:-1], self.control)


def tree_of(
    models: Sequence[object], lead: Sequence[int], control: Sequence[float]
) -> multibody.Tree:
    """The closed form of models with equal joints; constants have the leading axes `lead`."""

    def stacked(rows: Sequence[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(rows)).reshape(*lead, *rows[0].shape)

    names = ("body_pos", "body_quat", "body_ipos", "body_iquat", "body_mass", "body_inertia")
    names += ("jnt_axis", "jnt_pos", "qpos0", "dof_armature")
    one, part = (
        models[0],
        {name: stacked([getattr(model, name) for model in models]) for name in names},
    )
    own, inner = (_matrices(part[name]) for name in ("body_quat", "body_iquat"))
    inertia = inner @ torch.diag_embed(part["body_inertia"]) @ inner.mT
    bodies = []
    for b in range(one.nbody):
        joints = (
            range(one.body_jntadr[b], one.body_jntadr[b] + one.body_jntnum[b])
            if one.body_jntnum[b]
            else ()
        )
        slides, axes, anchors, references = (
            one.jnt_type == SLIDE,
            part["jnt_axis"],
            part["jnt_pos"],
            part["qpos0"],
        )
        made = (
            multibody.Joint(k, slides[k], axes[..., k, :], anchors[..., k, :], references[..., k])
            for k in joints
        )
        place = part["body_pos"][..., b, :], own[..., b, :, :]
        load = part["body_mass"][..., b], part["body_ipos"][..., b, :], inertia[..., b, :, :]
        bodies.append(multibody.Body(int(one.body_parentid[b]), *place, tuple(made), *load))
    forces = zip(*(engine.affine_forces(model, control) for model in models), strict=True)
    return multibody.Tree(tuple(bodies), *map(stacked, forces), part["dof_armature"])


def _matrices(quaternion: Tensor) -> Tensor:
    """(..., 3, 3) rotations of unit quaternions (..., 4), w first."""
    w, axis = quaternion[..., 0], quaternion[..., 1:]
    norm = axis.norm(dim=-1)
    unit = axis / torch.where(norm > 0, norm, 1.0).unsqueeze(-1)
    return multibody.rotation(unit, 2 * torch.atan2(norm, w))


def _like(tree: multibody.Tree, q: Tensor) -> multibody.Tree:
    """The constants in the precision of q, with axes put in behind those of the context where q has
    more.
    """
    lead = tree.gravity.ndim - 1
    missing = (1,) * (q.ndim - 1 - lead)

    def lifted(x: object) -> object:
        return (
            x.to(q).reshape((*x.shape[:lead], *missing, *x.shape[lead:]))
            if isinstance(x, Tensor)
            else x
        )

    return tree_map(lifted, tree)
