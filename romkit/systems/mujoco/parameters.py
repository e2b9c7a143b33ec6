"""Context parameters of a MuJoCo model: the numbers of a model file that each of them sets."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np

from romkit.core.boundary import Finite, validated
from romkit.core.errors import InputError
from romkit.systems.mujoco.engine import mujoco

SYNTAX = re.compile(r"(?:(\w+)/([^/\s]+)|(option))\.(\w+)(?:\[(\d+)\])?")
"""kind/name.attribute or option.attribute, with [index] behind it or without."""

LISTS = {"body": "bodies", "mesh": "meshes", "equality": "equalities"}
"""Lists of elements in an `MjSpec` whose names are not those of the kind with an s."""


@dataclass(frozen=True)
class Target:
    """One number of a model.

    Attributes:
        text: as the user wrote it.
        kind: of the element: body, geom, joint, actuator, default, option.
        name: of the element; class and kind of a default ("fingers.joint"), empty for the option.
        attribute: of the element.
        index: of the number in the attribute.
    """

    text: str
    kind: str
    name: str
    attribute: str
    index: int

    @classmethod
    def parsed(cls, text: str) -> "Target":
        """Raise InputError: another syntax, or the timestep, which `step` sets."""
        match = SYNTAX.fullmatch(text)
        if match is None:
            expected = "kind/name.attribute or kind/name.attribute[index]"
            fix = "write 'geom/upper.size[0]', 'option.gravity[2]' or 'default/main.joint.damping'"
            raise _refused(text, expected, fix)
        kind, name, option, attribute, index = match.groups(default="")
        target = cls(text, kind or option, name, attribute, int(index or 0))
        if target.kind == "option" and attribute == "timestep":
            raise _refused(text, "a quantity of the model", "give step=... to the system")
        return target

    @property
    def is_command(self) -> bool:
        """Whether it is the control of an actuator, which is an input and no part of the model."""
        return self.kind == "actuator" and self.attribute == "ctrl"

    def set(self, spec: "mujoco.MjSpec", value: float) -> None:
        """Set the number in a model.

        Raises:
            InputError: the element or the number is not there.
        """
        try:
            for element in self._elements(spec):
                self._set(element, value)
        except IndexError as error:
            raise _refused(self.text, str(error), "lower it") from error
        except (AttributeError, TypeError, ValueError) as error:
            expected = "an element and a number or numbers of it"
            raise _refused(self.text, expected, "compare with the names in the file") from error

    def address(self, model: "mujoco.MjModel") -> int:
        """Place of a command among the controls of a compiled model."""
        try:
            actuator = model.actuator(self.name).id
        except KeyError as error:
            names = [model.actuator(k).name for k in range(model.nactuator)]
            expected = f"one of the actuators {', '.join(names) or '(there are none)'}"
            raise _refused(self.text, expected, "compare with the names in the file") from error
        count = model.actuator_ctrlnum[actuator]
        if self.index >= count:
            raise _refused(self.text, f"an index below {count}", "lower it")
        return int(model.actuator_ctrladr[actuator]) + self.index

    def _elements(self, spec: "mujoco.MjSpec") -> Iterator[object]:
        if self.kind == "option":
            yield spec.option
        elif self.kind == "default":
            yield from self._class_elements(spec)
        else:
            yield getattr(spec, self.kind)(self.name)

    def _class_elements(self, spec: "mujoco.MjSpec") -> list[object]:
        """Return a default class, and elements that take the number from it, or from a class within
        it.

        MuJoCo copies defaults into the elements where it reads a file, so a default that is set
        later reaches none of them. Elements with another number have one of their own.
        """
        name, _, kind = self.name.rpartition(".")
        default = spec.find_default(name)
        if default is None:
            raise ValueError(f"no class {name}")
        template = getattr(default, kind)
        inherited = self._number(template)
        classes = _nested_classes(spec, name)
        elements = [template]
        for element in getattr(spec, LISTS.get(kind, f"{kind}s")):
            is_within = element.classname.name in classes
            if is_within and self._number(element) == inherited:
                elements.append(element)
        return elements

    def _number(self, element: object) -> float:
        return float(np.ravel(getattr(element, self.attribute))[self.index])

    def _set(self, element: object, value: float) -> None:
        entries = np.array(getattr(element, self.attribute), dtype=float)
        if self.index >= entries.size:
            raise IndexError(f"an index below {entries.size}")
        entries.flat[self.index] = value
        setattr(element, self.attribute, entries if entries.ndim else value)


def _refused(text: str, expected: str, fix: str) -> InputError:
    return InputError("sets", expected=expected, got=repr(text), fix=fix)


def _nested_classes(spec: "mujoco.MjSpec", name: str) -> set[str]:
    """Return names of a default class and of all classes within it."""
    spec = spec.copy()
    spec.compile()  # what is not compiled cannot be written
    classes = ElementTree.fromstring(spec.to_xml()).iter("default")
    outer = next((each for each in classes if each.get("class", "main") == name), None)
    if outer is None:  # a class without entries is not written
        return {name}
    return {inner.get("class", "main") for inner in outer.iter("default")}


@validated
@dataclass(frozen=True)
class ModelParameter:
    """A context parameter of a MuJoCo model.

    Args:
        low: smallest value in training.
        high: largest.
        sets: for each target the factor that the value is multiplied by,
            `{"geom/upper.fromto[5]": -1, "body/lower.pos[2]": -1}`. A target is
            `kind/name.attribute[index]`; an array without an index means its first entry.
            `option.gravity[2]` is one of the model's options, `default/fingers.joint.damping` that
            of all joints of a default class which have no other of their own, and
            `actuator/motor.ctrl` the command of an actuator. Or a function of the `mujoco.MjSpec`
            and the value, for what is not proportional.
        units: of the parameter.
        long_name: what it is, for figures.

    Example:
        >>> from romkit.systems import ModelParameter
        >>> length = ModelParameter(0.3, 0.5, {"geom/upper.fromto[5]": -1, "body/lower.pos[2]": -1}, units="m")
        >>> length.low, length.high, sorted(length.sets)
        (0.3, 0.5, ['body/lower.pos[2]', 'geom/upper.fromto[5]'])
    """

    low: Finite
    high: Finite
    sets: Mapping[str, float] | Callable[[object, float], None]
    units: str = "1"
    long_name: str = ""

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InputError(
                "high", expected=f"{self.low:g} or more, as low", got=self.high, fix="exchange them"
            )

    @validated
    def apply(self, spec: "mujoco.MjSpec", value: float) -> None:
        """Set the value in a model; commands are no part of it."""
        if callable(self.sets):
            self.sets(spec, value)
            return
        for target, factor in self._targets():
            if not target.is_command:
                target.set(spec, factor * value)

    def commands(self, model: "mujoco.MjModel", value: float) -> dict[int, float]:
        """Return controls that it sets, by their place among those of a compiled model."""
        return {
            target.address(model): factor * value
            for target, factor in self._targets()
            if target.is_command
        }

    def _targets(self) -> list[tuple[Target, float]]:
        if callable(self.sets):
            return []
        return [(Target.parsed(text), factor) for text, factor in self.sets.items()]
