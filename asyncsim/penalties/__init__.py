"""Penalties: terms of the objective that know no advantage."""

from asyncsim.base import plugins

plugins.expose(__name__)
