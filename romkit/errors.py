"""The errors romkit raises. Each message is one line: which argument, what was expected, what came, what to do."""

import functools
import sys
import traceback
import warnings


class RomkitError(Exception):
    """Base class: catch this to catch everything romkit raises on purpose."""


class InputError(RomkitError, ValueError):
    """An argument that cannot be used.

    Args:
        argument: name of the argument as the user typed it.
        expected: what would have been right.
        got: what came.
        fix: what to do about it.
    """

    def __init__(self, argument: str, *, expected: str, got: object, fix: str):
        super().__init__(one_line(f"{argument}: expected {expected}, got {got}; {fix}"))
        self.argument, self.expected, self.got, self.fix = argument, expected, str(got), fix

    def __reduce__(self) -> tuple:  # so that it survives the way out of a process
        words = {"expected": self.expected, "got": self.got, "fix": self.fix}
        return functools.partial(type(self), self.argument, **words), ()


class FileError(RomkitError, OSError):
    """A file that is missing, truncated, altered or not romkit's."""

    def __init__(self, path: object, *, problem: str, fix: str):
        super().__init__(one_line(f"{path}: {problem}; {fix}"))
        self.path, self.problem, self.fix = path, problem, fix

    def __reduce__(self) -> tuple:
        return functools.partial(type(self), self.path, problem=self.problem, fix=self.fix), ()


class DivergenceWarning(UserWarning):
    """Some members of a training stack or a rollout diverged; the others are unaffected."""


class ExtrapolationWarning(UserWarning):
    """A context or a state that is beyond what a model was trained on."""


class FitWarning(UserWarning):
    """A law that explains too little of what it was fitted to."""


class DataWarning(UserWarning):
    """What was assumed about data that do not say it."""


def warn(message: str, category: type[Warning]) -> None:
    """A warning that points to the line of the user's that called romkit, however deep it comes from."""
    frames = [frame for frame, _ in traceback.walk_stack(sys._getframe(1))]
    own = [k for k, frame in enumerate(frames) if frame.f_globals.get("__name__", "").partition(".")[0] == "romkit"]
    warnings.warn(message, category, stacklevel=max(own, default=0) + 3)


def one_line(text: str) -> str:
    """The text on one line, without what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
