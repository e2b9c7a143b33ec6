"""Calls that romkit answers by one line."""

import re

import pytest

from romkit.core.errors import InputError, RomkitError


def refused(message, call, *given, error: type[RomkitError] = InputError, **named):
    """Refused by an error whose line holds the message, or matches it; messages of romkit's errors are one line."""
    with pytest.raises(error) as caught:
        call(*given, **named)
    assert message in str(caught.value) or re.search(message, str(caught.value)), str(caught.value)
