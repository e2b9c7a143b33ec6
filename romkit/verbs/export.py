"""`romkit.export`: a reduced model that leaves Python, as plain C, as an FMU or as PyTorch
programs.
"""

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import torch
from torch import Tensor

from romkit.core import checks, files, runtime
from romkit.core.boundary import FilePath, Positive, validated
from romkit.core.errors import InputError, one_line, warn
from romkit.core.types import Field
from romkit.core.version import VERSION
from romkit.engine import Trace, Unsupported, trace
from romkit.engine.build import Unavailable
from romkit.engine.portable import source
from romkit.engine.threads import one_thread
from romkit.integrators import LatentDynamics, LatentField
from romkit.models import Dynamics, ReducedModel, check_match, constant
from romkit.projections import Projection
from romkit.solvers import checked_step
from romkit.solvers.fixed import step_by_tensor
from romkit.systems import System
from romkit.verbs import fmu

Function = Callable[[Tensor], Tensor]

Platform = Annotated[str, checks.choice(fmu.PLATFORMS)]

CHECKED_STEPS = 50
"""Steps of an FMU that are compared with a solution to a tolerance."""

NAMES_TOLD = 8
"""Components of the state that a comment in C names."""


@validated
def export(
    projection: Projection,
    path: FilePath,
    *,
    dynamics: Dynamics | None = None,
    system: System | None = None,
    outputs: Sequence[str] | None = None,
    dt: Positive | None = None,
    platforms: Sequence[Platform] | None = None,
) -> Path:
    """Write a reduced model that runs without romkit: the context is an argument there, not a
    constant.

    The ending of the path chooses what is written:

    - `model.c`, with `model.h` beside it: plain C99, in double precision, by the compiler of the
      engine (see docs/engine.md). The hyper-network runs in `model_set_context`, not in each step.
    - `model.fmu`: that C as an FMU of FMI 3.0 for co-simulation, compiled for this platform or for
      several. Inputs are the context and the inputs of a law; outputs are the latent state, which has start values,
      and components of the state.
    - `model.pt2`, with `model-encode.pt2` and `model-decode.pt2` beside it: programs of
      `torch.export` for any number of trajectories: a step of RK4 (t, h, latent, context) ->
      latent, (state, context) -> latent, and (latent, context) -> state. Of a law with inputs, the
      step takes `control` behind the context.

    A latent state of dynamics of order two is (z, ż), and a state (q, q̇). Encoding is ρ, while
    rollouts of `Galerkin` begin at the point of the manifold nearest to the state: the same for
    states on it. Inputs stay during a step.

    Args:
        projection: a single one.
        path: the file; its name is that of the model in C.
        dynamics: how the latent state moves, by a differential equation; by default as in the
            rollouts that the projection was trained with, and `Galerkin()` for one that was not.
        system: the full-order model, for dynamics that look at it.
        outputs: of an FMU: names of components, `der(name)` for their velocities; all by default.
        dt: of an FMU: its longest step, into which longer steps of the simulation are cut;
            `system.dt` by default.
        platforms: of an FMU: names of the standard, "x86_64-linux", "aarch64-linux",
            "x86_64-windows", "x86_64-darwin" and "aarch64-darwin"; this one by default. Others need
            the extra `compiler`.

    Returns:
        The path.

    Raises:
        InputError: a stack of seeds, dynamics without a differential equation or that need a system
            and get none, operations without a compiled form, another ending, outputs that are no
            components, no compiler.
        FileError: the file cannot be written.

    Example:
        >>> import romkit
        >>> path = romkit.export(romkit.load("ncae-lorenz96"), "model.c", system=romkit.systems.Lorenz96())
        >>> "void model_step(const struct model *model, double t" in path.with_suffix(".h").read_text()
        True
    """
    asked = {"outputs": outputs, "dt": dt, "platforms": platforms}
    target, options = _checked(projection, path, system, asked)
    model = ReducedModel.of(projection, dynamics, system)
    _check_steps(model.dynamics)
    with torch.no_grad(), one_thread():
        _try(model)
        try:
            WRITERS[_ending(target)](model, target, **options)
        except Unavailable as verdict:
            fix = "set CC to one, or export model.c"
            raise InputError(
                "path", expected="a compiler for an FMU", got=str(verdict), fix=fix
            ) from verdict
        except Unsupported as verdict:
            raise InputError(
                "dynamics" if system is None else "system",
                expected="operations that can be exported",
                got=str(verdict),
                fix="docs/engine.md lists them",
            ) from verdict
    return target


