# ruff: noqa: E501, the tables read better in long lines
"""Every public callable, with bad arguments: refused in one line that names an argument, or a valid result.

Callables are found by themselves (`surface`), and so are bad values, by annotations (`bad`): a new public function is
tried without anyone remembering it. `python -m tests.robustness.test_arguments` prints what went how.
"""

import contextlib
import fnmatch
import re
import signal
import warnings
from collections import Counter
from collections.abc import Iterator

import pytest
import torch
import xarray as xr

import romkit
from romkit.errors import InputError, RomkitError
from tests.robustness import bad, examples
from tests.robustness.surface import Target, targets

SECONDS = 5.0
"""Of the processor, in which a call has to end."""

HOOK = "romkit calls it with what it has checked: a user writes it, or it runs inside of loops and compilers"
RECORD = "romkit fills it with results"
VERDICT = "its purpose is to raise AssertionError with what a class does wrong"
INNER = {
    **dict.fromkeys(
        (
            "integrators.*.start", "integrators.*.solve", "integrators.*.latent_rate", "integrators.*.field", "integrators.Hamiltonian.*",
            "integrators.*.right_hand_side", "integrators.*.motion", "integrators.*.at", "integrators.*.detached",
            "integrators.sindy.Basis*", "integrators.sindy.*.names", "integrators.sindy.*.__call__",
            "projections.*.at", "projections.*.penalty", "projections.*.initialise", "projections.Projection.operator",
            "projections.EncoderDecoder.*", "projections.MovingPath.*", "projections.*ormalization.*normalise*",
            "projections.BiasNcAE.slope", "projections.SlopeNcAE.bias", "solvers.*.prepare",
            "systems.*.rhs", "systems.*.initial_*", "systems.*.train_contexts", "systems.*.weigh", "systems.*.annotate",
            "systems.*.acceleration", "systems.*.problem", "systems.*.at_rest", "systems.System.record",
            "systems.System.start", "systems.ModelParameter.apply", "systems.*.quadratic", "projections.*normalise_tangent", "bases.Basis.with_dual",
            "training.*.value", "training.*.attach", "training.Evaluated.*",
        ),
        HOOK,
    ),
    **dict.fromkeys(
        (
            "data.Contexts", "data.Snapshots", "bases.Decomposition", "solvers.Solution", "systems.Motion", "training.Evaluated",
            "metrics.Reconstruction", "projections.Operator", "integrators.SINDyModel", "integrators.NeuralODEModel", "integrators.Equation", "integrators.OperatorModel",
            "integrators.LinearModel",
        ),
        RECORD,
    ),
    "testing.*": VERDICT,
}  # fmt: skip
"""Callables that are not behind the boundary, and why."""

ACCEPTED: dict[tuple[str, str, str], str] = {
    (
        "projections.Projection.with_sizes",
        "sizes",
        "an unknown name",
    ): "checked where the method is built, in romkit.fit",
}
"""(callable, argument, value) that is accepted although the annotation speaks against it, and why."""

FINE = ("refused", "used", "unreached")
"""Outcomes that break no promise; the last one is of methods without an instance to call them on."""

TARGETS = [target for target in targets() if target.parameters]


def why_not(target: Target) -> str | None:
    """Why a callable is not behind the boundary."""
    return next((why for pattern, why in INNER.items() if fnmatch.fnmatchcase(target.name, pattern)), None)


BEHIND = [target for target in TARGETS if not why_not(target)]


def attempts(target: Target) -> Iterator[tuple[str, bad.Bad]]:
    """Arguments and what to put into them."""
    valid = examples.arguments(target)
    for name, parameter in target.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            yield name, bad.Bad("an unknown name", {"bogus": 1})
            if "F" in valid:
                yield from ((name, bad.Bad(label, {"F": value})) for label, value in bad.ARGUMENTS["**"].items())
            continue
        annotation = target.hints.get(name)
        yield from ((name, each) for each in bad.values(name, annotation, valid.get(name, parameter.default)))
        if annotation is xr.Dataset:
            yield from ((name, bad.Bad(label, value, False)) for label, value in bad.datasets().items())


def outcome(target: Target, name: str, tried: bad.Bad) -> str:
    """What came of it: refused, used, or what is wrong."""
    given = examples.arguments(target)
    spread = isinstance(tried.value, dict) and target.parameters[name].kind is target.parameters[name].VAR_KEYWORD
    given |= tried.value if spread else {name: tried.value}
    try:
        owner = examples.instance(target)
    except RomkitError:
        return "unreached"
    try:
        with limited():
            target.function(**given) if owner is None else target.function(owner, **given)
    except RomkitError as error:
        return verdict(target, error)
    except TimeoutError:
        return f"takes longer than {SECONDS} s"
    except Exception as error:
        return f"{type(error).__name__}: {error!s:.100}"
    return "accepted in silence" if tried.never and (target.name, name, tried.label) not in ACCEPTED else "used"


def verdict(target: Target, error: RomkitError) -> str:
    """Whether the refusal is one line that names an argument."""
    text = str(error)
    if not text.isprintable() or len(text) > 1000:
        return f"not one line: {text!r:.100}"
    if isinstance(error, InputError):
        words = set(re.findall(r"\w+", error.argument))
        if not words & ({*target.parameters} | FIELDS):
            return f"names no argument: {text:.100}"
    return "refused"


FIELDS = {"F", "m", "rank", "data", "bogus", "l1", "context", "parameters", "z", "zdot", "x", "setting"} | set(
    romkit.training.recipe.SETTINGS
)
"""Arguments behind `**`, and those of a dataset."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Of time, and without warnings."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("target", BEHIND, ids=[target.name for target in BEHIND])
def test_bad_arguments_are_refused_or_harmless(target):
    wrong = [
        f"{name}={tried.label}: {found}"
        for name, tried in attempts(target)
        if (found := outcome(target, name, tried)) not in FINE
    ]
    assert not wrong, "\n".join(wrong)


def test_there_are_thousands_of_attempts_on_almost_all_that_is_behind_the_boundary():
    counts = {target.name: sum(1 for _ in attempts(target)) for target in BEHIND}
    assert sum(counts.values()) >= 2000
    assert sum(count > 0 for count in counts.values()) >= 0.95 * len(BEHIND)


def main() -> None:
    """Print every attempt that went wrong, and how many there were."""
    counts = Counter()
    for target in BEHIND:
        for name, tried in attempts(target):
            found = outcome(target, name, tried)
            counts[found if found in FINE else "wrong"] += 1
            if found not in FINE:
                print(f"{target.name}({name}={tried.label}): {found}", flush=True)
    print(dict(counts), f"{len(BEHIND)} of {len(TARGETS)} callables behind the boundary")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
