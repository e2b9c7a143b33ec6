"""Systems and trainings of studies: what they are made of once presets are looked up, for the keys
of tasks.
"""

import inspect
from collections.abc import Mapping

import romkit
from romkit.projections import METHODS, Frame
from romkit.systems import SYSTEMS, System
from romkit.training.recipe import SETTINGS
from romkit.verbs.presets import PRESETS, sized
from studies.runner import Settings


def make_system(name: str, parameters: Settings) -> System:
    """Return system with these parameters."""
    return SYSTEMS[name](**dict(parameters))


def resolved(method: str, system: System, settings: Mapping[str, object]) -> dict[str, object]:
    """Return the whole recipe and all sizes of `romkit.fit(method, data of system, **settings)`, as
    plain JSON.

    Raises:
        InputError: settings that `romkit.fit` would refuse.
    """
    frame = Frame(
        system.name,
        tuple(system.state_names),
        tuple(system.state_units),
        tuple(system.context_names),
        tuple(parameter.units for parameter in system.context),
    )
    own = inspect.signature(romkit.fit).parameters
    overrides = {name: value for name, value in settings.items() if name in SETTINGS}
    sizes = {
        name: value for name, value in settings.items() if name not in SETTINGS and name not in own
    }
    plan = PRESETS[settings.get("preset", own["preset"].default)](
        system.name, method
    ).replace_settings(overrides)
    return {"recipe": plan.to_json(), "architecture": sized(METHODS[method], frame, sizes)}