def _checked(
    projection: Projection,
    path: FilePath,
    system: System | None,
    asked: dict[str, object],
) -> tuple[Path, dict[str, object]]:
    """The file to write, and the options of its writer."""
    target = files.expanded(path)
    ending = checks.ending("path", target, WRITERS)
    if not re.fullmatch(r"[A-Za-z]\w*", target.stem, flags=re.ASCII):
        raise InputError(
            "path",
            expected="a name of letters, digits and _",
            got=target.stem,
            fix="give 'model.c', say: names in C begin with it",
        )
    if projection.seeds is not None:
        raise InputError(
            "projection",
            expected="a single one",
            got=f"a stack of {projection.seeds} seeds",
            fix="export one of them, romkit.projections.unstack(projection)[0]",
        )
    if system is not None:
        check_match(system, projection)
    return target, _options(ending, system, asked)


def _options(ending: str, system: System | None, asked: dict[str, object]) -> dict[str, object]:
    """Options of an FMU; other files have none."""
    options = {name: value for name, value in asked.items() if value is not None}
    if ending != "fmu":
        for name in options:
            fix = "leave it out"
            raise InputError(name, expected="none but for an FMU", got=f"a .{ending}", fix=fix)
        return {}
    if system is not None:
        options.setdefault("dt", system.dt)
    if "dt" not in options:
        fix = "give its longest step"
        raise InputError("dt", expected="a number for an FMU of a law", got="None", fix=fix)
    return options


def _check_steps(dynamics: LatentDynamics) -> None:
    """Raise InputError for dynamics that step in time by themselves."""
    if type(dynamics).solve is LatentField.solve:
        return
    raise InputError(
        "dynamics",
        expected="dynamics that RK4 integrates",
        got=type(dynamics).__name__,
        fix="take Galerkin(), PetrovGalerkin() or a law",
    )


def _ending(target: Path) -> str:
    return target.suffix.removeprefix(".").lower()


def _try(model: ReducedModel) -> None:
    """Evaluate the model once, so that those who look at values refuse what does not fit."""
    t, latent, state, context, control = _examples(model)
    rate, encode, decode = _bound(model, context, control)
    rate(t, latent)
    encode(state)
    decode(latent)


def _examples(model: ReducedModel) -> tuple[Tensor, ...]:
    """Time, and latent state, state, context and control of one trajectory."""
    full_size = model.order * len(model.projection.frame.state_names)
    sizes = (model.latent_size, full_size, len(model.dynamics.control_names))
    latent, state, control = (torch.zeros(1, size, dtype=torch.float64) for size in sizes)
    return torch.zeros((), dtype=torch.float64), latent, state, model.middle, control


def _bound(
    model: ReducedModel, context: Tensor, control: Tensor
) -> tuple[Field, Function, Function]:
    """The rate of latent states, the encoder and the decoder at contexts (C, p) and inputs (C, q)
    that stay.
    """
    inputs = (lambda t: control) if model.dynamics.control_names else None
    bound = model.at(constant(context), inputs)

    def encode(x: Tensor) -> Tensor:
        return bound.encode(x.chunk(model.order, dim=-1))

    def decode(w: Tensor) -> Tensor:
        return torch.cat(bound.decode(w), dim=-1)

    return bound.field, encode, decode


def _traced(model: ReducedModel) -> Trace:
    def evaluate(
        t: Tensor, latent: Tensor, state: Tensor, context: Tensor, control: Tensor
    ) -> tuple[Tensor, ...]:
        rate, encode, decode = _bound(model, context, control)
        return rate(t, latent), encode(state), decode(latent)

    return trace(evaluate, *_examples(model))


def _write_c(model: ReducedModel, target: Path) -> None:
    made = source(target.stem, _about(model), _traced(model))
    for file, text in ((target, made.code), (target.with_suffix(".h"), made.header)):
        with files.atomic(file) as temporary:
            temporary.write_text(text, encoding="utf-8")


def _about(model: ReducedModel) -> list[str]:
    """Lines that say what the model is, and what its arguments are."""
    frame, dynamics = model.projection.frame, model.dynamics
    states = ", ".join(frame.state_names[:NAMES_TOLD])
    more = ", ..." if len(frame.state_names) > NAMES_TOLD else ""
    velocities = ", then their velocities" if model.order == 2 else ""
    context = ", ".join(map("{} [{}]".format, frame.context_names, frame.context_units))
    lines = [
        f"Reduced model by romkit {VERSION}: {type(dynamics).__name__} on {model.projection!r}",
        f"state: {states}{more}{velocities}",
        f"context: {context or 'none'}",
        f"control: {', '.join(dynamics.control_names) or 'none'}",
    ]
    return [one_line(line).replace("\\", "/") for line in lines]


