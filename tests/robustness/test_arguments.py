"""Every public callable, with bad arguments: refused in one line that names an argument, or a valid result.

Callables are found by themselves (`surface`), and so are bad values, by annotations (`bad`): a new public function is
tried without anyone remembering it. `python -m tests.robustness.test_arguments` prints what went how.
"""

import contextlib
import inspect
import re
import signal
import warnings
from collections import Counter
from collections.abc import Iterator

import pytest
import torch
import xarray as xr

import romkit
from romkit.core.errors import InputError, RomkitError
from tests.robustness import bad, calls, examples
from tests.robustness.surface import Target, kind, targets

pytestmark = pytest.mark.filterwarnings("ignore")

SECONDS = 5.0
"""Of the processor, in which a call has to end."""

IN_LOOPS = "authors of projections call it where they call torch, in every evaluation: torch says what does not fit"
NOT_BEHIND = {
    **dict.fromkeys(("systems.problem.Problem.join",), IN_LOOPS),
    **dict.fromkeys(("core.types.Dual", "core.types.Jet", "core.types.Jet.through"), IN_LOOPS),
    **dict.fromkeys(
        ("systems.problem.euclidean", "systems.problem.unknown_field"),
        "what a problem has in place of a function of the user's",
    ),
    **dict.fromkeys(
        ("systems.System.rhs_rows", "systems.System.stencil", "systems.Burgers2D.rhs_rows"),
        "authors of systems write them for rows that romkit chooses: torch says what does not fit",
    ),
    "projections.EncoderDecoder.decode_curvature": "maps in normalised coordinates do not know their sizes; `Operator`"
    " calls them with what it has checked",
}
"""Callables that are not behind the boundary, and why."""

ACCEPTED = {("projections.Projection.with_sizes", "sizes", "an unknown name"): "checked where the method is built"}
"""(callable, argument, value) that is accepted although the annotation speaks against it, and why."""

PROCESSES = {("compare", "workers"): "each starts processes, which import torch"}
"""(callable, argument) that is not tried with unusual values, and why."""

FINE = ("refused", "used")
"""Outcomes that break no promise."""

TARGETS = [target for target in targets() if target.parameters]


BEHIND = [target for target in TARGETS if target.name not in NOT_BEHIND]


def room_of(target: Target) -> str:
    """The first part of its name, "romkit" for what stands there itself."""
    return target.name.split(".")[0] if "." in target.name and target.name[0].islower() else "romkit"


ROOMS = sorted({room_of(target) for target in BEHIND})


def attempts(target: Target) -> Iterator[tuple[str, bad.Bad]]:
    """Arguments and what to put into them."""
    valid = examples.arguments(target, calls.instance(target))
    for name, parameter in target.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            yield name, bad.Bad("an unknown name", {"bogus": 1})
            if "F" in valid:
                yield from ((name, bad.Bad(label, {"F": value})) for label, value in bad.ARGUMENTS["**"].items())
            continue
        annotation = target.hints.get(name)
        for each in bad.values(name, annotation, valid.get(name, parameter.default)):
            if each.never or (target.name, name) not in PROCESSES:
                yield name, each
        if kind(annotation) is xr.Dataset:
            yield from ((name, bad.Bad(label, value, False)) for label, value in bad.datasets().items())


def outcome(target: Target, name: str | None = None, tried: bad.Bad | None = None) -> str:
    """What came of a call, valid but for this argument: refused, used, or what is wrong."""
    owner = calls.instance(target)
    given = examples.arguments(target, owner)
    if name is not None:
        spread = isinstance(tried.value, dict) and target.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        given |= tried.value if spread else {name: tried.value}
    try:
        with limited():
            target.function(**given) if owner is None else target.function(owner, **given)
    except RomkitError as error:
        return verdict(target, error)
    except TimeoutError:
        return f"takes longer than {SECONDS} s"
    except Exception as error:
        a_verdict = isinstance(error, AssertionError) and target.name.startswith("testing.")
        return "used" if a_verdict else f"{type(error).__name__}: {error!s:.100}"
    never = tried is not None and tried.never and (target.name, name, tried.label) not in ACCEPTED
    return "accepted in silence" if never else "used"


def wrongs(target: Target, counts: Counter | None = None) -> Iterator[str]:
    """What goes wrong with a callable, beginning with a valid call; `counts` learns how often what came out."""
    if (valid := outcome(target)) != "used":
        yield f"a valid call is {valid}"
    for name, tried in attempts(target):
        found = outcome(target, name, tried)
        if counts is not None:
            counts[found if found in FINE else "wrong"] += 1
        if found not in FINE:
            yield f"{name}={tried.label}: {found}"


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


@pytest.mark.parametrize("room", ROOMS)
def test_bad_arguments_are_refused_or_harmless(room):
    wrong = [line for target in BEHIND if room_of(target) == room for line in wrongs(target)]
    assert not wrong, "\n".join(wrong)


def test_almost_all_public_callables_are_tried_and_thousands_of_times():
    tried = {target.name for target in BEHIND if any(attempts(target))}
    assert len(tried) >= 0.95 * len(TARGETS), sorted({target.name for target in TARGETS} - tried)
    assert sum(1 for target in BEHIND for _ in attempts(target)) >= 10_000


def test_what_stands_in_the_lists_of_exceptions_is_there():
    listed = {*NOT_BEHIND, *(name for name, _, _ in ACCEPTED), *(name for name, _ in PROCESSES)}
    assert listed <= {target.name for target in TARGETS}


def main() -> None:
    """Print every attempt that went wrong, and how many there were."""
    counts, tried_on = Counter(), 0
    for target in BEHIND:
        before = counts.total()
        for line in wrongs(target, counts):
            print(f"{target.name}: {line}", flush=True)
        tried_on += counts.total() > before
    print(dict(counts), f"on {tried_on} of {len(TARGETS)} callables")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
