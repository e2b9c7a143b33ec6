"""Fitted laws in files: the tensors of the field, and in the header its terms and facts about the
fit.
"""

import os
from dataclasses import fields

import torch

from romkit.core.errors import FileError, InputError
from romkit.core.files import Header, Tensors, reason
from romkit.integrators.base import LearnedField
from romkit.integrators.laws import equations
from romkit.integrators.laws.neural_ode import NeuralODEModel
from romkit.integrators.laws.phase import PhaseLaw
from romkit.integrators.laws.samples import Scaling
from romkit.integrators.region import Region

FORMER_KINDS = dict.fromkeys(("sindy", "operator-inference", "dmd"), equations.Equation)
KINDS: dict[str, type[LearnedField]] = {
    "equation": equations.Equation,
    "neural-ode": NeuralODEModel,
} | FORMER_KINDS
"""Laws by the name that a file has for them."""

PHASE = ("shape", "speed")
"""Laws that a `PhaseLaw` is made of."""

LIBRARIES = {
    name: getattr(equations, name) for name in ("Polynomial", "Fourier", "Sum", "Product", "Subset")
}
FORMER = {"Some": "Subset"}
"""Names of libraries in files of 2026, by romkit 0.1."""

FACTS = ("condition", "converged", "residual", "velocity_error", "trajectory_error")
"""Facts about a fit. They may be infinite, and are numbers in the header, from which no field is
computed.
"""

NETWORK, REGION = ("shift", "scale", "rate"), ("points", "scale", "reach")


def packed(law: LearnedField) -> tuple[Header, Tensors]:
    """Header and tensors of a law, or of a stack of them, for a file.

    Raises:
        InputError: a law of the user's own, or one with terms that are functions of the user's own.
    """
    if isinstance(law, PhaseLaw):
        parts = {name: packed(getattr(law, name)) for name in PHASE}
        tensors = {
            f"{name}.{key}": value for name, (_, own) in parts.items() for key, value in own.items()
        }
        return {"law": "phase"} | {name: header for name, (header, _) in parts.items()}, tensors
    kind = next((name for name, each in KINDS.items() if each is type(law)), None)
    if kind is None:
        fix = "write its parameters to a file of your own"
        raise InputError(
            "law", expected=f"a fitted {' or '.join(KINDS)}", got=type(law).__name__, fix=fix
        )
    header: Header = {
        "order": law.order,
        "source": law.source,
        "control_names": list(law.control_names),
        "law": kind,
    }
    if isinstance(law, NeuralODEModel):
        header["layers"], scalings = len(law.layers), {"context": law.context}
        tensors = {name: getattr(law, name) for name in NETWORK}
        tensors |= {
            f"layers.{2 * k + j}": part
            for k, layer in enumerate(law.layers)
            for j, part in enumerate(layer)
        }
    else:
        basis, tensors = law.basis, {"coefficients": law.coefficients}
        header |= {"library": _spec(basis.library), "context_library": _spec(basis.context_library)}
        scalings = {"variables": basis.variables, "context": basis.context}
    header["samples"], header["report"] = law.samples, list(law.report)
    header |= {
        each.name: getattr(law, each.name).tolist() for each in fields(law) if each.name in FACTS
    }
    if law.domain is not None:
        tensors |= {f"domain.{part}": getattr(law.domain, part) for part in REGION}
    for name, scaling in scalings.items():
        header[name] = list(scaling.names)
        tensors |= {f"{name}.shift": scaling.shift, f"{name}.scale": scaling.scale}
    return header, tensors


def unpacked(path: str | os.PathLike, header: Header, tensors: Tensors) -> LearnedField:
    """The law of a file, on the CPU.

    Raises:
        FileError: an unknown kind of law, or parts that do not fit each other.
    """
    if header["law"] == "phase":
        laws = []
        for name in PHASE:
            own = {
                key.removeprefix(f"{name}."): t
                for key, t in tensors.items()
                if key.startswith(f"{name}.")
            }
            laws.append(unpacked(path, header[name], own))
        return PhaseLaw(*laws)
    kind = KINDS.get(str(header["law"]))
    if kind is None:
        problem = f"holds a law of the unknown kind {header['law']!r:.40}"
        raise FileError(
            path, problem=problem, fix=f"this romkit knows {', '.join(KINDS)}; update it"
        )
    try:
        law = _law(kind, header, tensors)
        _try(law, len(header["context"]))
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        problem = f"holds a law whose parts do not fit each other ({reason(error)})"
        raise FileError(
            path, problem=problem, fix="restore it from a copy, or fit and save the law again"
        ) from error
    return law


