"""Systems: who generates, who trains and when weights move, as discrete-event models under their own names."""

from typing import TYPE_CHECKING, Any

from asyncsim.base import plugins

plugins.expose(__name__)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
