"""The speed of a reduced model relative to the full one, as a function of the context.

A projection with a small error has orbits near the true ones, but runs through them a little too fast
or too slow, so that phases drift without bound. One factor s(c) of the latent field, fitted to the
timing of training runs, removes that drift.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from pydantic import TypeAdapter
from torch import Tensor

from romkit.core import tensors
from romkit.core.errors import InputError
from romkit.core.files import reason
from romkit.core.polynomials import total_degree
from romkit.core.types import Array, ArrayPair, Entries, Floats, Shape
from romkit.numerics import Design


@dataclass(frozen=True)
class Piece:
    """Σ_k a_k Π_i dᵢ^e_ki of the context in half widths of its range, dᵢ = (cᵢ - shiftᵢ) / scaleᵢ.

    Beyond the range it stays as it is at the end.
    """

    shift: Floats
    scale: Floats
    exponents: tuple[Shape, ...]
    coefficients: Floats

    def __call__(self, c: Tensor) -> Tensor:
        """s (..., 1) at contexts (..., p)."""
        d = (c - c.new_tensor(self.shift)) / c.new_tensor(self.scale)
        # beyond the range a polynomial grows with its highest power
        d = d.clamp(-1.0, 1.0)
        total = torch.zeros_like(d[..., :1])
        for coefficient, powers in zip(self.coefficients, self.exponents, strict=True):
            term = torch.full_like(d[..., :1], coefficient)
            for i, power in enumerate(powers):
                term = term * d[..., i : i + 1] ** power
            total = total + term
        return total


@dataclass(frozen=True)
class Speed:
    """Factor s(c) of a latent field: a polynomial of the context, by pieces where the motion
    changes its kind.

    Attributes:
        pieces: one, or one for each interval of the only parameter.
        jumps: values of that parameter at which the pieces meet.
        error: of the speed at contexts that were left out, relative (root mean square).

    Example:
        >>> import torch
        >>> from romkit.integrators import Speed
        >>> speed = Speed.fitted([[1.0], [2.0], [3.0], [4.0]], [1.01, 1.02, 1.03, 1.04])
        >>> round(float(speed(torch.tensor([2.5]))), 6), speed.jumps
        (1.025, ())
    """

    pieces: tuple[Piece, ...]
    jumps: Floats = ()
    error: float = 0.0

    def __call__(self, c: Tensor) -> Tensor:
        """s (..., 1) at contexts (..., p) in physical units."""
        s = self.pieces[0](c)
        for jump, piece in zip(self.jumps, self.pieces[1:], strict=True):
            s = torch.where(c[..., :1] < jump, s, piece(c))
        return s

    def __repr__(self) -> str:
        jumps = ""
        if self.jumps:
            places = ", ".join(f"{jump:g}" for jump in self.jumps)
            jumps = f", jumps at {places}"
        return f"Speed({len(self.pieces)} pieces{jumps}, error {self.error:.1e})"

    @classmethod
    def fitted(
        cls,
        contexts: Sequence[Sequence[float]],
        speeds: Sequence[float],
        *,
        jumps: int = 2,
        gain: float = 2.0,
    ) -> "Speed":
        """Fit the polynomial, and the jumps, with the smallest error at contexts that are left out.

        Args:
            contexts: (C, p).
            speeds: (C,) at these.
            jumps: of the speed over the range of a single parameter, at most.
            gain: factor by which a further jump has to lower that error.

        Raises:
            InputError: fewer than two contexts, or numbers of another shape.
        """
        c, s = _checked(contexts, speeds)
        candidates = (cls._cut(c, s, cuts) for cuts in _cuts(c, jumps))
        # a jump is there only where it explains much
        return min(candidates, key=lambda speed: speed.error * gain ** len(speed.jumps))

    @classmethod
    def _cut(cls, c: Array, s: Array, cuts: Shape) -> "Speed":
        """Speed whose pieces meet at these places between sorted contexts."""
        groups = zip(np.split(c, cuts), np.split(s, cuts), strict=True)
        pieces, errors = zip(*(_fitted_piece(*group) for group in groups), strict=True)
        error = float(np.sqrt(np.square(np.concatenate(errors)).mean()))
        jumps = [c[k - 1 : k + 1, 0].mean().item() for k in cuts]
        return cls(pieces, tuple(jumps), error)

    def pack(self) -> Entries:
        """Return numbers and lists alone, for a file."""
        return asdict(self)

    @classmethod
    def unpack(cls, entries: Mapping[str, object]) -> "Speed":
        """Speed that `pack` gave.

        Raises:
            InputError: other entries, as a stranger's file may have.
        """
        try:
            speed = TypeAdapter(cls).validate_python(entries)
            for piece in speed.pieces:
                # refuse where numbers, sizes or powers are none that a fit gives
                numbers = [*piece.shift, *piece.scale, *piece.coefficients]
                if not np.isfinite(numbers).all() or 0 in piece.scale:
                    raise ValueError("numbers that are not finite")
                sizes = {len(piece.shift), len(piece.scale), *map(len, piece.exponents)}
                if len(piece.exponents) != len(piece.coefficients) or len(sizes) != 1:
                    raise ValueError("sizes that differ")
                # a huge power would take as long as it is large
                if not set().union(*piece.exponents) <= set(range(4)):
                    raise ValueError("degrees that are not tried")
        except ValueError as error:
            raise InputError(
                "speed",
                expected="the entries of Speed.pack()",
                got=reason(error),
                fix="take a file that romkit wrote",
            ) from error
        if len(speed.pieces) != len(speed.jumps) + 1:
            raise InputError(
                "speed",
                expected="a piece more than jumps",
                got=len(speed.pieces),
                fix="take a file that romkit wrote",
            )
        return speed


def _checked(contexts: object, speeds: object) -> ArrayPair:
    """Return contexts (C, p), sorted by the first parameter, and speeds (C,)."""
    c = tensors.finite("contexts", contexts).double().numpy()
    s = tensors.finite("speeds", speeds).double().numpy()
    if c.ndim != 2:
        raise InputError(
            "contexts",
            expected="shape (C, p)",
            got=f"shape {c.shape}",
            fix="give a row for each context",
        )
    if s.shape != (len(c),):
        raise InputError(
            "speeds",
            expected=f"shape ({len(c)},)",
            got=f"shape {s.shape}",
            fix="give one for each context",
        )
    if len(c) < 2:
        raise InputError(
            "data", expected="two contexts or more", got=len(c), fix="give runs at more contexts"
        )
    order = np.arange(len(c))
    if c.shape[1]:
        order = np.argsort(c[:, 0], kind="stable")
    return c[order], s[order]


def _cuts(c: Array, jumps: int) -> Iterator[Shape]:
    """Yield places between sorted contexts where pieces of two contexts or more may meet; only one
    parameter has any.
    """
    yield ()
    if c.shape[1] != 1:
        return
    places = (np.flatnonzero(np.diff(c[:, 0]) > 0) + 1).tolist()
    for number in range(1, jumps + 1):
        for cuts in itertools.combinations(places, number):
            sizes = np.diff((0, *cuts, len(c)))
            if min(sizes) >= 2:
                yield cuts


def _fitted_piece(c: Array, s: Array, *, degrees: int = 4) -> tuple[Piece, Array]:
    """Fit the polynomial (C,) of the degree with the smallest errors (C,) where a context is left
    out.
    """
    low, high = c.min(axis=0), c.max(axis=0)
    shift = (low + high) / 2
    scale = np.where(high > low, (high - low) / 2, 1.0)
    d = (c - shift) / scale  # (C, p)
    values = torch.from_numpy(s)
    one_by_one = [torch.tensor([run]) for run in range(len(s))]
    fits = []
    for degree in range(degrees):
        exponents = total_degree(c.shape[1], degree)
        products = [np.prod(d**powers, axis=1) for powers in exponents]
        design = Design(torch.from_numpy(np.stack(products, axis=1)))
        if not design.is_determined:
            break
        errors = design.validation_residuals(values, one_by_one).numpy()
        fits.append((np.square(errors).sum(), exponents, design, errors))
    # a constant is always determined
    _, exponents, design, errors = min(fits, key=lambda fit: fit[0])
    numbers = (shift, scale, design.coefficients(values))
    of_shift, of_scale, of_terms = [tuple(values.tolist()) for values in numbers]
    return Piece(of_shift, of_scale, tuple(exponents), of_terms), errors
