"""An exported model as an FMU: FMI 3.0 for co-simulation, with a library for this platform and the
sources.
"""

import hashlib
import io
import platform
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as Xml

from romkit.core import files
from romkit.core.errors import InputError
from romkit.core.files import temporary_folder
from romkit.core.types import NameSequence
from romkit.core.version import VERSION
from romkit.engine.build import compile_c, source_text
from romkit.engine.portable import Source

SUFFIXES = {"linux": "so", "darwin": "dylib", "windows": "dll"}
"""Endings of libraries on each system."""

MACHINES = {"AMD64": "x86_64", "arm64": "aarch64"}
"""Names of the standard for machines that Python calls otherwise."""

PLATFORMS = {
    # libraries for this version of glibc load on later ones, too
    "x86_64-linux": "x86_64-linux-gnu.2.17",
    "aarch64-linux": "aarch64-linux-gnu.2.17",
    "x86_64-windows": "x86_64-windows-gnu",
    "x86_64-darwin": "x86_64-macos",
    "aarch64-darwin": "aarch64-macos",
}
"""Names of the standard for platforms, and of the cross-compiler."""


def this_platform() -> str:
    """Return name of the standard for this machine and system."""
    machine = platform.machine()
    return f"{MACHINES.get(machine, machine)}-{platform.system().lower()}"


class Variable(NamedTuple):
    """A number of an FMU; its reference is its place in the list."""

    name: str
    unit: str
    attributes: dict[str, str]


def variables(
    context: Sequence[tuple[str, str, float]],
    control: NameSequence,
    latent: Sequence[float],
    state: Sequence[tuple[str, str]],
    time: str,
    are_lines: bool = False,
) -> list[Variable]:
    """Return the variables in the order of `fmi3.c`.

    Args:
        context: name, unit and start value of each parameter.
        control: names of the inputs.
        latent: start values.
        state: name and unit of each component.
        time: unit of time.
        are_lines: whether inputs are straight lines, and have slopes.
    """
    independent = {"causality": "independent", "variability": "continuous"}
    set_by_simulation = {"causality": "input", "variability": "continuous"}
    # start values of the latent state may be set; components of the state follow from it
    started = {"causality": "output", "variability": "continuous", "initial": "exact"}
    decoded = {"causality": "output", "variability": "continuous", "initial": "calculated"}

    table = [Variable("time", time, independent)]
    for name, unit, start in context:
        table.append(Variable(name, unit, set_by_simulation | {"start": repr(start)}))
    place_of_control = len(table)
    for name in control:
        table.append(Variable(name, "1", set_by_simulation | {"start": "0.0"}))
    if are_lines:
        for place, name in enumerate(control, start=place_of_control):
            about = {"start": "0.0", "derivative": str(place)}
            table.append(Variable(f"der({name})", "1", set_by_simulation | about))
    for k, start in enumerate(latent):
        about = started | {"start": repr(start)}
        table.append(Variable(f"latent[{k}]", "1", about))
    for name, unit in state:
        table.append(Variable(name, unit, decoded))
    return table


def write(
    path: Path,
    model: Source,
    table: Sequence[Variable],
    outputs: set[str],
    dt: float,
    about: str,
    platforms: NameSequence | None = None,
) -> None:
    """Write an FMU.

    Args:
        path: its name is that of the model.
        model: in C, under the name `model`.
        table: variables.
        outputs: names of components of the state that are outputs.
        dt: longest step.
        about: a line that says what the model is.
        platforms: names in `PLATFORMS` for which it is compiled; this machine by default.

    Raises:
        InputError: names that XML or an FMU cannot hold.
        Unavailable: no compiler, or it fails.
    """
    _check_names(table)
    # text by which the library recognises its description
    facts = [model.code, *_starts(table), *sorted(outputs), repr(dt)]
    token = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    # text of each file in C
    slopes = sum("derivative" in variable.attributes for variable in table)
    constants = [
        f"#define STEP {dt!r}",
        f"#define SLOPES {slopes}",
        f'#define TOKEN "{token}"',
        f"static const double START[] = {{{', '.join(_starts(table))}}};",
    ]
    header = "\n".join(['#include "model.h"', "", *constants])
    sources = {
        "model.c": model.code,
        "model.h": model.header,
        "fmi3.c": f"{header}\n\n{source_text('fmi3.c')}",
    }
    shown = _shown(table, outputs)
    description = _description(path.stem, token, table, shown, dt, about)
    # in memory first, so that a full disk leaves no half of a file
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("modelDescription.xml", description)
        archive.writestr("sources/buildDescription.xml", _build(path.stem))
        for place, library in _libraries(path.stem, sources, platforms).items():
            archive.writestr(place, library)
        for name, text in sources.items():
            archive.writestr(f"sources/{name}", text)
    with files.atomic(path) as temporary:
        temporary.write_bytes(content.getbuffer())


