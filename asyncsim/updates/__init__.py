"""Update links: transformations of the gradient or the step, composed by `chain`."""

from asyncsim import plugins

plugins.expose(__name__)
