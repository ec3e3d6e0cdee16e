"""Calls that end in a refusal."""

import pytest

from asyncsim.base.checks import InputError


def refused(words, call, /, *arguments, **settings):
    """The `InputError` of a call, in whose text a pattern (if any) is found."""
    with pytest.raises(InputError, match=words or None) as caught:
        call(*arguments, **settings)
    return caught.value
