"""A method with parts behind its own, which a spec's file can hold: a copy with changes forgets how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asyncsim.base import checks
from asyncsim.methods._method import Method


def added(method: Method, penalties: Sequence[Any] = (), factors: Sequence[Any] = ()) -> Method:
    """The method with penalties (`sim.penalties`) and factors (`sim.factors`) behind its own.

    Arguments: what to add, in order. Returns a method. Raises `InputError` for what is no method, penalty or factor.
    Source: this package.

    >>> import asyncsim as sim
    >>> sim.methods.added(sim.methods.grpo(), penalties=[sim.penalties.k3(0.01)]).penalties
    (K3(coefficient=0.01, to='reference', ratio='none'),)
    """
    checks.require(isinstance(method, Method), "method", method, "a method", "write sim.methods.NAME(...)")
    for field, parts in (("penalties", penalties), ("factors", factors)):
        listed = isinstance(parts, (list, tuple))
        checks.require(listed, field, parts, "a list", f"write {field}=[sim.{field}.NAME(...)]")
    return method.replace(penalties=(*method.penalties, *penalties), factors=(*method.factors, *factors))
