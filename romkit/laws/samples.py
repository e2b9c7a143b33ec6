"""Samples of latent dynamics that a law is fitted to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

import romkit.data as datasets
from romkit.core import tensors
from romkit.core.boundary import Mask, Times, validated
from romkit.core.errors import InputError
from romkit.laws.scaling import Scaling

SAMPLED = ("inputs", "targets", "context", "drift")
"""Attributes of `LatentSamples` with a row for each sample."""


@validated
@dataclass(frozen=True, eq=False)
class LatentSamples:
    """N samples of ż = g(z; c), or of z̈ = g(z, ż; c). `a + b` joins the samples of both.

    Leading axes are problems, each with a law of its own.

    Attributes:
        inputs: z (..., N, m), or (z, ż) (..., N, 2m).
        targets: ż or z̈ (..., N, m).
        context: (..., N, p) in physical units; an axis of size 1 where problems share it.
        drift: D_cρ ċ (..., N, m), motion of z with a moving context while the state stays; no part
            of the law.
        variables: names of the inputs and how they enter the terms.
        parameters: names of the context parameters and how they enter the terms.
        source: where the samples came from, in words.
        times: (T,) where the samples are whole trajectories, one after the other, at these times;
            else None.
        control_names: names of the inputs among the parameters, the last ones.
        control_unit: of all inputs, or those of each with commas between; "" where none is known.
        held: whether the inputs are held until the next sample; else they are straight lines. None
            where that is not known.

    Samples may be missing: the numbers of such a row are NaN, `observed` says which, and `complete`
    leaves them out.

    Example:
        >>> import torch
        >>> from romkit.laws import LatentSamples
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
    held: bool | None = None
    control_unit: str = ""

    @classmethod
    @validated
    def first_order(
        cls, z: Tensor, zdot: Tensor, context: Tensor | None = None, **labels: object
    ) -> "LatentSamples":
        """Return samples of ż = g(z; c), from tensors or arrays.

        Args:
            z: (..., N, m); or trajectories (..., C, T, m), with `times`.
            zdot: the same.
            context: (..., N, p), or (N, p) for all problems; with `times` (..., C, T, p), or (C,
                p).
            **labels: `names` of the latent coordinates, z0, z1, ... by default; `parameters`, names
                of the context parameters or their Scaling, c0, c1, ... by default; `times` (T,);
                `control_names`, of the last parameters that are inputs; `drift`, as z, of
                trajectories whose context moves, zero by default; and `source`, in words.

        Raises:
            InputError: shapes that do not match, infinite values, or none that is complete.
        """
        return latent_samples({"z": z, "zdot": zdot}, context, **labels)

    @classmethod
    @validated
    def second_order(
        cls, z: Tensor, dz: Tensor, ddz: Tensor, context: Tensor | None = None, **labels: object
    ) -> "LatentSamples":
        """Return samples of z̈ = g(z, ż; c), each of z, dz, ddz (..., N, m); the rest as in
        `first_order`.
        """
        return latent_samples({"z": z, "dz": dz, "ddz": ddz}, context, **labels)

    @property
    def observed(self) -> Tensor:
        """(N,) which samples are complete, in every problem."""
        complete = torch.ones(len(self), dtype=torch.bool, device=self.inputs.device)
        for name in SAMPLED:
            complete = complete & complete_rows(getattr(self, name))
        return complete

    def complete(self) -> "LatentSamples":
        """Return samples without missing ones, no longer trajectories; the same where none is
        missing.
        """
        rows = self.observed
        return self if bool(rows.all()) else self.only(rows)

    def paths(self, *quantities: Tensor) -> list[Tensor]:
        """Quantities (..., N, k) of whole trajectories as (S, C, T, k), all problems on one axis.

        Raises:
            InputError: single samples.
        """
        count = len(trajectory_times(self))
        return [one_axis(rows).unflatten(1, (-1, count)) for rows in quantities]

    @property
    def latents(self) -> Tensor:
        """Latent states z (..., N, m)."""
        return self.inputs[..., : self.targets.shape[-1]]

    @property
    def order(self) -> int:
        """1 for ż = g(z; c), 2 for z̈ = g(z, ż; c)."""
        return self.inputs.shape[-1] // self.targets.shape[-1]

    def scaled(self) -> "LatentSamples":
        """Standardise the terms: latent coordinates of mean 0 and standard deviation 1.

        Where latents are far from zero or of very different size, one threshold then fits all
        terms. Each problem of a stack is scaled by its own samples; rates keep their zero, and have
        the scale of their variable.
        """
        z = self.latents.double()
        z = z[..., complete_rows(z), :]
        mean = z.mean(-2)  # (..., m)
        deviation = z.std(-2)
        # a latent at rest has no scale, and stays as it is
        deviation = tensors.divisor(deviation)
        still = torch.zeros_like(mean)
        shift = torch.cat([mean, still][: self.order], dim=-1)
        scale = torch.cat([deviation] * self.order, dim=-1)
        variables = Scaling(self.variables.names, shift, scale)
        return replace(self, variables=variables)

    @validated
    def only(self, rows: Mask, times: Times | None = None) -> "LatentSamples":
        """Return some of the samples, by a mask (N,); no longer trajectories, unless their times
        are given.
        """
        chosen = {name: getattr(self, name)[..., rows, :] for name in SAMPLED}
        return replace(self, **chosen, times=times)

    def to(self, device: torch.device | str) -> "LatentSamples":
        """Return samples on a device; their times stay on the CPU, where windows are laid out."""
        moved = {name: getattr(self, name).to(device) for name in SAMPLED}
        variables = self.variables.to(device)
        return replace(self, **moved, variables=variables, parameters=self.parameters.to(device))

    def missing(self, rows: Tensor) -> "LatentSamples":
        """Return the samples of whole trajectories without what is known at some of them (N,)."""
        states = {}
        for name in ("inputs", "targets"):
            values = getattr(self, name)
            states[name] = values.masked_fill(rows.unsqueeze(-1), torch.nan)
        return replace(self, **states)

    def __len__(self) -> int:
        return self.targets.shape[-2]

    @validated
    def __add__(self, other: "LatentSamples") -> "LatentSamples":
        self._check_same_scaling(other)
        source = self.source
        if other.source != self.source:
            source = f"{self.source}; and {other.source}"
        joined = {}
        for name in SAMPLED:
            values = [getattr(samples, name) for samples in (self, other)]
            joined[name] = torch.cat(values, dim=-2)
        return replace(self, **joined, source=source, times=None)

    def _check_same_scaling(self, other: "LatentSamples") -> None:
        """Raise where terms of both are not in the same variables."""
        alike = self.variables.equals(other.variables)
        if alike and self.parameters.equals(other.parameters):
            return
        symbols = (*self.variables.symbols, *self.parameters.symbols)
        others = (*other.variables.symbols, *other.parameters.symbols)
        raise InputError(
            "samples",
            expected=f"{symbols} with the same scaling",
            got=str(others),
            fix="join samples of one projection, and scale them afterwards",
        )

    def __repr__(self) -> str:
        names = ", ".join(self.variables.names)
        return f"LatentSamples({len(self)} samples of {names}; {self.source})"


