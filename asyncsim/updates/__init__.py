"""Update links: transformations of the gradient or the step, composed by `chain`."""

from asyncsim.base import plugins

plugins.expose(__name__)
