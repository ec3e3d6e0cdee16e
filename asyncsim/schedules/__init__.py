"""Schedules: under which version every training token is generated, imposed by a law or taken from a system."""

from asyncsim.base import plugins

plugins.expose(__name__)
