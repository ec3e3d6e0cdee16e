"""Policies: maps from parameters and a batch to named outputs, with their pullbacks."""

from typing import TYPE_CHECKING, Any

from asyncsim.base import plugins

plugins.expose(__name__, beside={"module": "_module", "engines": "_engines"})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