@validated
def latent_samples(
    states: object,
    context: Tensor | None,
    *,
    names: Sequence[str] | None = None,
    parameters: Scaling | Sequence[str] | None = None,
    times: Times | None = None,
    source: str = "given latent states and rates",
    control_names: Sequence[str] = (),
    drift: Tensor | None = None,
) -> LatentSamples:
    """Return samples of latent states and their rates {name: (..., N, m)}, as
    `LatentSamples.first_order` describes.
    """
    named = dict(states)
    if drift is not None:
        named["drift"] = drift
    check_alike(named)
    z = states["z"].detach()
    if drift is None:
        drift = z.new_zeros(()).expand_as(z)
    rows = [x.detach().to(z.device) for x in (*states.values(), drift)]
    if times is not None:
        times = _checked_times(times, z)
        rows = [x.flatten(-3, -2) for x in rows]  # (..., C T, m)
    z, *rates, drift = rows
    c = sample_contexts(context, z, times)
    parameters = _checked_parameters(parameters, c.shape[-1])
    names = _checked_names(names, z.shape[-1], parameters)
    # of second order, ż is a variable too
    rate_names = ()
    if len(rates) == 2:
        rate_names = tuple(f"{name}'" for name in names)
    samples = LatentSamples(
        inputs=torch.cat([z, *rates[:-1]], dim=-1),
        targets=rates[-1],
        context=c,
        drift=drift,
        variables=Scaling.none(names + rate_names),
        parameters=parameters,
        source=source,
        times=times,
        control_names=control_names,
    )
    return samples.to(z.device)


def check_alike(states: Mapping[str, Tensor]) -> None:
    """Raise unless all have one shape (..., N, m) and numbers that can be used."""
    for name, x in states.items():
        tensors.axes(name, x, "samples components")
        check_numbers(name, x)
    tensors.same_shape(**states)


def check_numbers(argument: str, x: Tensor) -> None:
    """Raise where numbers are infinite, or all of them missing."""
    # a sum is the cheapest look at all of them
    if not x.numel() or bool(x.sum().isfinite()):
        return
    got = None
    if bool(x.isinf().any()):
        got = "infinity"
    elif bool(x.isnan().all()):
        got = "NaN alone"
    if got is not None:
        expected = "numbers, or NaN where missing"
        fix = "drop those samples"
        raise InputError(argument, expected=expected, got=got, fix=fix)


