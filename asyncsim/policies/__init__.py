"""Policies: maps from parameters and a batch to named outputs, with their pullbacks."""

from asyncsim.base import plugins

plugins.expose(__name__, beside={"module": "_module", "engines": "_engine"})
