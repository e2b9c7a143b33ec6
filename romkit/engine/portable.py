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
from romkit.engine.emit import ConstantPools, Emitter
from romkit.engine.formulas import number
from romkit.engine.lower import translated
from romkit.engine.places import Located, fresh
from romkit.engine.trace import Trace, is_symbol, needed


class Source(NamedTuple):
    """The text of the two files of a model."""

    code: str
    header: str


def source(name: str, about: Sequence[str], trace: Trace, lines: int = 0) -> Source:
    """Return a model in C.

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
    constants = ConstantPools(1, latent.dtype)
    # context and inputs, and where they stand in M: one behind the other
    p, q = context.shape[-1], control.shape[-1]
    ids = fresh("M", (1, p + q), 1).ids
    parameters = [(context, Located("M", ids[..., :p])), (control, Located("M", ids[..., p:]))]
    early, late = trace.parted(t, latent, state, control)
    # once for each context, where it is set
    setting = translated(early, parameters[:1], (1,), constants)
    # their numbers stay in the struct of the model
    needed_later = [symbol for call in late for symbol in call.symbols]
    needed_later += tree_leaves(trace.result)
    first_free = context.shape[-1] + control.shape[-1]
    shared, places = _shared(setting, needed_later, first_free)

    def body(array: str, argument: Tensor, target: str, result: Tensor, size: int) -> str:
        """Statements of a function of one array, which write another one of this size."""
        inputs = [(t, fresh("t", ())), parameters[1], (argument, fresh(array, argument.shape, 1))]
        emitter = translated(needed(late, result), [*inputs, *shared], (1,), constants)
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
    kept = first_free + sum(setting.sizes[array] for array in places)
    facts = {
        "name": name,
        "about": "\n".join(f"// {line}" for line in about),
        "numbers": max(1, kept),  # C has no empty arrays
        "latent": latent.shape[-1],
        "state": state.shape[-1],
        "context": context.shape[-1],
        "control": lines or control.shape[-1],
    }
    # the function that sets the inputs, held or straight lines
    file = "set_lines" if lines else "set_control"
    facts["declare_control"] = source_text(f"{file}.h").replace("$name", name).strip()
    facts["set_control"] = Template(source_text(f"{file}.c")).substitute(facts).strip()
    code = Template(source_text("model.c")).substitute(
        facts,
        functions=_used("\n".join(statements.values())),
        count=len(numbers),
        table=", ".join(map(number, numbers)),
        **statements,
    )
    return Source(code, Template(source_text("model.h")).substitute(facts))


def _shared(
    setting: Emitter, wanted: list[Tensor], start: int
) -> tuple[list[tuple[Tensor, Located]], dict[str, int]]:
    """Return places in M, from `start` on, of tensors that were computed with the context, and of
    their arrays.
    """
    tensors, places = [], {}
    free = start
    for tensor in wanted:
        # constants stand in the table
        if not is_symbol(tensor) or not setting.known(tensor):
            continue
        array, ids = setting.value(tensor).buffer, setting.value(tensor).ids
        if array != "M" and array not in places:
            places[array] = free
            free += setting.sizes[array]
        tensors.append((tensor, Located("M", ids + places.get(array, 0))))
    return tensors, places


def _used(statements: str) -> str:
    """Return the functions that the statements call, and those call, since compilers warn of
    others.
    """
    text = re.sub(r"(?m)^//.*\n", "", f"{source_text('elementwise.h')}\n{source_text('arrays.h')}")
    definitions = re.split(r"(?m)^(?=static inline |ANY )", text)
    kept = ""
    # backwards, since a function calls those above it
    for definition in reversed(definitions):
        name = re.match(r"(?:static inline|ANY INLINE) \w+ (\w+)\(", definition)
        if not name or re.search(rf"\b{name[1]}\(", kept + statements):
            kept = definition.rstrip() + "\n" + kept
    return kept
