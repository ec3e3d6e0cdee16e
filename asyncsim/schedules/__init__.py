"""Schedules: under which version every training token is generated, imposed by a law or taken from a system."""

from typing import TYPE_CHECKING, Any

from asyncsim.base import plugins

plugins.expose(__name__)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
