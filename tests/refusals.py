"""Calls that romkit answers by one line."""

import re

import pytest

from romkit.core.errors import InputError, RomkitError


def refused(words, call, *given, error: type[RomkitError] = InputError, **named):
    """Check that a call is refused by an error whose message, which is one line, holds or matches
    the words.
    """
    with pytest.raises(error) as caught:
        call(*given, **named)
    assert words in str(caught.value) or re.search(words, str(caught.value)), str(caught.value)