def _law(kind: type[LearnedField], header: Header, tensors: Tensors) -> LearnedField:
    """The law of a header and tensors; errors of any kind where these do not fit."""
    scalings = {}
    for name in {"variables", "context"} & header.keys():
        names, shift, scale = (
            tuple(header[name]),
            tensors[f"{name}.shift"],
            tensors[f"{name}.scale"],
        )
        if len(names) != scale.shape[-1] or not bool((scale > 0).all()):
            raise ValueError(f"scaling of {name}")
        scalings[name] = Scaling(names, shift, scale)
    parts = {name: header[name] for name in ("order", "source", "samples")}
    parts["report"] = tuple(header.get("report", ()))
    parts["control_names"] = tuple(
        header.get("control_names", ())
    )  # laws of 2026, by romkit 0.1, may have none
    if "domain.points" in tensors:
        parts["domain"] = Region(*(tensors[f"domain.{part}"] for part in REGION))
    own = {each.name for each in fields(kind)}
    dtype = tensors["rate" if kind is NeuralODEModel else "coefficients"].dtype
    for name in own.intersection(FACTS):
        parts[name] = torch.tensor(header[name], dtype=torch.bool if name == "converged" else dtype)
    if kind is NeuralODEModel:
        pairs = [
            (tensors[f"layers.{k}"], tensors[f"layers.{k + 1}"])
            for k in range(0, 2 * header["layers"], 2)
        ]
        network = {name: tensors[name] for name in NETWORK}
        return NeuralODEModel(layers=tuple(pairs), **network, context=scalings["context"], **parts)
    most = tensors["coefficients"].shape[-2]
    libraries = (_library(header[name], most) for name in ("library", "context_library"))
    features = equations.Features(*libraries, scalings["variables"], scalings["context"])
    return kind(basis=features, coefficients=tensors["coefficients"], **parts)


def _try(law: LearnedField, parameters: int) -> None:
    """Raise unless the law, or each of a stack, gives finite rates and distances of the right
    shape.
    """
    like = law.rate if isinstance(law, NeuralODEModel) else law.coefficients[..., 0, :]
    stack, m = like.shape[:-1], law.latent_dim
    with torch.no_grad():
        w = like.new_zeros(*stack, 1, 1, m * law.order)
        found = law.right_hand_side(like.new_zeros(*stack, 1, parameters))(w)
        distance = (
            like.new_zeros(stack)
            if law.domain is None
            else law.domain.distance(like.new_zeros(*stack, m))
        )
    if found.shape != (*stack, 1, 1, m) or distance.shape != stack:
        raise ValueError(f"rates of shape {tuple(found.shape)}")
    if not bool(found.isfinite().all() and distance.isfinite().all()):
        raise ValueError("rates that are not finite")


def _spec(library: equations.Library) -> list:
    """A library as plain values: the name of its class, and the arguments that make one."""
    if LIBRARIES.get(type(library).__name__) is not type(library):
        fix = "fit with Polynomial and Fourier, or keep the script that fits it"
        raise InputError(
            "law", expected="terms that a file can hold", got=repr(library)[:80], fix=fix
        )
    parts = (getattr(library, each.name) for each in fields(library))
    return [
        type(library).__name__,
        *(_spec(p) if isinstance(p, equations.Library) else p for p in parts),
    ]


def _library(spec: list, most: int) -> equations.Library:
    """The library of `_spec`, none of whose numbers is larger than the number of its terms."""
    name, *parts = spec
    made = []
    for part in parts:
        if isinstance(part, list):
            made.append(_library(part, most) if isinstance(part[0], str) else tuple(part))
        elif part <= most:
            made.append(part)
        else:
            raise ValueError(f"{name} of more than {most} terms")
    return LIBRARIES[FORMER.get(name, name)](*made)
