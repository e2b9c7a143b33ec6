"""The errors romkit raises. Each message is one line: which argument, what was expected, what came, what to do."""


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
        super().__init__(f"{argument}: expected {expected}, got {got}; {fix}")


class FileError(RomkitError, OSError):
    """A file that is missing, truncated, altered or not romkit's."""

    def __init__(self, path: object, *, problem: str, fix: str):
        super().__init__(f"{path}: {problem}; {fix}")


class DivergenceWarning(UserWarning):
    """Some members of a training stack or a rollout diverged; the others are unaffected."""


class ExtrapolationWarning(UserWarning):
    """A context or a state that is beyond what a model was trained on."""


class FitWarning(UserWarning):
    """A law that explains too little of what it was fitted to."""


class DataWarning(UserWarning):
    """What was assumed about data that do not say it."""
