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
from torch import Tensor

from romkit.core.errors import InputError

DEGREES = (0, 1, 2, 3)
"""Degrees of the context that are tried."""

MOST_JUMPS = 2
"""Jumps of the speed over the range of one parameter, at most."""

GAIN = 2.0
"""Factor by which a further jump has to lower the error at contexts that were left out."""

FEWEST = 2
"""Contexts of one piece, at least."""


@dataclass(frozen=True)
class Piece:
    """Σ_k a_k Π_i dᵢ^e_ki of the context in half widths of its range, dᵢ = (cᵢ - shiftᵢ) / scaleᵢ.

    Beyond the range it stays as it is at the end.
    """

    shift: tuple[float, ...]
    scale: tuple[float, ...]
    exponents: tuple[tuple[int, ...], ...]
    coefficients: tuple[float, ...]

    def __call__(self, c: Tensor) -> Tensor:
        """s (..., 1) at contexts (..., p)."""
        d = (c - c.new_tensor(self.shift)) / c.new_tensor(self.scale)
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
    jumps: tuple[float, ...] = ()
    error: float = 0.0

    def __call__(self, c: Tensor) -> Tensor:
        """s (..., 1) at contexts (..., p) in physical units."""
        s = self.pieces[0](c)
        for jump, piece in zip(self.jumps, self.pieces[1:], strict=True):
            s = torch.where(c[..., :1] < jump, s, piece(c))
        return s

    def __repr__(self) -> str:
        jumps = f", jumps at {', '.join(f'{jump:g}' for jump in self.jumps)}" if self.jumps else ""
        return f"Speed({len(self.pieces)} pieces{jumps}, error {self.error:.1e})"

    @classmethod
    def fitted(cls, contexts: Sequence[Sequence[float]], speeds: Sequence[float]) -> "Speed":
        """The polynomial, and the jumps, with the smallest error at contexts that are left out.

        Args:
            contexts: (C, p).
            speeds: (C,) at these.

        Raises:
            InputError: fewer than two contexts.
        """
        c, s = np.asarray(contexts, dtype=float), np.asarray(speeds, dtype=float)
        if len(c) < FEWEST:
            fix = "give runs at more contexts"
            raise InputError("data", expected="two contexts or more", got=len(c), fix=fix)
        order = np.argsort(c[:, 0], kind="stable") if c.shape[1] else np.arange(len(c))
        c, s = c[order], s[order]
        best = None
        for cuts in _cuts(c):
            pieces = [_fitted_piece(*part) for part in _parts(c, s, cuts)]
            errors = np.concatenate([errors for _, errors in pieces])
            error = float(np.sqrt((errors**2).mean()))
            # a jump is there only where it explains much
            cost = error * GAIN ** len(cuts)
            if best is None or cost < best[0]:
                jumps = tuple(float(c[k - 1, 0] + c[k, 0]) / 2 for k in cuts)
                best = cost, cls(tuple(piece for piece, _ in pieces), jumps, error)
        return best[1]

    def as_dict(self) -> dict[str, object]:
        """Numbers and lists alone, for a file."""
        return asdict(self)

    @classmethod
    def of_dict(cls, entries: Mapping[str, object]) -> "Speed":
        """Speed that `as_dict` gave.

        Raises:
            InputError: other entries, as a stranger's file may have.
        """
        try:
            pieces = [_piece_of(piece) for piece in entries["pieces"]]
            jumps = tuple(float(jump) for jump in entries["jumps"])
            speed = cls(tuple(pieces), jumps, float(entries["error"]))
        except (KeyError, TypeError, ValueError) as error:
            expected, fix = "the entries of Speed.as_dict()", "take a file that romkit wrote"
            raise InputError("speed", expected=expected, got=str(error), fix=fix) from error
        if len(speed.pieces) != len(jumps) + 1:
            expected, fix = "a piece more than jumps", "take a file that romkit wrote"
            raise InputError("speed", expected=expected, got=len(speed.pieces), fix=fix)
        return speed


def _piece_of(entries: Mapping[str, object]) -> Piece:
    shift, scale, coefficients = (
        tuple(float(number) for number in entries[name])
        for name in ("shift", "scale", "coefficients")
    )
    exponents = tuple(tuple(int(power) for power in powers) for powers in entries["exponents"])
    numbers = np.array([*shift, *scale, *coefficients])
    if not np.isfinite(numbers).all() or not all(scale):
        raise ValueError("numbers that are not finite")
    if len(exponents) != len(coefficients) or any(len(each) != len(shift) for each in exponents):
        raise ValueError("sizes that differ")
    if any(power < 0 or power > max(DEGREES) for each in exponents for power in each):
        raise ValueError("degrees that are not tried")
    return Piece(shift, scale, exponents, coefficients)


def _cuts(c: np.ndarray) -> Iterator[tuple[int, ...]]:
    """Places between sorted contexts where pieces may meet; only one parameter has any."""
    yield ()
    if c.shape[1] != 1:
        return
    places = [k for k in range(1, len(c)) if c[k, 0] > c[k - 1, 0]]
    for number in range(1, MOST_JUMPS + 1):
        for cuts in itertools.combinations(places, number):
            ends = (0, *cuts, len(c))
            if min(np.diff(ends)) >= FEWEST:
                yield cuts


def _parts(c: np.ndarray, s: np.ndarray, cuts: tuple[int, ...]) -> list[tuple]:
    return list(zip(np.split(c, cuts), np.split(s, cuts), strict=True))


def _fitted_piece(c: np.ndarray, s: np.ndarray) -> tuple[Piece, np.ndarray]:
    """Polynomial (C,) of the degree with the smallest errors (C,) where a context is left out."""
    low, high = c.min(axis=0), c.max(axis=0)
    shift, scale = (low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)
    d = (c - shift) / scale
    best = None
    for degree in DEGREES:
        exponents = [
            powers
            for powers in itertools.product(range(degree + 1), repeat=c.shape[1])
            if sum(powers) <= degree
        ]
        columns = np.stack([np.prod(d**powers, axis=1) for powers in exponents], axis=1)
        if len(exponents) >= len(c) or np.linalg.matrix_rank(columns) < len(exponents):
            break
        inverse = np.linalg.pinv(columns)
        coefficients = inverse @ s
        leverage = np.einsum(
            "ck,kc->c", columns, inverse
        )  # a residual of its own over 1 - leverage
        errors = (s - columns @ coefficients) / (1 - leverage).clip(1e-9)
        if best is None or np.square(errors).sum() < np.square(best[1]).sum():
            piece = Piece(
                tuple(map(float, shift)),
                tuple(map(float, scale)),
                tuple(tuple(map(int, powers)) for powers in exponents),
                tuple(map(float, coefficients)),
            )
            best = piece, errors
    return best
