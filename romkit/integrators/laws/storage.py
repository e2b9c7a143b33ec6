"""What a sealed file holds of a fitted law: the tensors that make its field, and in the header what is said about it.

Everything is checked before it is used: a law from a file of others is refused or gives finite numbers.
"""

import dataclasses
import math
import os
from collections.abc import Sequence
from itertools import chain, pairwise

import torch
from torch import Tensor

from romkit.core.errors import FileError, InputError
from romkit.core.files import Header, Tensors, reason
from romkit.integrators.base import LearnedField
from romkit.integrators.laws.equations import (
    Equation,
    Features,
    Fourier,
    Library,
    Polynomial,
    Product,
    SINDyModel,
    Subset,
    Sum,
)
from romkit.integrators.laws.neural_ode import NeuralODEModel
from romkit.integrators.laws.operators import LinearModel, OperatorModel
from romkit.integrators.laws.samples import Scaling
from romkit.integrators.region import Region

LIBRARIES: dict[str, type[Library]] = {kind.__name__: kind for kind in (Polynomial, Fourier, Sum, Product, Subset)}
LIBRARIES["Some"] = Subset  # in files of romkit 0.1
"""Libraries that a file can name."""

EQUATIONS: dict[str, type[Equation]] = {"sindy": SINDyModel, "operator-inference": OperatorModel, "dmd": LinearModel}
"""Laws in terms, by the name that a file has for them."""

MAX_TERMS = 100_000
"""Most terms of a library in a file, and of each part of it: more would fill the memory before a check could fail."""


def packed(law: LearnedField) -> tuple[Header, Tensors]:
    """Header and tensors of a law, or of a stack of them, for a sealed file.

    Raises:
        InputError: a law of the user's own, or one with terms that are functions of the user's own.
    """
    header: Header = {"order": law.order, "source": law.source, "control_names": list(law.control_names)}
    if type(law) in EQUATIONS.values():
        basis, kind = law.basis, next(name for name, each in EQUATIONS.items() if each is type(law))
        header |= {"law": kind, "library": _spec(basis.library), "context_library": _spec(basis.context_library)}
        facts, scalings = FACTS[kind], {"variables": basis.variables, "context": basis.context}
        tensors = {"coefficients": law.coefficients}
    elif isinstance(law, NeuralODEModel):
        header |= {"law": "neural-ode", "layers": len(law.layers)}
        facts, scalings = FACTS["neural-ode"], {"context": law.context}
        tensors = {name: getattr(law, name) for name in ("shift", "scale", "rate")}
        tensors |= {f"layers.{k}": part for k, part in enumerate(chain(*law.layers))}
    else:
        fix = "write its parameters to a file of your own"
        raise InputError("law", expected=f"a fitted {' or '.join(READERS)}", got=type(law).__name__, fix=fix)
    header |= {"samples": law.samples} | {name: getattr(law, name).tolist() for name in facts}
    if law.domain is not None:
        tensors |= {f"domain.{part}": getattr(law.domain, part) for part in DOMAIN}
    for name, scaling in scalings.items():
        header[name] = list(scaling.names)
        tensors |= {f"{name}.shift": scaling.shift, f"{name}.scale": scaling.scale}
    return header, tensors


def unpacked(path: str | os.PathLike, header: Header, tensors: Tensors) -> LearnedField:
    """The law of a sealed file, on the CPU.

    Raises:
        FileError: an unknown kind of law, or parts that do not fit each other.
    """
    kind = header["law"]
    if kind not in tuple(READERS):
        problem = f"holds a law of the unknown kind {kind!r:.40}"
        raise FileError(path, problem=problem, fix=f"this romkit knows {', '.join(READERS)}; update it")
    try:
        common = {name: header[name] for name in ("order", "source", "samples")}
        ints = all(type(common[name]) is int for name in ("order", "samples"))
        _check(ints and common["order"] in (1, 2) and isinstance(common["source"], str), "order, samples or source")
        inputs, known = header.get("control_names", []), header["context"]  # laws of romkit 0.1 have none
        _check(isinstance(inputs, list) and inputs == known[len(known) - len(inputs) :], "control_names")
        common["control_names"] = tuple(inputs)
        law = READERS[kind](header, tensors, common)
        return dataclasses.replace(law, domain=_domain(tensors, law))
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        problem = f"holds a law whose parts do not fit each other ({reason(error)})"
        raise FileError(path, problem=problem, fix="restore it from a copy, or fit and save the law again") from error


def _equation(header: Header, tensors: Tensors, common: dict[str, object]) -> Equation:
    coefficients = tensors["coefficients"]
    *lead, K, m = coefficients.shape
    variables, context = _scaling("variables", header, tensors, lead), _scaling("context", header, tensors, [])
    _check(coefficients.dtype == torch.float64 and len(variables) == m * common["order"] > 0, "coefficients")
    library, terms = _library(header["library"], len(variables))
    context_library, context_terms = _library(header["context_library"], len(context))
    _check(terms * context_terms == K, "terms")
    kind = header["law"]
    facts = _facts(kind, header, ((lead, torch.float64), (lead, torch.bool), ([*lead, m], torch.float64)))
    basis = Features(library, context_library, variables, context)
    return EQUATIONS[kind](basis=basis, coefficients=coefficients, **common, **facts)