def _checked_times(times: Tensor, z: Tensor) -> Tensor:
    """Return times (T,) of trajectories z (..., C, T, m), in float64."""
    times = times.double().cpu()
    if z.ndim < 3 or z.shape[-2] != len(times):
        expected = "one per latent state of a trajectory, with z (..., C, T, m)"
        got = f"shape {tuple(times.shape)} for z {tuple(z.shape)}"
        raise InputError("times", expected=expected, got=got, fix="match the axes")
    return times


def _checked_parameters(parameters: Scaling | Sequence[str] | None, size: int) -> Scaling:
    """Scaling of the parameters of a context of this size."""
    if parameters is None:
        parameters = [f"c{k}" for k in range(size)]
    if not isinstance(parameters, Scaling):
        parameters = Scaling.none(parameters)
    if len(parameters) != size:
        listed = ", ".join(parameters.names)
        expected = f"{len(parameters)} parameters ({listed}) on the last axis"
        raise InputError("context", expected=expected, got=size, fix="name every parameter once")
    return parameters


def _checked_names(names: Sequence[str] | None, size: int, parameters: Scaling) -> tuple[str, ...]:
    """Return names of so many latents, unlike each other and those of the parameters."""
    if names is None:
        names = tuple(f"z{k}" for k in range(size))
    distinct = {*names, *parameters.names}
    different = len(distinct) == len(names) + len(parameters.names)
    if len(names) != size or not different:
        expected = f"{size} names, one per latent, unlike each other and the context's"
        raise InputError("names", expected=expected, got=str(names), fix="name each latent once")
    return names


def sample_contexts(context: Tensor | None, z: Tensor, times: Tensor | None) -> Tensor:
    """Context (..., N, p) with as many axes as z (..., N, m), leading ones of size 1 where problems
    share it.
    """
    *lead, N, _ = z.shape
    if context is None:
        shared = (1,) * len(lead)
        return z.new_empty((*shared, N, 0))
    check_numbers("context", context)
    c = context.detach().to(z.device)
    if times is not None:
        c = _row_by_row(c, len(times))
    if c.ndim == 2:
        c = c[(None,) * len(lead)]
    if not _covers(c.shape[:-1], (*lead, N)):
        expected = f"the context of each of {N} samples"
        if lead:
            expected += f", or of each problem {tuple(lead)} too"
        got = f"shape {tuple(context.shape)}"
        fix = "give the context of every sample, parameters on the last axis"
        raise InputError("context", expected=expected, got=got, fix=fix)
    return c


def _row_by_row(c: Tensor, times: int) -> Tensor:
    """Return contexts (..., C T, p) of trajectories, which are (C, p), or (..., C, T, p)."""
    if c.ndim == 2:
        return c.repeat_interleave(times, 0)
    if c.ndim > 2:
        return c.flatten(-3, -2)
    return c


def _covers(shape: Sequence[int], samples: Sequence[int]) -> bool:
    """Tell whether a context of this shape has a row for every sample, if not for every problem."""
    if len(shape) != len(samples) or shape[-1] != samples[-1]:
        return False
    return all(size in (1, number) for size, number in zip(shape, samples, strict=True))


def complete_rows(x: Tensor) -> Tensor:
    """(N,) which rows of (..., N, k) are finite, in every problem."""
    is_finite = x.isfinite().all(-1)
    return is_finite.reshape(-1, x.shape[-2]).all(0)


def one_axis(x: Tensor) -> Tensor:
    """Problems (..., N, k) as (S, N, k)."""
    if x.ndim == 2:
        return x.unsqueeze(0)
    return x.flatten(0, -3)


def trajectory_times(samples: LatentSamples) -> Tensor:
    """Return times (T,) of samples that are whole trajectories.

    Raises:
        InputError: they are single samples.
    """
    if samples.times is None:
        expected = "whole trajectories with their times"
        fix = "give z (C, T, m) and times (T,), neither joined nor thinned out"
        raise InputError("samples", expected=expected, got="single ones", fix=fix)
    return samples.times


def interval(samples: LatentSamples) -> float:
    """Time between two samples of a trajectory.

    Raises:
        InputError: no trajectories, or uneven times.
    """
    times = trajectory_times(samples)
    dt = datasets.even_step(times.numpy())
    if dt is None:
        got = f"{len(times)} others"
        fix = "resample the data"
        raise InputError("times", expected="equally spaced times", got=got, fix=fix)
    return dt
