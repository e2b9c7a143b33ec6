"""MuJoCo models of the user's own as systems: `romkit.systems.MuJoCo("model.xml", context={...})`."""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from romkit.core import checks, tensors
from romkit.core.boundary import FilePath, Finite, NotNegative, Positive, validated
from romkit.core.errors import FileError, InputError, warn
from romkit.core.files import existing, reason
from romkit.core.types import Array, ContextFunction, Entries, Metric, SecondOrderField
from romkit.data import ContextParameter
from romkit.data.contexts import bound_context
from romkit.solvers import Solver
from romkit.systems.mechanical import MechanicalSystem
from romkit.systems.mujoco import engine, model, multibody
from romkit.systems.mujoco.command import Commands, Constant, signal_of
from romkit.systems.mujoco.engine import mujoco
from romkit.systems.mujoco.joints import Joints
from romkit.systems.mujoco.parameters import ModelParameter
from romkit.systems.mujoco.tree import Driven, like

T = TypeVar("T")


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
        start: (n,) positions that trajectories start from, at rest; by default positions and
            velocities of the first keyframe, or the positions of the file, at each context.
        spread: in the training set, starts are uniform within start ± spread, one number or one per
            joint.
        contacts: whether contacts are simulated; by default they are not, with a warning where a
            body may touch the floor or another mechanism.
        control: of the actuators: for each a number or a function of time, or rows of samples (T,
            nu) every `dt`, held in between; by default that of the first keyframe, or zero.
            Functions are evaluated in the middle of each step.
        name: of the system in files; that of the file by default.

    Raises:
        FileError: no file, or none that MuJoCo reads and compiles.
        InputError: no joints, states beyond positions and velocities (activations, delays), or
            parameters that change nothing.

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
        contacts: bool | None = None,
        control: object = (),
        name: str | None = None,
    ):
        self.path = existing(path)
        self.parameters = context
        self.contacts = bool(contacts)
        self.name = _or(name, Path(path).stem)
        self.context = tuple(
            ContextParameter(key, entry.units, entry.low, entry.high, entry.long_name or key)
            for key, entry in context.items()
        )
        self.spec = _read(path)
        middle = self._compiled_middle()
        model.check_state(middle)
        self.joints = Joints.read(middle)
        self.state_names = self.joints.names
        self.state_units = self.joints.units
        self.step = _or(step, middle.opt.timestep)
        self.dt = _or(dt, self.step)
        self.duration, self.transient = duration, transient
        self.horizon = _or(horizon, duration)
        self.spread = torch.tensor(spread, dtype=torch.float64)
        if self.spread.ndim:
            checks.last_axis("spread", self.spread.shape, middle.nq, "the joints")
        self._start = None
        if start is not None:
            (state,) = tensors.states("start", start, middle.nq, 1)
            self._start = state.numpy()
        for place, _ in self.joints.turns:
            if not self._positions(middle)[place : place + 4].any():
                raise InputError(
                    "start",
                    expected="quaternions",
                    got="a quaternion of zeros",
                    fix="give 1, 0, 0, 0 for no rotation",
                )
        self.control = self._signal(control, middle)
        self._unsmooth = model.unsmooth(middle)
        self._check_parameters()
        if contacts is None:
            self._check_contacts(middle)

    # -- the model at a context ------------------------------------------------------------------

    def compiled(self, values: Sequence[float], step: float | None = None) -> "mujoco.MjModel":
        """Return the model with these values of the parameters, without resets; frictionless steps
        are those of RK4.

        Raises:
            InputError: a target that is not there, or values that make no model.
        """
        values = [float(value) for value in values]

        def settings(spec: "mujoco.MjSpec") -> None:
            for parameter, value in zip(self.parameters.values(), values, strict=True):
                parameter.apply(spec, value)

        try:
            return self._compile(settings, step)
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            pairs = zip(self.parameters, values, strict=True)
            raise InputError(
                "context",
                expected="values that make a model",
                got=", ".join(f"{name}={value:g}" for name, value in pairs),
                fix=f"check what they set ({reason(error)})",
            ) from error

    def _compile(
        self, settings: Callable[["mujoco.MjSpec"], None], step: float | None = None
    ) -> "mujoco.MjModel":
        """Raise ValueError: MuJoCo's, of what makes no model."""
        spec = self.spec.copy()
        # a diverged state must not turn into a valid one
        flags = mujoco.mjtDisableBit.mjDSBL_AUTORESET
        if not self.contacts:
            flags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
            spec.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
        spec.option.disableflags |= int(flags)
        settings(spec)
        if step is not None:
            spec.option.timestep = step
        return spec.compile()

    def _compiled_middle(self) -> "mujoco.MjModel":
        """Return the model in the middle of its range.

        Raises:
            FileError: MuJoCo does not compile the file, whatever the parameters.
        """
        try:
            return self.compiled(self._middle())
        except InputError as error:
            if error.argument != "context":
                raise
            try:
                self._compile(lambda spec: None)
            except ValueError as plain:
                raise FileError(
                    self.path,
                    problem=f"makes no model ({reason(plain)})",
                    fix="check it with MuJoCo's viewer",
                ) from plain
            raise

    def _compiled(self, context: Tensor, step: float | None = None) -> list["mujoco.MjModel"]:
        return [self.compiled(row, step) for row in self._rows(context)]

    def _rows(self, context: Tensor) -> Array:
        """Return contexts (..., p) as (N, p)."""
        members = context.shape[:-1].numel()
        rows = context.detach().cpu().double()
        return rows.reshape(members, len(self.context)).numpy()

    def _middle(self) -> list[float]:
        return [(p.low + p.high) / 2 for p in self.parameters.values()]

    # -- start and commands ----------------------------------------------------------------------

    def _positions(self, compiled: "mujoco.MjModel") -> Array:
        """(nq,) that trajectories start from."""
        if self._start is not None:
            return self._start
        if compiled.nkey:
            return compiled.key_qpos[0]
        return compiled.qpos0

    def _velocities(self, compiled: "mujoco.MjModel") -> Array:
        """(nv,) that trajectories start with."""
        if self._start is None and compiled.nkey:
            return compiled.key_qvel[0]
        return np.zeros(compiled.nv)

    def initial_state(self, contexts: Tensor, rng: Generator | None) -> Tensor:
        shape = (*contexts.shape[:-1], len(self.state_names))
        starts = [self._positions(compiled) for compiled in self._compiled(contexts)]
        q = np.zeros(shape)
        if starts:
            q = np.stack(starts).reshape(shape)
        if rng is not None:
            shift = rng.uniform(-1, 1, size=shape)
            q = q + shift * self.spread.numpy()
        return torch.from_numpy(self.joints.normalised(q))

    def initial_velocity(self, contexts: Tensor, rng: Generator | None) -> Tensor:
        positions, velocities = [], []
        for compiled in self._compiled(contexts):
            positions.append(self._positions(compiled))
            velocities.append(self._velocities(compiled))
        q = self.joints.normalised(np.stack(positions))
        rates = self.joints.rates(q, np.stack(velocities))
        *lead, _ = contexts.shape
        return torch.from_numpy(rates.reshape(*lead, -1))

    def _signal(self, control: object, middle: "mujoco.MjModel"):
        if callable(control) or len(control) > 0:
            return signal_of(control, middle.nu, self.dt)
        if middle.nkey:
            return Constant(np.array(middle.key_ctrl[0]))
        return Constant(np.zeros(middle.nu))

    def _commands(self, models: Sequence["mujoco.MjModel"], rows: Array) -> Commands:
        """Commands of models at contexts (N, p)."""
        tables = []
        for compiled, values in zip(models, rows, strict=True):
            table = {}  # of commands by actuator
            for parameter, value in zip(self.parameters.values(), values, strict=True):
                table |= parameter.commands(compiled, float(value))
            tables.append(table)
        if not tables:
            return Commands(self.control, [], np.zeros((0, 0)))
        places = sorted(tables[0])
        columns = [[table[place] for place in places] for table in tables]
        return Commands(self.control, places, np.array(columns, dtype=float))

    # -- the field -------------------------------------------------------------------------------

    def acceleration(self, t: Tensor, q: Tensor, v: Tensor, c: Tensor) -> Tensor:
        """q̈ in closed form.

        Raises:
            InputError: the model is not smooth.
        """
        tree = self._driven(c).at(t)
        return multibody.acceleration(like(tree, q), q, v)

    def field(self, context: Tensor | float | None = None, **named: object) -> SecondOrderField:
        driven = self._driven(bound_context(self.context_names, context, named))
        return lambda t, q, v: multibody.acceleration(like(driven.at(t), q), q, v)

    def weigh(self, q: Tensor, u: Tensor, c: Tensor) -> Tensor:
        """M(q; c) u."""
        tree = self._driven(c).tree
        return multibody.mass_matrix(like(tree, q), q) @ u

    def metric(self, context: Tensor) -> Metric:
        tree = self._driven(bound_context(self.context_names, context)).tree
        return lambda q, u: multibody.mass_matrix(like(tree, q), q) @ u

    def _driven(self, c: Tensor) -> Driven:
        """Return the bodies at contexts (..., p), constants with the same leading axes."""
        if self._unsmooth:
            raise InputError(
                "system",
                expected="a smooth model",
                got=f"one with {', '.join(self._unsmooth)}",
                fix="remove them from the model, or fit a law to its data: romkit.law",
            )
        # inside torch.func, tensors have no numbers, not even those from outside
        with torch._C._DisableFuncTorch():
            models = self._compiled(c)
            commands = self._commands(models, self._rows(c))
        return Driven.build(models, c.shape[:-1], commands)

    # -- simulation ------------------------------------------------------------------------------

    @property
    def only_solver(self) -> str:
        """MuJoCo, with its integrator."""
        if self.contacts:
            return "MuJoCo, the integrator of the file"
        return "MuJoCo, RK4"

    def default_solver(self, context: Tensor | ContextFunction) -> Solver:
        assert isinstance(context, Tensor)  # that stays
        models = functools.partial(self._compiled, context)
        joints = self.joints
        controls = None
        if self.control(np.zeros(1)).shape[-1]:
            controls = self._commands(models(), self._rows(context)).at
        return engine.Simulator(
            self.only_solver, self.step, models, joints.of_states, joints.states, controls
        )

    def advice(self, context: Tensor) -> str:
        """Remedy for a simulation that is lost."""
        shorter = f"shorten its step: MuJoCo(..., step=), which is {self.step:g} s"
        integrator = mujoco.mjtIntegrator(int(self.spec.option.integrator))
        if self.contacts or integrator == mujoco.mjtIntegrator.mjINT_RK4:
            return shorter
        return f"{shorter}; or give contacts=True, which keeps the integrator of the file"

    def rates(self, context: Tensor, times: Tensor, q: Tensor, v: Tensor) -> Tensor:
        """MuJoCo's own accelerations, with contacts and all."""
        motion = torch.cat([q, v], dim=-1)
        motion = motion.reshape(-1, *motion.shape[-2:])  # (N, T, 2n)
        positions, velocities = self.joints.of_states(motion.cpu().numpy())
        clock = times.cpu().double().numpy()
        models = self._compiled(context)
        commands = self._commands(models, self._rows(context))
        rates = engine.accelerations(models, positions, velocities, commands.at(clock))
        second = self.joints.second(positions, velocities, rates)
        return torch.from_numpy(second).to(q).reshape(q.shape)

    def provenance(self) -> Entries:
        control = "over time"
        if isinstance(self.control, Constant):
            control = self.control.values.tolist()
        parameters = {"path": str(self.path), "control": control, "contacts": self.contacts}
        return super().provenance() | {"parameters": json.dumps(parameters), "step": self.step}

    # -- checks ----------------------------------------------------------------------------------

    def _check_motion(self, motion: object, times: Tensor, contexts: Tensor) -> None:
        """Nothing is left to check: parameters without effect are refused with the model."""

    def _check_parameters(self) -> None:
        """Raise where a parameter, or one of its targets, leaves the compiled model as it is."""
        for number, (name, parameter) in enumerate(self.parameters.items()):
            if parameter.low == parameter.high:
                continue
            if self._share_ends(number, parameter):
                span = f"{parameter.low:g} to {parameter.high:g}"
                raise _effect_refusal(name, f"{name}={span}")
            for target, alone in _single_targets(parameter).items():
                if self._share_ends(number, alone):
                    raise _effect_refusal(name, repr(target))

    def _share_ends(self, number: int, parameter: ModelParameter) -> bool:
        """Tell whether a parameter in place of the one of this number changes nothing over its
        range.
        """
        middle = self._middle()

        def facts(value: float) -> dict[str, Array]:
            def settings(spec: "mujoco.MjSpec") -> None:
                for fixed, at in zip(self.parameters.values(), middle, strict=True):
                    fixed.apply(spec, at)
                parameter.apply(spec, value)

            compiled = self._compile(settings)
            commands = parameter.commands(compiled, value)
            start = {"start": self._positions(compiled), "speed": self._velocities(compiled)}
            numbers = start | {"commands": np.array([*commands.values()])}
            if self._unsmooth:
                return numbers | model.constants(compiled)
            return numbers | self._mechanics(compiled)

        try:
            return model.same(facts(parameter.low), facts(parameter.high))
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            # one end makes no model, without the other targets: it has an effect
            return False

    def _mechanics(self, compiled: "mujoco.MjModel", *, probes: int = 8) -> dict[str, Array]:
        """Inertia and accelerations of a smooth model at random states, with its commands.

        `probes`: random states at which two smooth models are compared.
        """
        draw = np.random.default_rng(0)
        q, v = draw.normal(size=(2, probes, compiled.nv))
        controls = self.control(np.linspace(0, self.duration, probes))
        rates = engine.accelerations([compiled], q[None], v[None], controls[None])
        return {"inertia": engine.inertia(compiled, q), "acceleration": rates}

    def _check_contacts(self, middle: "mujoco.MjModel", *, named: int = 3) -> None:
        """Warn where bodies of different mechanisms may touch, and will not feel it."""
        if self.spec.option.disableflags & int(mujoco.mjtDisableBit.mjDSBL_CONTACT):
            return
        pairs = model.may_touch(middle)
        if not pairs:
            return
        names = pairs[:named]
        if len(pairs) > named:
            names.append("...")
        bodies = f"bodies that may touch ({', '.join(names)})"
        fix = "give contacts=True to simulate contacts, or contacts=False"
        warn(f"contacts: {self.name} has {bodies}, and will not feel it; {fix}", UserWarning)


def _or(value: T | None, default: T) -> T:
    """Return the value, or the default for None."""
    return default if value is None else value


def _single_targets(parameter: ModelParameter) -> dict[str, ModelParameter]:
    """Return parameters that set one target each, of one that sets several."""
    if callable(parameter.sets) or len(parameter.sets) < 2:
        return {}
    low = parameter.low
    high = parameter.high
    return {
        target: ModelParameter(low, high, {target: factor})
        for target, factor in parameter.sets.items()
    }


def _read(path: FilePath) -> "mujoco.MjSpec":
    try:
        return mujoco.MjSpec.from_file(str(path))
    except ValueError as error:
        raise FileError(
            path, problem=f"is no MJCF ({reason(error)})", fix="check it with MuJoCo's viewer"
        ) from error


def _effect_refusal(name: str, target: str) -> InputError:
    return InputError(
        f"context {name}",
        expected="targets that change the motion",
        got=f"{target}, which leaves the compiled model as it is",
        fix="set what the file uses: an <inertial>, fromto or mass there comes before it",
    )
