"""Policies: maps from parameters and a batch to named outputs, with their pullbacks."""

from asyncsim import plugins

plugins.expose(__name__)
