"""A traced model as one file of plain C99 with a header: no heap, no globals that change, libm
alone.

The statements are those of the kernels, for one member. Calls that depend on the context alone run
once, where it is set, and write what the others need into the struct of the model.
"""

import re
from collections.abc import Sequence
from string import Template
from typing import NamedTuple

from torch import Tensor

from romkit.engine._torch import tree_leaves
from romkit.engine.build import source_text
from romkit.engine.emit import ConstantPools, Emitter, Located, fresh
from romkit.engine.formulas import number
from romkit.engine.lower import translated
from romkit.engine.trace import Trace, is_symbol, needed


class Source(NamedTuple):
    """The text of the two files of a model."""

    code: str
    header: str


def source(name: str, about: Sequence[str], trace: Trace, lines: int = 0) -> Source:
    """A model in C.

    Args:
        name: of the struct, and of the header, and what the names of functions begin with.
        about: lines that the header begins with.
        trace: of (t, latent, state, context, control) to (rate, encoded state, decoded latent): t a
            scalar, all others with one leading axis, of one entry.
        lines: number of inputs that are straight lines over a step; `control` then holds their
            values, their slopes, and the time of the values.

    Raises:
        Unsupported: a call that has no compiled form.
    """
    t, latent, state, context, control = trace.inputs
    constants, given = ConstantPools(1, latent.dtype), context.shape[-1] + control.shape[-1]
    inputs = fresh("M", (1, given), 1).ids.split([context.shape[-1], control.shape[-1]], dim=-1)
    context_in, control_in = (Located("M", ids) for ids in inputs)
    early, late = trace.parted(t, latent, state, control)
    setting = translated(early, [(context, context_in)], (1,), constants)
    shared, places = _shared(
        setting, [x for call in late for x in call.symbols] + tree_leaves(trace.result), given
    )
    taken = given + sum(setting.sizes[array] for array in places)

    def body(array: str, argument: Tensor, target: str, result: Tensor, size: int) -> str:
        own = [
            (t, fresh("t", ())),
            (control, control_in),
            (argument, fresh(array, argument.shape, 1)),
        ]
        emitter = translated(needed(late, result), [*own, *shared], (1,), constants)
        emitter.give(target, result, (1, size))
        return emitter.source()

    rate, encoded, decoded = trace.result
    statements = {
        "rate": body("y", latent, "out", rate, latent.shape[-1]),
        "setting": setting.source(places),
        "encode": body("state", state, "latent", encoded, latent.shape[-1]),
        "decode": body("latent", latent, "state", decoded, state.shape[-1]),
        "dispatch": source_text("dispatch.h"),
        "step": source_text("rk4.h"),
    }
    numbers = constants.pack(1)[0].tolist()
    table = {"count": len(numbers), "table": ", ".join(map(number, numbers))}
    sizes = {"latent": latent, "state": state, "context": context, "control": control}
    facts = {key: each.shape[-1] for key, each in sizes.items()} | {
        "name": name,
        "numbers": max(1, taken),
    }
    if lines:
        facts["control"] = lines
    set_control = "set_lines" if lines else "set_control"
    facts |= {
        "declare_control": source_text(f"{set_control}.h").replace("$name", name).strip(),
        "set_control": Template(source_text(f"{set_control}.c")).substitute(facts).strip(),
    }
    facts["about"] = "\n".join(f"// {line}" for line in about)
    functions = _used("\n".join(statements.values()))
    code, header = (Template(source_text(file)) for file in ("model.c", "model.h"))
    return Source(
        code.substitute(facts, functions=functions, **table, **statements), header.substitute(facts)
    )


def _shared(
    setting: Emitter, wanted: list[Tensor], start: int
) -> tuple[list[tuple[Tensor, Located]], dict[str, int]]:
    """Places in M of tensors that were computed with the context, and of their arrays."""
    found, places = [], {}
    for tensor in wanted:
        if is_symbol(tensor) and setting.known(tensor):
            array, ids = setting.value(tensor).buffer, setting.value(tensor).ids
            if array != "M" and array not in places:
                places[array] = start + sum(setting.sizes[each] for each in places)
            found.append((tensor, Located("M", ids + places.get(array, 0))))
    return found, places


def _used(statements: str) -> str:
    """The functions that the statements call, and those call, since compilers warn of others."""
    text = re.sub(r"(?m)^//.*\n", "", f"{source_text('elementwise.h')}\n{source_text('arrays.h')}")
    parts, kept = re.split(r"(?m)^(?=static inline |ANY )", text), ""
    for part in reversed(parts):
        name = re.match(r"(?:static inline|ANY INLINE) \w+ (\w+)\(", part)
        if not name or re.search(rf"\b{name[1]}\(", kept + statements):
            kept = part.rstrip() + "\n" + kept
    return kept
