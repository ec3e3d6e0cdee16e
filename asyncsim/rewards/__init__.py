"""Rewards: when they are there, and what becomes of samples whose reward is late."""

from typing import TYPE_CHECKING, Any

from asyncsim.base import plugins

plugins.expose(__name__)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
