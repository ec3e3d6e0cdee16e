"""Policies: parameterized distributions of actions or tokens, with their gradients."""

from asyncsim.base import plugins

plugins.expose(__name__, beside={"module": "_module", "engines": "_engine"})
