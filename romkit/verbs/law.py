"""`romkit.law`: from a projection and data to the latent dynamics that forecast best."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import xarray as xr
from annotated_types import MinLen

from romkit.core import checks
from romkit.core.boundary import Part, Positive, Seed, validated
from romkit.core.errors import InputError
from romkit.data import check_states
from romkit.integrators import LAWS, Estimator, LearnedField
from romkit.integrators.laws.base import HELD_OUT, ranked, refitted
from romkit.integrators.laws.phase import with_phase
from romkit.integrators.laws.samples import ProjectionFamily

KINDS = ("sindy", "operator-inference", "neural-ode")
"""Laws that are tried: an equation with few terms, one with all, and a network."""

EACH = 0.3
"""Largest share of the time that is spent on the choice of settings of one kind."""


@validated
def law(
    projection: ProjectionFamily,
    data: xr.Dataset,
    *,
    seconds: Positive = 120.0,
    kinds: Annotated[Sequence[str | Estimator], MinLen(1)] = KINDS,
    validation: Part = HELD_OUT,
    seed: Seed = 0,
) -> LearnedField:
    """Fit latent dynamics to data: the kind, with the settings, whose rollouts follow held-out
    trajectories best.

    Every kind is fitted to a part of the trajectories and followed along the others: contexts
    between those of training, or of a single trajectory its last part. Errors of laws that leave
    the data when they go on for as long again count ten times. The best is then fitted to all
    trajectories.

    Args:
        projection: trained on such data; a stack of seeds gives a stack of laws.
        data: in romkit's schema; without velocities, rates come from differentiation in time.
        seconds: about how long it may take. Settings of equations are tried as far as there is
            time, and a neural ODE trains for fewer steps, or is left out. The result is the same
            wherever there is time for all.
        kinds: names of `LAWS`, or their settings, `SINDy(degree=2)`; those that are left open are
            chosen.
        validation: share of the trajectories that is held out.
        seed: of all random numbers.

    Returns:
        The law, for `dynamics=` of `romkit.rollout` and `romkit.forecast`. Its `report` has a row
        for each kind, the best first (`pandas.DataFrame(law.report)`): its name `law`, the `error`
        on held-out trajectories in standard deviations of the latent coordinates (infinite if all
        rollouts are lost, NaN if there was no time for it), `settings`, how many were `tried`,
        `seconds`, and whether it was `chosen`: nearly always the first, but not if its fit to all
        trajectories fails along them.

    Raises:
        InputError: an unknown kind, data of another shape than the projection's, or rollouts that
            are all lost.

    Example:
        >>> import romkit
        >>> data = romkit.systems.Lorenz96(transient=0.0, duration=0.5).dataset(F=[3.14, 3.15, 3.16, 3.18])
        >>> pod = romkit.fit("pod", data, latent_dim=2)
        >>> law = romkit.law(pod, data, kinds=["sindy", "dmd"])
        >>> sorted(row["law"] for row in law.report)
        ['dmd', 'sindy']
        >>> romkit.rollout(data, pod, dynamics=law).rom.dims
        ('trajectory', 'time', 'component')
    """
    check_states(data)
    begun, rows, ranking, names = time.perf_counter(), [], [], {}
    several = Estimator.choices(*projection.for_law(data))
    for kind in kinds:
        started = time.perf_counter()
        settings = (
            kind if isinstance(kind, Estimator) else LAWS[checks.one_of("kinds", kind, LAWS)]()
        )
        name = next(
            (name for name, each in LAWS.items() if each is type(settings)), type(settings).__name__
        )
        left = seconds - (started - begun)  # the best is fitted again, to all trajectories
        candidates = settings.affordable(several, left / 2)
        found = ranked(candidates, validation, seed, EACH * seconds)
        row = {"law": name, "error": math.nan, "settings": "no time for it"}
        if found:
            row |= {"error": found[0].error, "settings": repr(found[0].estimator)}
        rows.append(
            row | {"tried": len(found), "seconds": time.perf_counter() - started, "chosen": False}
        )
        ranking += [each for each in found if math.isfinite(each.error)]
        names |= {id(each.estimator): name for each in found}
    chosen = refitted(sorted(ranking, key=lambda each: each.error), seed)
    if chosen is None:
        got = ", ".join(row["law"] for row in rows) + ", all lost from the start"
        fix = "train the projection longer, give more trajectories, or more seconds"
        raise InputError(
            "data", expected="a law whose rollouts stay near the data", got=got, fix=fix
        )
    fitted, how = chosen
    own = {"error": how.error, "settings": repr(how.estimator), "chosen": True}
    rows = [row | own if row["law"] == names[id(how.estimator)] else row for row in rows]
    source = f"{fitted.source}; the best of {', '.join(row['law'] for row in rows)} by rollouts of held-out trajectories"
    fitted = replace(
        fitted,
        source=source,
        report=sorted(rows, key=lambda row: (row["tried"] == 0, row["error"])),
    )
    return with_phase(fitted, projection, data)
