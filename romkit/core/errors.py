"""The errors romkit raises. Each message is one line: which argument, what was expected, what came,
what to do.
"""

import functools
import sys
import traceback
import warnings
from typing import Any


class RomkitError(Exception):
    """Base class: catch this to catch everything romkit raises on purpose.

    Example:
        >>> import romkit
        >>> try:
        ...     romkit.load("missing.safetensors")
        ... except romkit.errors.RomkitError as error:
        ...     print(type(error).__name__)
        FileError
    """

    def __reduce__(self) -> str | tuple[Any, ...]:
        # so that it survives the way out of a process: attributes are the arguments
        arguments = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        if not arguments:
            return super().__reduce__()
        maker = functools.partial(type(self), **arguments)
        return maker, ()


class InputError(RomkitError, ValueError):
    """An argument that cannot be used.

    Args:
        argument: name of the argument as the user typed it.
        expected: what would have been right.
        got: what came.
        fix: what to do about it.

    Example:
        >>> import romkit
        >>> system = romkit.systems.Lorenz96(transient=0.0)
        >>> system.dataset(G=3.15)
        Traceback (most recent call last):
            ...
        romkit.core.errors.InputError: G: expected a context parameter, got an unknown name; the context is F
        >>> try:
        ...     system.dataset(F=3.15, duration=-1.0)
        ... except romkit.errors.InputError as error:
        ...     print(error.argument, "|", error.expected, "|", error.got)
        duration | a positive number | -1.0
    """

    def __init__(self, argument: str, *, expected: str, got: object, fix: str):
        super().__init__(one_line(f"{argument}: expected {expected}, got {got}; {fix}"))
        self.argument = argument
        self.expected = expected
        self.got = str(got)
        self.fix = fix


class FileError(RomkitError, OSError):
    """A file that is missing, truncated, altered or not romkit's.

    Example:
        >>> import romkit
        >>> romkit.load("ncae-lorenz69")
        Traceback (most recent call last):
            ...
        romkit.core.errors.FileError: ncae-lorenz69: neither a file nor a pretrained projection; did you mean
        'ncae-lorenz96'? romkit ships ...
    """

    def __init__(self, path: object, *, problem: str, fix: str):
        super().__init__(one_line(f"{path}: {problem}; {fix}"))
        self.path = path
        self.problem = problem
        self.fix = fix


class DivergenceWarning(UserWarning):
    """Some members of a training stack or a rollout diverged; the others are unaffected.

    Example:
        >>> import warnings
        >>> import romkit
        >>> from romkit.errors import DivergenceWarning
        >>> system = romkit.systems.Lorenz96(n=4)
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     run = romkit.simulate(system, F=1e8, duration=0.1, initial_state=[1.0, 2.0, 3.0, 4.0])
        >>> caught[0].category is DivergenceWarning
        True
    """


class ExtrapolationWarning(UserWarning):
    """A context or a state that is beyond what a model was trained on.

    Example:
        >>> import warnings
        >>> import romkit
        >>> from romkit.errors import ExtrapolationWarning
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=4.0, duration=0.1)
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     run = romkit.follow(romkit.load("ncae-lorenz96"), data)
        >>> caught[0].category is ExtrapolationWarning
        True
    """


class FitWarning(UserWarning):
    """A law that explains too little of what it was fitted to.

    Example:
        >>> import warnings
        >>> import torch
        >>> from romkit.errors import FitWarning
        >>> from romkit.laws import SINDy
        >>> z = torch.linspace(-1, 1, 50, dtype=torch.float64).reshape(50, 1)
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     law = SINDy(degree=1).fit_samples(z, torch.sin(20 * z))
        >>> caught[0].category is FitWarning
        True
    """


class DataWarning(UserWarning):
    """Warning that metadata are missing and a default was assumed.

    Example:
        >>> import warnings
        >>> import romkit
        >>> from romkit.errors import DataWarning
        >>> warnings.simplefilter("ignore", DataWarning)  # velocities may be estimated in silence
        >>> data = romkit.systems.Lorenz96(transient=0.0).dataset(F=3.15, duration=0.5).drop_vars("velocity")
        >>> "velocity" in romkit.data.velocity.needing_velocity(data)
        True
    """


def warn(message: str, category: type[Warning]) -> None:
    """Make a warning that points to the line of the user's that called romkit, however deep it comes
    from.

    Example:
        >>> import warnings
        >>> from romkit.errors import DataWarning, warn
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warn("units are not in the data; taken as SI", DataWarning)
        >>> str(caught[0].message)
        'units are not in the data; taken as SI'
    """
    deepest = 0
    for k, (frame, _) in enumerate(traceback.walk_stack(sys._getframe(1))):
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package == "romkit":
            deepest = k
    warnings.warn(message, category, stacklevel=deepest + 3)


def one_line(text: str) -> str:
    """Return the text on one line, without what a terminal would obey.

    Example:
        >>> from romkit.errors import one_line
        >>> one_line(f"  spaces   and a bell{chr(7)}")
        'spaces and a bell?'
    """
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in line)
