"""Update links: transformations of the gradient or the step, composed by `chain`."""

from typing import TYPE_CHECKING, Any

from asyncsim.base import plugins

plugins.expose(__name__)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
