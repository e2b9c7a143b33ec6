"""`romkit learn`: from files of runs to a reduced model with bars, and a page about it."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import romkit
from romkit.cli import inputs, options, output, results


def learn(
    sources: Annotated[list[str], Argument(metavar="FILE")],
    context: str | None = None,
    latent_dim: Annotated[int | None, Option(min=1, max=10000)] = None,
    kinds: str | None = None,
    period: float | None = None,
    seconds: float = 60.0,
    seed: Annotated[int, Option(min=0)] = 0,
    held_out: float | None = None,
    out: Path | None = None,
    force: options.Force = False,
) -> None:
    """Learn a reduced model from runs at several parameters, and report how good it is.

    Races manifolds with laws on left-out runs, fits the best to all runs, and writes models,
    pictures and REPORT.md. Errors are those of models that were fitted without the runs.

    \b
    Examples:
      romkit learn runs/*.nc --context beta
      romkit learn runs/*.nc --context beta --kinds polynomial,sindy
      romkit learn mine.csv --context speed --held-out 0.25 --out mine
      romkit learn "runs/beta_{beta}.nc"     beta is in the names of the files
      romkit report runs/learned/REPORT.md

    Args:
        sources: Files of runs, one in each or all in one.
        context: Names of the parameters in which runs differ, with commas.
        latent_dim: Number of latent coordinates; by default chosen.
        kinds: Names of laws to choose from, with commas; `romkit info` lists them.
            `interpolation` alone interpolates the runs.
        period: Of what drives all runs from outside; in seconds where times are dates.
        seconds: Of the processor, for the choice of a law.
        seed: Of all random numbers.
        held_out: Share of the contexts that nothing is fitted to or chosen by.
        out: Folder of the model and its report; runs/learned by default.
    """
    folder = results.target(out, "learned", "REPORT.md", force).parent
    settings: dict[str, Any] = {"latent_dim": latent_dim, "period": period}
    if kinds is not None:
        settings["kinds"] = options.names(kinds)
    settings |= {"held_out": held_out, "seconds": seconds, "seed": seed}
    output.on_interruption("nothing is kept; shorter with fewer --seconds")
    learned = romkit.learn(inputs.without_systems(sources), options.names(context), **settings)
    learned.save(folder)
    if isinstance(learned, romkit.learning.SteadyModel):
        errors = {name: values.tolist() for name, values in learned.errors.items()}
        output.add(error=learned.error, errors=errors, candidates=learned.report)
        print(learned)
        output.wrote(folder)
        return
    report = learned.report(folder)
    output.add(
        error=learned.error,
        errors=learned.mean_errors,
        errors_of_variables=_of_variables(learned),
        advice=learned.advice,
        latent_dim=learned.projection.latent_dim,
        candidates=learned.law.report,
    )
    print(learned)
    output.wrote(report)


def _of_variables(learned: "romkit.Learned") -> dict[str, dict[str, object]]:
    """Return error of each variable at contexts that were not seen, in its unit and in its
    deviation.
    """
    of_variables = {}
    for name, errors in learned.errors_of_variables.items():
        of_variables[name] = {
            "unit": errors.units,
            "error": errors.in_unit,
            "share_of_deviation": errors.in_deviations,
        }
    return of_variables
