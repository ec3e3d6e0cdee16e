"""Penalties: terms of the loss without an advantage, such as KL and entropy."""

from asyncsim.base import plugins

plugins.expose(__name__)
