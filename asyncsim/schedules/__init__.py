"""Schedules: which version generated each training token: imposed, or taken from a system or a log."""

from asyncsim.base import plugins

plugins.expose(__name__)