def _neural_ode(header: Header, tensors: Tensors, common: dict[str, object]) -> NeuralODEModel:
    shift, scale, rate = (tensors[name] for name in ("shift", "scale", "rate"))
    *lead, m = rate.shape
    context = _scaling("context", header, tensors, [])
    _check(shift.shape == scale.shape == (*lead, m * common["order"]) and m > 0, "shift, scale or rate")
    _check(bool((scale > 0).all() and (rate > 0).all()), "a scale that is not positive")
    names = [f"layers.{k}" for k in range(2 * min(int(header["layers"]), len(tensors)))]
    layers = tuple((tensors[weight], tensors[bias]) for weight, bias in zip(names[::2], names[1::2], strict=True))
    sizes = [m * common["order"] + len(context), *(weight.shape[-1] for weight, _ in layers)]
    _check(len(layers) > 0 and sizes[-1] == m, "layers")
    for (inputs, outputs), (weight, bias) in zip(pairwise(sizes), layers, strict=True):
        _check(weight.shape == (*lead, inputs, outputs) and bias.shape == (*lead, outputs), "layers")
    _check(
        len({part.dtype for part in (*chain(*layers), shift, scale, rate)}) == 1 and rate.is_floating_point(), "dtype"
    )
    facts = _facts("neural-ode", header, ((lead, rate.dtype), (lead, rate.dtype)))
    return NeuralODEModel(layers=layers, shift=shift, scale=scale, rate=rate, context=context, **common, **facts)


READERS = {**dict.fromkeys(EQUATIONS, _equation), "neural-ode": _neural_ode}
FACTS = {
    **dict.fromkeys(EQUATIONS, ("condition", "converged", "residual")),
    "neural-ode": ("velocity_error", "trajectory_error"),
}
"""What a fit says about itself. It may be infinite, and is in the header, where no field is computed from it."""


DOMAIN = ("points", "scale", "reach")


def _domain(tensors: Tensors, law: LearnedField) -> Region | None:
    """None where a file does not have it."""
    if "domain.points" not in tensors:
        return None
    points, scale, reach = parts = [tensors[f"domain.{part}"] for part in DOMAIN]
    lead = law.coefficients.shape[:-2] if isinstance(law, Equation) else law.rate.shape[:-1]
    fits = points.ndim == len(lead) + 2 and points.shape == (*lead, points.shape[-2], law.latent_dim)
    _check(fits and scale.shape == (*lead, law.latent_dim) and reach.shape == lead, "domain")
    _check(all(part.dtype == torch.float64 for part in parts) and points.shape[-2] > 0, "domain")
    _check(bool((scale > 0).all() and (reach > 0).all()), "domain")
    return Region(points, scale, reach)


def _facts(kind: str, header: Header, wanted: tuple[tuple[Sequence[int], torch.dtype], ...]) -> dict[str, Tensor]:
    facts = {}
    for name, (shape, dtype) in zip(FACTS[kind], wanted, strict=True):
        facts[name] = torch.tensor(header[name], dtype=dtype)
        _check(facts[name].shape == tuple(shape), name)
    return facts


def _scaling(name: str, header: Header, tensors: Tensors, lead: Sequence[int]) -> Scaling:
    """Of variables that share it, or with one for each problem of a stack `lead`."""
    names, shift, scale = header[name], tensors[f"{name}.shift"], tensors[f"{name}.scale"]
    _check(isinstance(names, list) and all(isinstance(each, str) for each in names), f"names of {name}")
    _check(shift.shape == scale.shape and shift.shape in ((len(names),), (*lead, len(names))), f"scaling of {name}")
    _check(shift.dtype == scale.dtype == torch.float64 and bool((scale > 0).all()), f"scaling of {name}")
    return Scaling(tuple(names), shift, scale)


def _spec(library: Library) -> list:
    """A library as plain values: the name of its class, and what makes one."""
    if LIBRARIES.get(type(library).__name__) is not type(library):
        fix = "fit with Polynomial and Fourier, or keep the script that fits it"
        raise InputError("law", expected="terms that a file can hold", got=repr(library)[:80], fix=fix)
    parts = (getattr(library, field.name) for field in dataclasses.fields(library))
    return [type(library).__name__, *(_spec(part) if isinstance(part, Library) else part for part in parts)]


def _library(spec: list, variables: int) -> tuple[Library, int]:
    """The library of `_spec`, and how many terms it has, counted before any is made."""
    name, first, *second = spec
    kind = LIBRARIES[name]
    if kind in (Polynomial, Fourier):
        _check(type(first) is int and 0 <= first <= MAX_TERMS and not second, name)
        terms = 2 * first * variables if kind is Fourier else math.comb(first + variables, variables)
        parts = (first,)
    elif kind is Subset:
        (keep,), (inner, size) = second, _library(first, variables)
        _check(all(type(k) is int and 0 <= k < size for k in keep), name)
        parts, terms = (inner, tuple(keep)), len(keep)
    else:
        (other,) = second
        (a, m), (b, n) = _library(first, variables), _library(other, variables)
        parts, terms = (a, b), m + n if kind is Sum else m * n
    _check(terms <= MAX_TERMS, f"{name} of too many terms")
    return kind(*parts), terms


def _check(fits: bool, what: str) -> None:
    if not fits:
        raise ValueError(what)
