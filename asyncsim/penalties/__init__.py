"""Penalties: terms of the objective that know no advantage."""

from typing import TYPE_CHECKING, Any

from asyncsim.base import plugins

plugins.expose(__name__)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
