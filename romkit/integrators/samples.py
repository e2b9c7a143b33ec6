"""What a law is fitted to: latent states with their rates, the context of each, and where they came from."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from romkit import arrays, checks
from romkit.boundary import Mask, checked
from romkit.data import even_step
from romkit.errors import InputError
from romkit.integrators.scaling import Scaling

SAMPLED = ("inputs", "targets", "context", "drift")
"""What has a row for each sample."""


@checked
@dataclass(frozen=True, eq=False)
class LatentSamples:
    """N samples of ż = g(z; c), or of z̈ = g(z, ż; c). `a + b` joins the samples of both.

    Leading axes are problems, each with a law of its own.

    Attributes:
        inputs: z (..., N, m), or (z, ż) (..., N, 2m).
        targets: ż or z̈ (..., N, m).
        context: (..., N, p) in physical units; an axis of size 1 where problems share it.
        drift: D_cρ ċ (..., N, m), no part of the law: how z moves with a context that moves while the state stays.
        variables: names of the inputs and how they enter the terms.
        parameters: names of the context parameters and how they enter the terms.
        source: where the samples came from, in words.
        times: (T,) where the samples are whole trajectories, one after the other, at these times; else None.
        control_names: those of the parameters, the last ones, that are inputs.

    Samples may be missing: the numbers of such a row are NaN, `observed` says which, and `complete` leaves them out.

    Example:
        >>> import torch
        >>> from romkit.integrators import LatentSamples
        >>> z = torch.linspace(0, 1, 50, dtype=torch.float64).reshape(50, 1)
        >>> samples = LatentSamples.first_order(z, -2 * z, names=["a"], source="ż = -2 z")
        >>> samples
        LatentSamples(50 samples of a; ż = -2 z)
        >>> (samples + samples).order, len(samples + samples)
        (1, 100)
    """

    inputs: Tensor
    targets: Tensor
    context: Tensor
    drift: Tensor
    variables: Scaling
    parameters: Scaling
    source: str
    times: Tensor | None = None
    control_names: tuple[str, ...] = ()

    @classmethod
    @checked
    def first_order(cls, z: object, zdot: object, context: object = None, **labels: object) -> "LatentSamples":
        """Samples of ż = g(z; c), from tensors or arrays.

        Args:
            z: (..., N, m); or trajectories (..., C, T, m), with `times`.
            zdot: the same.
            context: (..., N, p), or (N, p) for all problems; with `times` (..., C, T, p), or (C, p).
            **labels: `names` of the latent coordinates, z0, z1, ... by default; `parameters`, names of the context
                parameters or their Scaling, c0, c1, ... by default; `times` (T,); `control_names`, of the last
                parameters that are inputs; `drift`, as z, of trajectories whose context moves, zero by default; and
                `source`, in words.

        Raises:
            InputError: shapes that do not match, infinite values, or none that is complete.
        """
        return cls._checked({"z": z, "zdot": zdot}, context, **_known(labels))

    @classmethod
    @checked
    def second_order(
        cls, z: object, dz: object, ddz: object, context: object = None, **labels: object
    ) -> "LatentSamples":
        """Samples of z̈ = g(z, ż; c), each of z, dz, ddz (..., N, m); the rest as in `first_order`."""
        return cls._checked({"z": z, "dz": dz, "ddz": ddz}, context, **_known(labels))

    @property
    def observed(self) -> Tensor:
        """(N,) which samples are complete, in every problem."""
        parts = (getattr(self, part) for part in SAMPLED)
        return functools.reduce(torch.logical_and, (x.isfinite().all(-1).reshape(-1, len(self)).all(0) for x in parts))

    def complete(self) -> "LatentSamples":
        """The samples without missing ones, which are trajectories no more; the same where none is missing."""
        rows = self.observed
        return self if bool(rows.all()) else self.only(rows)

    @property
    def order(self) -> int:
        """1 for ż = g(z; c), 2 for z̈ = g(z, ż; c)."""
        return self.inputs.shape[-1] // self.targets.shape[-1]

    def scaled(self) -> "LatentSamples":
        """The same samples, whose latent coordinates enter the terms with mean 0 and standard deviation 1.

        Where latents are far from zero or of very different size, this is what makes one threshold fit all terms. Each
        problem of a stack is scaled by its own samples.
        """
        m = self.targets.shape[-1]
        scaling = Scaling.standard(self.variables.names, self.inputs[..., :m], rates=m * (self.order - 1))
        return replace(self, variables=scaling)

    @checked
    def only(self, rows: Mask) -> "LatentSamples":
        """Some of the samples, by a mask (N,), which are trajectories no more."""
        parts = {part: getattr(self, part)[..., rows, :] for part in SAMPLED}
        return replace(self, **parts, times=None)

    def __len__(self) -> int:
        return self.targets.shape[-2]

    @checked
    def __add__(self, other: "LatentSamples") -> "LatentSamples":
        if not (self.variables.equals(other.variables) and self.parameters.equals(other.parameters)):
            mine, theirs = ((*each.variables.symbols, *each.parameters.symbols) for each in (self, other))
            fix = "join samples of one projection, and scale them afterwards"
            raise InputError("samples", expected=f"{mine} with the same scaling", got=str(theirs), fix=fix)
        source = self.source if other.source == self.source else f"{self.source}; and {other.source}"
        pairs = {part: (getattr(self, part), getattr(other, part)) for part in SAMPLED}
        joined = {part: torch.cat(pair, dim=-2) for part, pair in pairs.items()}
        return replace(self, **joined, source=source, times=None)

    def __repr__(self) -> str:
        return f"LatentSamples({len(self)} samples of {', '.join(self.variables.names)}; {self.source})"

    @classmethod
    def _checked(
        cls,
        given: dict[str, object],
        context: object,
        *,
        names: Sequence[str] | None = None,
        parameters: Scaling | Sequence[str] | None = None,
        times: object = None,
        source: str = "given latent states and rates",
        control_names: Sequence[str] = (),
        drift: object = None,
    ) -> "LatentSamples":
        z, *rates = _states(given)
        moved = z.new_zeros(()).expand_as(z) if drift is None else _states({"z": z, "drift": drift})[1]
        times = None if times is None else _times(times, z)
        c = _context(context, z, trajectories=times is not None)
        if times is not None:
            z, moved, *rates = (x.flatten(-3, -2) for x in (z, moved, *rates))
        names = tuple(f"z{k}" for k in range(z.shape[-1])) if names is None else tuple(names)
        if len(names) != z.shape[-1]:
            expected = f"{z.shape[-1]} names, one per latent"
            raise InputError("names", expected=expected, got=str(names), fix="name each latent")
        if not isinstance(parameters, Scaling):
            parameters = Scaling.none([f"c{k}" for k in range(c.shape[-1])] if parameters is None else parameters)
        if len(parameters) != c.shape[-1]:
            expected = f"{len(parameters)} parameters ({', '.join(parameters.names)}) on the last axis"
            raise InputError("context", expected=expected, got=f"{c.shape[-1]}", fix="name every parameter once")
        if len({*names}) < len(names):
            raise InputError("names", expected="names that differ", got=str(names), fix="rename the latents")
        if set(names) & set(parameters.names):
            raise InputError("names", expected="names unlike the context's", got=str(names), fix="rename the latents")
        variables = Scaling.none(names + tuple(f"{name}'" for name in names) * (len(rates) - 1))
        inputs = torch.cat([z, *rates[:-1]], dim=-1)
        return cls(inputs, rates[-1], c, moved, variables, parameters, source, times, tuple(control_names))


def without_rounding(z: Tensor, *rates: Tensor) -> tuple[Tensor, ...]:
    """Latents (..., C, T, m) that are no more than rounding beside the others are at rest: no law can know them."""
    mean = z.nanmean((-3, -2), keepdim=True)
    size = (z - mean).square().nanmean((-3, -2), keepdim=True).sqrt()
    rests = size <= torch.finfo(torch.float32).eps * torch.hypot(size, mean).amax(-1, keepdim=True)
    whole = mean.float().to(z)  # of few bits, so that sums of it are exact
    return torch.where(rests & z.isfinite(), whole, z), *(torch.where(rests, 0.0, rate) for rate in rates)


def trajectory_times(samples: LatentSamples) -> Tensor:
    """(T,) the times of samples that are whole trajectories.

    Raises:
        InputError: they are not.
    """
    if samples.times is None:
        fix = "give z (C, T, m) and times (T,), neither joined nor thinned out"
        raise InputError("samples", expected="whole trajectories with their times", got="single ones", fix=fix)
    return samples.times


def interval(samples: LatentSamples) -> float:
    """The time between two samples of a trajectory.

    Raises:
        InputError: no trajectories, or uneven times.
    """
    times = trajectory_times(samples)
    dt = even_step(times.numpy())
    if dt is None:
        raise InputError("times", expected="equally spaced times", got=f"{len(times)} others", fix="resample the data")
    return dt


def _known(labels: dict[str, object]) -> dict[str, object]:
    for name in labels:
        checks.one_of("labels", name, ("names", "parameters", "times", "source", "control_names", "drift"))
    return labels


def _tensor(argument: str, value: object) -> Tensor:
    """A floating-point tensor (..., N, k) of numbers; NaN where they are missing."""
    tensor = arrays.tensor(argument, value).detach()
    if tensor.ndim < 2 or 0 in tensor.shape[-2:-1]:
        expected, got = "shape (..., samples, components)", f"shape {tuple(tensor.shape)}"
        raise InputError(argument, expected=expected, got=got, fix="add the axis")
    if not bool(tensor.sum().isfinite()) and bool(tensor.isinf().any()):  # a sum is the cheapest look at all of them
        raise InputError(argument, expected="numbers, or NaN where missing", got="infinity", fix="drop those samples")
    if bool(tensor.isnan().all()) and tensor.numel():
        raise InputError(
            argument, expected="numbers, or NaN where missing", got="NaN alone", fix="check where it is from"
        )
    return tensor


def _states(given: dict[str, object]) -> list[Tensor]:
    """Named tensors of one shape."""
    tensors = {name: _tensor(name, value) for name, value in given.items()}
    z = tensors["z"]
    for name, tensor in tensors.items():
        if tensor.shape != z.shape:
            expected, got = f"shape {tuple(z.shape)}, as z", f"shape {tuple(tensor.shape)}"
            raise InputError(name, expected=expected, got=got, fix="give one rate for each latent state")
    return [tensor.to(z.device) for tensor in tensors.values()]


def _times(value: object, z: Tensor) -> Tensor:
    times = arrays.times("times", value).double()
    if times.ndim != 1 or z.ndim < 3 or z.shape[-2] != len(times):
        expected, got = "one per latent state of a trajectory, with z (..., C, T, m)", f"{tuple(times.shape)}"
        raise InputError("times", expected=expected, got=f"shape {got} for z {tuple(z.shape)}", fix="match the axes")
    return times


def _context(value: object, z: Tensor, *, trajectories: bool) -> Tensor:
    """(..., N, p) with as many axes as the samples, leading ones of size 1 where problems share it."""
    *lead, N, _ = z.flatten(-3, -2).shape if trajectories else z.shape
    if value is None:
        return z.new_empty((*(1 for _ in lead), N, 0))
    c = given = _tensor("context", value).to(z.device)
    if trajectories:
        c = c.repeat_interleave(z.shape[-2], 0) if c.ndim == 2 else c.flatten(-3, -2)
    shared = c.reshape((1,) * len(lead) + tuple(c.shape)) if c.ndim == 2 else c
    fits = shared.ndim == len(lead) + 2 and shared.shape[-2] == N
    if not fits or any(own not in (1, size) for own, size in zip(shared.shape[:-2], lead, strict=True)):
        expected = f"the context of each of {N} samples" + (f", or of each problem {tuple(lead)} too" if lead else "")
        fix = "give the context of every sample, parameters on the last axis"
        raise InputError("context", expected=expected, got=f"shape {tuple(given.shape)}", fix=fix)
    return shared