def _starts(table: Sequence[Variable]) -> list[str]:
    """Start values of the variables that have one, in the order of the table."""
    return [x.attributes["start"] for x in table if "start" in x.attributes]


def _shown(table: Sequence[Variable], outputs: set[str]) -> list[int]:
    """Return places of the variables that importers see: all but components that are no outputs."""
    places = []
    for place, variable in enumerate(table):
        is_component = variable.attributes.get("initial") == "calculated"
        if not is_component or variable.name in outputs:
            places.append(place)
    return places


def _check_names(table: Sequence[Variable]) -> None:
    """Raise InputError for names and units that XML or an FMU cannot hold."""
    number_of = Counter(variable.name for variable in table)
    for variable in table:
        for text in (variable.name, variable.unit):
            if not text.isprintable():  # control characters, line feeds, lone surrogates
                raise InputError(
                    "projection",
                    expected="names and units of printable characters for an FMU",
                    got=repr(text),
                    fix="rename it in the data, and fit again",
                )
        number = number_of[variable.name]
        if number > 1:
            raise InputError(
                "projection",
                expected="a name of its own for each variable of an FMU: time, context, inputs, "
                "latent[k] and state",
                got=f"{number} named {variable.name!r}",
                fix="rename the component or parameter in the data, and fit again",
            )


def _libraries(
    name: str, sources: dict[str, str], platforms: NameSequence | None
) -> dict[str, bytes]:
    """Return the sources, compiled for each platform, by their places in the FMU."""
    native = this_platform()
    libraries = {}
    for chosen in (native,) if platforms is None else platforms:
        # the compiler of this machine is tried first, by which most FMUs are made
        target = None if chosen == native else PLATFORMS[chosen]
        system = chosen.rpartition("-")[2]
        file = f"{name}.{SUFFIXES[system]}"
        libraries[f"binaries/{chosen}/{file}"] = _library(sources, target)
    return libraries


def _library(sources: dict[str, str], target: str | None) -> bytes:
    """Return the sources, compiled for a target of the cross-compiler, or for this machine."""
    with temporary_folder() as folder:
        for name, text in sources.items():
            (folder / name).write_text(text, encoding="utf-8")
        return compile_c(folder, ["model.c", "fmi3.c"], target).read_bytes()


def _description(
    name: str, token: str, table: Sequence[Variable], shown: Sequence[int], dt: float, about: str
) -> bytes:
    model = {
        "fmiVersion": "3.0",
        "modelName": name,
        "instantiationToken": token,
        "description": about,
        "generationTool": f"romkit {VERSION}",
        "variableNamingConvention": "flat",
    }
    root = Xml.Element("fmiModelDescription", model)
    abilities = {"modelIdentifier": name, "canHandleVariableCommunicationStepSize": "true"}
    Xml.SubElement(root, "CoSimulation", abilities)
    units = Xml.SubElement(root, "UnitDefinitions")
    for unit in sorted({table[place].unit for place in shown}):
        Xml.SubElement(units, "Unit", name=unit)
    Xml.SubElement(root, "DefaultExperiment", startTime="0.0", stepSize=repr(dt))
    listing = Xml.SubElement(root, "ModelVariables")
    for place in shown:
        variable = table[place]
        facts = {"name": variable.name, "valueReference": str(place), "unit": variable.unit}
        Xml.SubElement(listing, "Float64", facts | variable.attributes)
    structure = Xml.SubElement(root, "ModelStructure")
    # outputs before unknowns of the start, as the schema of the standard wants
    for kind, key, value in (
        ("Output", "causality", "output"),
        ("InitialUnknown", "initial", "calculated"),
    ):
        for place in shown:
            if table[place].attributes.get(key) == value:
                Xml.SubElement(structure, kind, valueReference=str(place))
    return Xml.tostring(root, encoding="UTF-8", xml_declaration=True)


def _build(name: str) -> bytes:
    root = Xml.Element("fmiBuildDescription", fmiVersion="3.0")
    building = Xml.SubElement(root, "BuildConfiguration", modelIdentifier=name)
    sources = Xml.SubElement(building, "SourceFileSet", language="C99")
    for file in ("model.c", "fmi3.c"):
        Xml.SubElement(sources, "SourceFile", name=file)
    return Xml.tostring(root, encoding="UTF-8", xml_declaration=True)
