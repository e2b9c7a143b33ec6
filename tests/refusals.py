"""Calls that romkit answers by one line."""

import re

import pytest

from romkit.core.errors import InputError, RomkitError

NAME = re.compile(r"[\w.\[\]']+")


def refused(fact, call, *given, error: type[RomkitError] = InputError, **named):
    """Check that a call is refused in one line, by an error that names the argument; the fact may
    be a pattern of the message, which an error of a file needs.
    """
    with pytest.raises(error) as caught:
        call(*given, **named)
    refusal = caught.value
    if isinstance(refusal, RomkitError):
        assert "\n" not in str(refusal)
    if isinstance(refusal, InputError) and NAME.fullmatch(fact):
        assert refusal.argument == fact, str(refusal)
    else:
        assert fact in str(refusal) or re.search(fact, str(refusal)), str(refusal)
