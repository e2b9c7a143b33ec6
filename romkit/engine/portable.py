"""A traced model as one file of plain C99 with a header: no heap, no globals that change, libm alone.

The statements are those of the kernels, for one member. Calls that depend on the context alone run once, where it is
set, and write what the others need into the struct of the model.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor
from torch.utils._pytree import tree_leaves

from romkit.engine.emit import Constants, Emitter, Located, fresh
from romkit.engine.formulas import number
from romkit.engine.kernel import read
from romkit.engine.lower import translated
from romkit.engine.trace import Trace, is_symbol, needed

HEADER = """\
{about}
#ifndef {name}_H
#define {name}_H

#ifdef __cplusplus
extern "C" {{
#endif

enum {{ {name}_LATENT = {latent}, {name}_STATE = {state}, {name}_CONTEXT = {context}, {name}_CONTROL = {control} }};

// A model at a context, which is set before anything else. All that changes is in here, so a copy is a model of its
// own, and every thread may have one. Nothing is allocated.
struct {name} {{
  double numbers[{numbers}];
}};

void {name}_set_context(struct {name} *model, const double context[]);

// Inputs stay as they are until they are set again; set them before the first step, if there are any.
void {name}_set_control(struct {name} *model, const double control[]);

// latent = rho(state), and state = phi(latent), in physical units.
void {name}_encode(const struct {name} *model, const double state[], double latent[]);
void {name}_decode(const struct {name} *model, const double latent[], double state[]);

// rate = d latent / dt at time t.
void {name}_rate(const struct {name} *model, double t, const double latent[], double rate[]);

// One step of length h of the classical Runge-Kutta method, in place.
void {name}_step(const struct {name} *model, double t, double h, double latent[]);

#ifdef __cplusplus
}}
#endif

#endif
"""

SCALARS = """\
#include <math.h>

typedef double T;
typedef T V;
#define T(x) ((T)(x))
#define vec(x) (x)
#define EACH(function) return function
#define OF(x) x
#define D {latent}
#define ANY
#define COLUMNS 32
typedef V A;
typedef V B;
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math")
double sqrt(double) __attribute__((const));  // it would set errno otherwise, and be a call
#endif
"""


class Source(NamedTuple):
    """The text of the two files of a model."""

    code: str
    header: str


def source(name: str, about: Sequence[str], trace: Trace) -> Source:
    """A model in C.

    Args:
        name: of the struct, and of the header, and what the names of functions begin with.
        about: lines that the header begins with.
        trace: of (t, latent, state, context, control) to (rate, encoded state, decoded latent): t a scalar, all others
            with one leading axis, of one entry.

    Raises:
        Unsupported: a call that has no compiled form.
    """
    t, latent, state, context, control = trace.inputs
    constants, given = Constants(1, latent.dtype), context.shape[-1] + control.shape[-1]
    inputs = fresh("M", (1, given), 1).ids.split([context.shape[-1], control.shape[-1]], dim=-1)
    context_in, control_in = (Located("M", ids) for ids in inputs)
    early, late = trace.parted(t, latent, state, control)
    setting = translated(early, [(context, context_in)], (1,), constants)
    shared, places = _shared(setting, [x for call in late for x in call.symbols] + tree_leaves(trace.result), given)
    taken = given + sum(setting.sizes[array] for array in places)

    def body(array: str, argument: Tensor, target: str, result: Tensor, size: int) -> str:
        own = [(t, fresh("t", ())), (control, control_in), (argument, fresh(array, argument.shape, 1))]
        emitter = translated(needed(late, result), [*own, *shared], (1,), constants)
        emitter.give(target, result, (1, size))
        return emitter.source()

    rate, encoded, decoded = trace.result
    n, d = state.shape[-1], latent.shape[-1]
    opening = "  const T *C = NUMBERS, *M = model->numbers;\n  (void)C, (void)M;"
    functions = f"""\
INLINE void evaluate(T time, const V *y, V *out, const T *C, const V *M) {{
  const V t[1] = {{vec(time)}};
  (void)t, (void)y, (void)C, (void)M;
{body("y", latent, "out", rate, d)}
}}

{read("dispatch.h")}
{read("rk4.h")}
void {name}_set_context(struct {name} *model, const double context[]) {{
  const T *C = NUMBERS;
  V *M = model->numbers;
  (void)C;
  for (int i = 0; i < {context.shape[-1]}; i++) M[i] = context[i];
{setting.source(places)}
}}

void {name}_set_control(struct {name} *model, const double control[]) {{
  for (int i = 0; i < {control.shape[-1]}; i++) model->numbers[{context.shape[-1]} + i] = control[i];
}}

void {name}_encode(const struct {name} *model, const double state[], double latent[]) {{
{opening}
{body("state", state, "latent", encoded, d)}
}}

void {name}_decode(const struct {name} *model, const double latent[], double state[]) {{
{opening}
{body("latent", latent, "state", decoded, n)}
}}

void {name}_rate(const struct {name} *model, double t, const double latent[], double rate[]) {{
  field(t, latent, rate, NUMBERS, model->numbers);
}}

void {name}_step(const struct {name} *model, double t, double h, double latent[]) {{
  step(t, h, latent, NUMBERS, model->numbers);
}}
"""
    numbers = constants.pack(1)[0].tolist()
    table = f"static const T NUMBERS[{len(numbers)}] = {{\n{', '.join(map(number, numbers))}}};\n"
    sizes = {"latent": d, "state": n, "context": context.shape[-1], "control": control.shape[-1]}
    lines = "\n".join(f"// {line}" for line in about)
    header = HEADER.format(name=name, about=lines, numbers=max(1, taken), **sizes)
    head = f'{lines}\n#include "{name}.h"\n\n{SCALARS.format(latent=d)}'
    return Source("\n".join([head, _used(functions), table, functions]), header)


def _shared(setting: Emitter, wanted: list[Tensor], start: int) -> tuple[list[tuple[Tensor, Located]], dict[str, int]]:
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
    text = re.sub(r"(?m)^//.*\n", "", f"{read('elementwise.h')}\n{read('arrays.h')}")
    parts, kept = re.split(r"(?m)^(?=static inline |ANY )", text), ""
    for part in reversed(parts):
        name = re.match(r"(?:static inline|ANY INLINE) \w+ (\w+)\(", part)
        if not name or re.search(rf"\b{name[1]}\(", kept + statements):
            kept = part.rstrip() + "\n" + kept
    return kept
