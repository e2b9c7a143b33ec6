"""`romkit.export`: a reduced model that leaves Python, as plain C, as an FMU or as PyTorch
programs.
"""

import contextlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import torch
from torch import Tensor

from romkit.core import checks, files, runtime
from romkit.core.boundary import FilePath, Positive, validated
from romkit.core.errors import InputError, one_line, warn
from romkit.core.types import Entries, Field, NameSequence, TensorFunction, TensorTuple
from romkit.core.version import VERSION
from romkit.data import Control
from romkit.data.spelling import known_name
from romkit.engine import Trace, Unsupported, trace
from romkit.engine.build import Unavailable
from romkit.engine.portable import source
from romkit.engine.threads import one_thread
from romkit.integrators import LatentDynamics, LatentField
from romkit.models import Dynamics, ReducedModel, check_match, constant
from romkit.projections import Projection
from romkit.projections.storage import check_single
from romkit.solvers import checked_step
from romkit.solvers.fixed import step_tensor
from romkit.systems import System
from romkit.verbs import fmu

Function = Callable[[Tensor], Tensor]

Platform = Annotated[str, checks.choice(fmu.PLATFORMS)]

KEYWORDS = """
auto bool break case catch char class const continue default delete do double else enum explicit export
extern false float for friend goto if inline int long mutable namespace new operator private protected
public register restrict return short signed sizeof static struct switch template this throw true try
typedef typename union unsigned using virtual void volatile while
"""
"""Keywords of C and C++, which may include the header."""

