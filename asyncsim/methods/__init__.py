"""Methods: an advantage, a weight on the score and an aggregator, as one value."""

from typing import TYPE_CHECKING, Any

from asyncsim.base import plugins

plugins.expose(__name__, beside={"from_loss": "_from_loss"})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
