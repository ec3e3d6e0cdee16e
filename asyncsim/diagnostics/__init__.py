"""Diagnostics: one number per replicate and recorded update."""

from asyncsim import plugins

plugins.expose(__name__)