HEADERS = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg
stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
"""
"""Headers of the standard library, which a header of this name beside the model would hide."""

TAKEN_IN_C = {*KEYWORDS.split(), *HEADERS.split()}


@validated
def export(
    projection: Projection,
    path: FilePath,
    *,
    dynamics: Dynamics | None = None,
    system: System | None = None,
    outputs: NameSequence | None = None,
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
    states on it.

    Inputs stay during a step where the law was fitted to inputs that are held, or does not say
    (`law.held`). Of a law that was fitted to straight lines, a step takes the inputs at both of its
    ends, and an FMU their slopes `der(name)`.

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

    Warns:
        RuntimeWarning: an FMU takes a shorter step than `dt`, or has slopes of inputs.

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
    asked: Entries = {"outputs": outputs, "dt": dt, "platforms": platforms}
    target, ending = _checked(projection, path, system)
    options = _options(ending, system, asked)
    model = ReducedModel.build(projection, dynamics, system)
    _check_steps(model.dynamics)
    with torch.no_grad(), one_thread():
        # evaluate the model once, so that those who look at values refuse what does not fit
        t, latent, state, context, control = _examples(model)
        rate, encode, decode = _bound(model, context, _inputs(model, control))
        rate(t, latent)
        encode(state)
        decode(latent)
        try:
            WRITERS[ending](model, target, **options)
        except Unavailable as verdict:
            raise InputError(
                "path",
                expected="a compiler for an FMU",
                got=str(verdict),
                fix="set CC to one, or export model.c",
            ) from verdict
        except Unsupported as verdict:
            raise InputError(
                "dynamics" if system is None else "system",
                expected="operations that can be exported",
                got=str(verdict),
                fix="docs/engine.md lists them",
            ) from verdict
    return target


def _checked(projection: Projection, path: FilePath, system: System | None) -> tuple[Path, str]:
    """Return the file to write, and its ending."""
    target = files.expanded(path)
    ending = checks.ending("path", target, WRITERS)
    is_taken = ending == "c" and target.stem in TAKEN_IN_C
    if is_taken or not re.fullmatch(r"[A-Za-z]\w*", target.stem, flags=re.ASCII):
        raise InputError(
            "path",
            expected="a name of letters, digits and _ that neither C nor one of its headers has",
            got=target.stem,
            fix="give 'model.c', say: names in C begin with it",
        )
    check_single(projection)
    if system is not None:
        check_match(system, projection)
    return target, ending


def _options(ending: str, system: System | None, asked: Entries) -> Entries:
    """Return options of an FMU; other files have none."""
    options = {name: value for name, value in asked.items() if value is not None}
    if ending != "fmu":
        checks.absent(f"beside a .{ending}, which is no FMU", "leave it out", **options)
        return {}
    if system is not None:
        options.setdefault("dt", system.dt)
    if "dt" not in options:
        raise InputError(
            "dt", expected="a number for an FMU of a law", got="None", fix="give its longest step"
        )
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


def _takes_lines(model: ReducedModel) -> bool:
    """Tell whether inputs are straight lines over a step; a law that does not say takes held ones."""
    return bool(model.dynamics.control_names) and model.dynamics.held is False


def _inputs(model: ReducedModel, control: Tensor) -> Control | None:
    """Return inputs (C, q) over time, by numbers that stay: values, and of lines slopes and their
    time.
    """
    q = len(model.dynamics.control_names)
    if not q:
        return None
    if not _takes_lines(model):
        return lambda t: control
    values, slopes, origin = control.split([q, q, 1], dim=-1)
    return lambda t: values + (t - origin) * slopes


def _examples(model: ReducedModel) -> TensorTuple:
    """Time, and latent state, state, context and control (see `_inputs`) of one trajectory."""
    inputs = len(model.dynamics.control_names)
    if _takes_lines(model):
        inputs = 2 * inputs + 1  # values, slopes and the time of the values
    t = torch.zeros((), dtype=torch.float64)
    latent = t.new_zeros(1, model.latent_size)
    n = len(model.projection.frame.state_names)
    state = t.new_zeros(1, model.order * n)
    return t, latent, state, model.middle, t.new_zeros(1, inputs)


def _bound(
    model: ReducedModel, context: Tensor, control: Control | None
) -> tuple[Field, Function, Function]:
    """Return the rate of latent states, the encoder and the decoder at contexts (C, p) that stay."""
    bound = model.at(constant(context), control)

    def encode(x: Tensor) -> Tensor:
        return bound.encode(x.chunk(model.order, dim=-1))

    def decode(w: Tensor) -> Tensor:
        return torch.cat(bound.decode(w), dim=-1)

    return bound.field, encode, decode


def _traced(model: ReducedModel) -> Trace:
    def evaluate(
        t: Tensor, latent: Tensor, state: Tensor, context: Tensor, control: Tensor
    ) -> TensorTuple:
        rate, encode, decode = _bound(model, context, _inputs(model, control))
        return rate(t, latent), encode(state), decode(latent)

    return trace(evaluate, *_examples(model))


def _write_c(model: ReducedModel, target: Path) -> None:
    code, header = source(target.stem, _model_lines(model), _traced(model), _lines(model))
    _write_together({target: code.encode(), target.with_suffix(".h"): header.encode()})


def _write_together(contents: Mapping[Path, bytes | memoryview]) -> None:
    """Write several files: all of them, or none."""
    with contextlib.ExitStack() as stack:
        for file, content in contents.items():
            temporary = stack.enter_context(files.atomic(file))
            temporary.write_bytes(content)


def _lines(model: ReducedModel) -> int:
    """Return number of inputs that are straight lines."""
    return len(model.dynamics.control_names) if _takes_lines(model) else 0


def _model_lines(model: ReducedModel, *, names_told: int = 8) -> list[str]:
    """Return lines that say what the model is, and what its arguments are.

    `names_told`: components of the state that a comment in C names.
    """
    frame = model.projection.frame
    dynamics = type(model.dynamics).__name__
    states = ", ".join(frame.state_names[:names_told])
    if len(frame.state_names) > names_told:
        states += ", ..."
    if model.order == 2:
        states += ", then their velocities"
    parameters = zip(frame.context_names, frame.context_units, strict=True)
    context = ", ".join(f"{name} [{unit}]" for name, unit in parameters)
    lines = [
        f"Reduced model by romkit {VERSION}: {dynamics} on {model.projection!r}",
        f"state: {states}",
        f"context: {context or 'none'}",
        f"control: {_describe_control(model)}",
    ]
    # a backslash at the end of a comment would join the next line to it
    return [one_line(line).replace("\\", "/") for line in lines]


def _describe_control(model: ReducedModel) -> str:
    names = ", ".join(model.dynamics.control_names)
    if not names:
        return "none"
    how = "straight lines" if _takes_lines(model) else "held"
    return f"{names}, {how} over a step"


def _write_fmu(
    model: ReducedModel,
    target: Path,
    *,
    dt: float,
    outputs: NameSequence | None = None,
    platforms: NameSequence | None = None,
) -> None:
    state = _outputs(model)
    shown = set(state)
    if outputs is not None:
        shown = {known_name("outputs", name, state) for name in outputs}
    about = _model_lines(model)
    code = source("model", about, _traced(model), _lines(model))
    if _takes_lines(model):
        # importers hold inputs between communication points, and connect no slope by themselves
        slopes = ", ".join(f"der({name})" for name in model.dynamics.control_names)
        warn(
            "dynamics: expected inputs that are held for an FMU, got a law of straight lines; "
            f"connect their slopes {slopes}, which are 0 by default, or take short steps",
            RuntimeWarning,
        )
    step = _short_enough(model, dt)
    fmu.write(target, code, _variables(model, state), shown, step, about[0], platforms)


def _variables(model: ReducedModel, state: Mapping[str, str]) -> list[fmu.Variable]:
    """Return variables of an FMU, with components of the state by name and unit."""
    frame = model.projection.frame
    middle = model.middle[0].tolist()
    return fmu.variables(
        list(zip(frame.context_names, frame.context_units, middle, strict=True)),
        model.dynamics.control_names,
        _mean_latent(model),
        list(state.items()),
        frame.units.time or "1",
        are_lines=_takes_lines(model),
    )


def _short_enough(model: ReducedModel, dt: float, *, checked_steps: int = 50) -> float:
    """Return the step, or a shorter one where its RK4 errs too much on the way from the mean state.

    A law with inputs is taken as it is: what they will be is not known.

    `checked_steps`: steps of an FMU that are compared with a solution to a tolerance.
    """
    if model.dynamics.control_names:
        return dt
    start = torch.tensor([_mean_latent(model)], dtype=torch.float64)
    times = dt * torch.arange(checked_steps + 1, dtype=torch.float64)
    with one_thread():
        step = checked_step(model.fix_context(model.middle).field, start, times, rtol=1e-5, dt=dt)
    if step < dt:
        fix = "give a shorter dt to choose it yourself"
        warn(
            f"dt: {dt:g} is too long for RK4 here; the FMU takes {step:.3g}; {fix}", RuntimeWarning
        )
    return step


def _outputs(model: ReducedModel) -> dict[str, str]:
    """Return unit of each component of the state, and of `der(name)` for velocities."""
    frame = model.projection.frame
    units = {
        name: unit or "1" for name, unit in zip(frame.state_names, frame.state_units, strict=True)
    }
    if model.order == 1:
        return units
    time = frame.units.time
    per_time = f"/{time}" if time not in ("", "1") else ""
    rates = {f"der({name})": f"{unit}{per_time}" for name, unit in units.items()}
    return units | rates


def _mean_latent(model: ReducedModel) -> list[float]:
    """Latent state of the mean training state, at rest."""
    frame = model.projection.frame
    state, context, control = _examples(model)[2:]
    origin = torch.zeros(1, frame.size, dtype=torch.float64)
    mean = frame.denormalise(origin)
    state[:, : mean.shape[-1]] = mean
    _, encode, _ = _bound(model, context, _inputs(model, control))
    return encode(state)[0].tolist()


def _write_programs(model: ReducedModel, target: Path) -> None:
    _traced(model)  # its words for what no program can do are clearer than those of torch.export
    t, latent, state, context, control = (
        torch.cat([x, x]) if x.ndim else x for x in _examples(model)
    )
    q = len(model.dynamics.control_names)
    inputs: TensorTuple = (control[:, :q],) if q else ()
    if _takes_lines(model):
        at_end = control[:, :q].clone()
        inputs = (control[:, :q], at_end)

    def step(t: Tensor, h: Tensor, w: Tensor, c: Tensor, *u: Tensor) -> Tensor:
        rate, *_ = _bound(model, c, _step_inputs(t, h, *u))
        return step_tensor(rate, t, w, h)

    def encode(x: Tensor, c: Tensor) -> Tensor:
        return _bound(model, c, _step_inputs(t, 1.0, *inputs))[1](x)

    def decode(w: Tensor, c: Tensor) -> Tensor:
        return _bound(model, c, _step_inputs(t, 1.0, *inputs))[2](w)

    programs: dict[Path, tuple[TensorFunction, TensorTuple]] = {
        target: (step, (t, t + 0.01, latent, context, *inputs)),
        target.with_stem(f"{target.stem}-encode"): (encode, (state, context)),
        target.with_stem(f"{target.stem}-decode"): (decode, (latent, context)),
    }
    contents = {file: _program(*programs[file]) for file in runtime.track(programs, "programs")}
    _write_together(contents)


def _program(function: TensorFunction, arguments: TensorTuple) -> memoryview:
    """Return a program of `torch.export` for any number of trajectories, as the content of a file."""
    trajectories = {0: torch.export.Dim("trajectories", min=1)}
    dims = tuple(trajectories if argument.ndim else None for argument in arguments)
    shapes = {"arguments": dims}
    try:
        program = torch.export.export(_Program(function), arguments, dynamic_shapes=shapes)
    except Exception as error:  # of any kind: the field is the user's
        raise Unsupported(f"torch.export cannot write it ({files.reason(error)})") from error
    # Into memory first: where a disk is full, torch ends the whole interpreter.
    content = io.BytesIO()
    torch.export.save(program, content)
    return content.getbuffer()


def _step_inputs(t: Tensor, h: Tensor | float, *ends: Tensor) -> Control | None:
    """Return inputs over a step from t to t + h: none, held ones, or a line between those at its
    ends.
    """
    if not ends:
        return None
    if len(ends) == 1:
        return lambda at: ends[0]
    before, after = ends
    return lambda at: torch.lerp(before, after, (at - t) / h)


class _Program(torch.nn.Module):
    def __init__(self, function: TensorFunction):
        super().__init__()
        self.function = function

    def forward(self, *arguments: Tensor) -> Tensor:
        return self.function(*arguments)


WRITERS: dict[str, Callable[..., None]] = {"c": _write_c, "fmu": _write_fmu, "pt2": _write_programs}