def _write_fmu(
    model: ReducedModel,
    target: Path,
    *,
    dt: float,
    outputs: Sequence[str] | None = None,
    platforms: Sequence[str] | None = None,
) -> None:
    state = _outputs(model)
    for name in outputs or ():
        checks.one_of("outputs", name, state)
    frame, about = model.projection.frame, _about(model)
    context = model.middle[0].tolist()
    variables = fmu.variables(
        list(zip(frame.context_names, frame.context_units, context, strict=True)),
        model.dynamics.control_names,
        _mean_latent(model),
        list(state.items()),
        frame.fields.time_units or "1",
    )
    code = source("model", about, _traced(model))
    shown = set(state if outputs is None else outputs)
    step = _short_enough(model, dt)
    fmu.write(target, code, variables, shown, step, about[0], platforms)


def _short_enough(model: ReducedModel, dt: float) -> float:
    """The step, or a shorter one where its RK4 errs too much on the way from the mean state.

    A law with inputs is taken as it is: what they will be is not known.
    """
    if model.dynamics.control_names:
        return dt
    start = torch.tensor([_mean_latent(model)], dtype=torch.float64)
    times = dt * torch.arange(CHECKED_STEPS + 1, dtype=torch.float64)
    with one_thread():
        step = checked_step(model.at_constant(model.middle).field, start, times, rtol=1e-5, dt=dt)
    if step < dt:
        fix = "give a shorter dt to choose it yourself"
        warn(
            f"dt: {dt:g} is too long for RK4 here; the FMU takes {step:.3g}; {fix}", RuntimeWarning
        )
    return step


def _outputs(model: ReducedModel) -> dict[str, str]:
    """Unit of each component of the state, and of `der(name)` for velocities."""
    frame = model.projection.frame
    units = {
        name: unit or "1" for name, unit in zip(frame.state_names, frame.state_units, strict=True)
    }
    if model.order == 1:
        return units
    seconds = frame.fields.time_units or "1"
    per_time = "" if seconds == "1" else f"/{seconds}"
    return units | {f"der({name})": f"{unit}{per_time}" for name, unit in units.items()}


def _mean_latent(model: ReducedModel) -> list[float]:
    """Latent state of the mean training state, at rest."""
    frame = model.projection.frame
    state, context, control = _examples(model)[2:]
    mean = frame.denormalise(torch.zeros(1, frame.size, dtype=torch.float64))
    state[:, : mean.shape[-1]] = mean
    _, encode, _ = _bound(model, context, control)
    return encode(state)[0].tolist()


def _write_programs(model: ReducedModel, target: Path) -> None:
    _traced(model)  # its words for what no program can do are clearer than those of torch.export
    t, latent, state, context, control = (
        torch.cat([x, x]) if x.ndim else x for x in _examples(model)
    )
    inputs = (control,) if model.dynamics.control_names else ()

    def step(t: Tensor, h: Tensor, w: Tensor, c: Tensor, u: Tensor = control) -> Tensor:
        return step_by_tensor(_bound(model, c, u)[0], t, w, h)

    def encode(x: Tensor, c: Tensor) -> Tensor:
        return _bound(model, c, control)[1](x)

    def decode(w: Tensor, c: Tensor) -> Tensor:
        return _bound(model, c, control)[2](w)

    programs = {
        target: (step, (t, t + 0.01, latent, context, *inputs)),
        target.with_stem(f"{target.stem}-encode"): (encode, (state, context)),
        target.with_stem(f"{target.stem}-decode"): (decode, (latent, context)),
    }
    trajectories = {0: torch.export.Dim("trajectories", min=1)}
    for file in runtime.track(programs, "programs"):
        function, arguments = programs[file]
        dims = tuple(trajectories if argument.ndim else None for argument in arguments)
        shapes = {"arguments": dims}
        try:
            program = torch.export.export(_Program(function), arguments, dynamic_shapes=shapes)
        except Exception as error:  # of any kind: the field is the user's
            raise Unsupported(f"torch.export cannot write it ({files.reason(error)})") from error
        # Into memory first: where a disk is full, torch ends the whole interpreter.
        content = io.BytesIO()
        torch.export.save(program, content)
        with files.atomic(file) as temporary:
            temporary.write_bytes(content.getbuffer())


class _Program(torch.nn.Module):
    def __init__(self, function: Callable[..., Tensor]):
        super().__init__()
        self.function = function

    def forward(self, *arguments: Tensor) -> Tensor:
        return self.function(*arguments)


WRITERS = {"c": _write_c, "fmu": _write_fmu, "pt2": _write_programs}
