"""Names of files with wildcards, and with parameters in braces: "runs/b_{b}.nc"."""

import glob
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from romkit.core.errors import FileError

PARAMETER = re.compile(r"\{([^\W\d]\w*)\}")
"""A parameter in braces, with a name as Python's."""

NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
"""A number in the name of a file: 2, 2.5, 1e-3 or -4."""

WILD = re.compile(r"\*+|\?|\[[^\]]+\]")
"""Characters that stand for any text, one character, or one of some, in a pattern."""


class Matches(NamedTuple):
    """Files, and the parameters that their names hold."""

    paths: list[Path]

    parameters: dict[str, list[float]]
    """Values for each file, by name."""


def is_pattern(name: str) -> bool:
    """Tell whether a name has wildcards, or parameters in braces."""
    return glob.has_magic(name) or PARAMETER.search(name) is not None


def matched(names: Sequence[str | Path]) -> Matches:
    """Return the files of several names, which may be patterns.

    Raises:
        FileError: a pattern that matches nothing, or whose parameters cannot be read, or patterns
            with different parameters.
    """
    paths: list[Path] = []
    parameters: dict[str, list[float]] | None = None
    for name in names:
        files, values = _matching_files(name)
        if parameters is None:
            parameters = {parameter: [] for parameter in values}
        if parameters.keys() != values.keys():
            raise FileError(
                name,
                problem="has other parameters in braces than the names before",
                fix="give the same to all, or a coordinate in each file",
            )
        paths += files
        for parameter, numbers in values.items():
            parameters[parameter] += numbers
    return Matches(paths, parameters or {})


def _matching_files(name: str | Path) -> tuple[list[Path], dict[str, list[float]]]:
    """Return files of one name, and the values of its parameters."""
    from romkit.core.files import expanded  # with torch, which help is spared

    path = expanded(name)
    # a file may be called run[1].nc
    if path.exists() or not is_pattern(str(path)):
        return [path], {}
    parameters = PARAMETER.findall(str(path))
    _check_parameters(name, str(path), parameters)
    matches = sorted(glob.glob(PARAMETER.sub("*", str(path))))
    if not matches:
        raise FileError(name, problem="matches no file", fix="check the path or pattern")
    if not parameters:
        return [Path(match) for match in matches], {}
    pattern = _expression(str(path))
    rows = [(_find_numbers(match, pattern, name), match) for match in matches]
    rows.sort()  # 2 before 10
    columns = zip(*(numbers for numbers, _ in rows), strict=True)
    values = {
        parameter: list(column) for parameter, column in zip(parameters, columns, strict=True)
    }
    return [Path(match) for _, match in rows], values


def _check_parameters(name: str | Path, path: str, parameters: Sequence[str]) -> None:
    """Raise where a parameter occurs twice, or nobody can tell where its number ends."""
    if len(set(parameters)) < len(parameters):
        raise FileError(
            name, problem="names a parameter twice", fix="put * in place of all but one"
        )
    plain = WILD.sub("\0", PARAMETER.sub("\0", path))
    if parameters and "\0\0" in plain:
        raise FileError(
            name,
            problem="has wildcards or parameters side by side",
            fix="put what stands between them in the names: a{a}_b{b}.nc",
        )


def _expression(path: str) -> re.Pattern[str]:
    """Return a pattern of names as a regular expression, with a group for each parameter."""
    expression = ""
    place = 0
    for match in re.finditer(f"{PARAMETER.pattern}|{WILD.pattern}", path):
        expression += re.escape(path[place : match.start()])
        expression += _piece(match[0])
        place = match.end()
    return re.compile(expression + re.escape(path[place:]))


def _piece(text: str) -> str:
    """Return text that a parameter or a wildcard matches, as a regular expression."""
    if text.startswith("{"):
        return f"({NUMBER})"
    if text.startswith("["):
        return text.replace("[!", "[^", 1)
    return "[^/]" if text == "?" else "[^/]*"


def _find_numbers(path: str, pattern: re.Pattern[str], name: str | Path) -> tuple[float, ...]:
    """Return values of the parameters in the name of a file.

    Raises:
        FileError: it holds no numbers there.
    """
    match = pattern.fullmatch(path)
    if match is None:
        raise FileError(
            path,
            problem=f"does not match {str(name)!r} with numbers in the braces",
            fix="move it elsewhere, or give the names of the others",
        )
    return tuple(float(number) for number in match.groups())
