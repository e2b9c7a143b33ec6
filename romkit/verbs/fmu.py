"""An exported model as an FMU: FMI 3.0 for co-simulation, with a library for this platform and the
sources.
"""

import hashlib
import io
import platform
import tempfile
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as Xml

from romkit.core import files
from romkit.core.errors import InputError
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
    """Name of the standard for this machine and system."""
    machine = platform.machine()
    return f"{MACHINES.get(machine, machine)}-{platform.system().lower()}"


class Variable(NamedTuple):
    """A number of an FMU; its reference is its place in the list."""

    name: str
    unit: str
    attributes: dict[str, str]


def variables(
    context: Sequence[tuple[str, str, float]],
    control: Sequence[str],
    latent: Sequence[float],
    state: Sequence[tuple[str, str]],
    time: str,
) -> list[Variable]:
    """The variables in the order of `fmi3.c`: (name, unit, start), names, start, (name, unit), and
    the unit of time.
    """
    given = {"causality": "input", "variability": "continuous"}
    starting = {"causality": "output", "variability": "continuous", "initial": "exact"}
    decoded = starting | {"initial": "calculated"}
    return [
        Variable("time", time, {"causality": "independent", "variability": "continuous"}),
        *(Variable(name, unit, given | {"start": repr(start)}) for name, unit, start in context),
        *(Variable(name, "1", given | {"start": "0.0"}) for name in control),
        *(
            Variable(f"latent[{k}]", "1", starting | {"start": repr(start)})
            for k, start in enumerate(latent)
        ),
        *(Variable(name, unit, decoded) for name, unit in state),
    ]


def write(
    path: Path,
    made: Source,
    every: Sequence[Variable],
    outputs: set[str],
    dt: float,
    about: str,
    platforms: Sequence[str] | None = None,
) -> None:
    """Write an FMU.

    Args:
        path: its name is that of the model.
        made: the model, called `model` in C.
        every: variables.
        outputs: names of components of the state that are outputs.
        dt: longest step.
        about: a line that says what the model is.
        platforms: names in `PLATFORMS` for which it is compiled; this machine by default.

    Raises:
        InputError: names that XML or an FMU cannot hold.
        Unavailable: no compiler, or it fails.
    """
    _check_names(every)
    shown = [
        k
        for k, x in enumerate(every)
        if x.attributes.get("initial") != "calculated" or x.name in outputs
    ]
    starts = [x.attributes["start"] for x in every if "start" in x.attributes]
    facts = [made.code, *starts, *sorted(outputs), repr(dt)]
    token = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    sources = _sources(made, token, starts, dt)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        description = _description(path.stem, token, every, shown, dt, about)
        archive.writestr("modelDescription.xml", description)
        archive.writestr("sources/buildDescription.xml", _build(path.stem))
        for place, library in _libraries(path.stem, sources, platforms).items():
            archive.writestr(place, library)
        for name, text in sources.items():
            archive.writestr(f"sources/{name}", text)
    with files.atomic(path) as temporary:
        temporary.write_bytes(content.getbuffer())


def _check_names(every: Sequence[Variable]) -> None:
    """Raise InputError for names and units that XML or an FMU cannot hold."""
    number_of = Counter(variable.name for variable in every)
    for variable in every:
        for text in (variable.name, variable.unit):
            if not text.isprintable():  # control characters, line feeds, lone surrogates
                raise InputError(
                    "projection",
                    expected="names and units of printable characters for an FMU",
                    got=repr(text),
                    fix="rename it in the data, and fit again",
                )
        if number_of[variable.name] > 1:
            raise InputError(
                "projection",
                expected="a name of its own for each variable of an FMU: time, context, inputs, "
                "latent[k] and state",
                got=f"{number_of[variable.name]} named {variable.name!r}",
                fix="rename the component or parameter in the data, and fit again",
            )


def _sources(made: Source, token: str, starts: Sequence[str], dt: float) -> dict[str, str]:
    """Text of each file in C."""
    constants = (
        f"#define STEP {dt!r}\n"
        f'#define TOKEN "{token}"\n'
        f"static const double START[] = {{{', '.join(starts)}}};\n"
    )
    return {
        "model.c": made.code,
        "model.h": made.header,
        "fmi3.c": f'#include "model.h"\n\n{constants}\n{source_text("fmi3.c")}',
    }


def _libraries(
    name: str, sources: dict[str, str], platforms: Sequence[str] | None
) -> dict[str, bytes]:
    """The sources, compiled for each platform, by their places in the FMU."""
    here = this_platform()
    libraries = {}
    for chosen in (here,) if platforms is None else platforms:
        # the compiler of this machine is tried first, by which most FMUs are made
        target = None if chosen == here else PLATFORMS[chosen]
        system = chosen.rpartition("-")[2]
        libraries[f"binaries/{chosen}/{name}.{SUFFIXES[system]}"] = _library(sources, target)
    return libraries


def _library(sources: dict[str, str], target: str | None) -> bytes:
    """The sources, compiled for a target of the cross-compiler, or for this machine."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in sources.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        return compile_c(Path(folder), ["model.c", "fmi3.c"], target).read_bytes()


def _description(
    name: str, token: str, every: Sequence[Variable], shown: Sequence[int], dt: float, about: str
) -> bytes:
    named = {"modelName": name, "instantiationToken": token, "description": about}
    made = {"generationTool": f"romkit {VERSION}", "variableNamingConvention": "flat"}
    root = Xml.Element("fmiModelDescription", {"fmiVersion": "3.0"} | named | made)
    able = {"modelIdentifier": name, "canHandleVariableCommunicationStepSize": "true"}
    Xml.SubElement(root, "CoSimulation", able)
    units = Xml.SubElement(root, "UnitDefinitions")
    for unit in sorted({every[k].unit for k in shown}):
        Xml.SubElement(units, "Unit", name=unit)
    Xml.SubElement(root, "DefaultExperiment", startTime="0.0", stepSize=repr(dt))
    listed, structure = (
        Xml.SubElement(root, "ModelVariables"),
        Xml.SubElement(root, "ModelStructure"),
    )
    for k in shown:
        reference = {"name": every[k].name, "valueReference": str(k)}
        Xml.SubElement(listed, "Float64", reference | {"unit": every[k].unit} | every[k].attributes)
    for kind, key, value in (
        ("Output", "causality", "output"),
        ("InitialUnknown", "initial", "calculated"),
    ):
        for k in shown:
            if every[k].attributes.get(key) == value:
                Xml.SubElement(structure, kind, valueReference=str(k))
    return Xml.tostring(root, encoding="UTF-8", xml_declaration=True)


def _build(name: str) -> bytes:
    root = Xml.Element("fmiBuildDescription", fmiVersion="3.0")
    building = Xml.SubElement(root, "BuildConfiguration", modelIdentifier=name)
    sources = Xml.SubElement(building, "SourceFileSet", language="C99")
    for file in ("model.c", "fmi3.c"):
        Xml.SubElement(sources, "SourceFile", name=file)
    return Xml.tostring(root, encoding="UTF-8", xml_declaration=True)
