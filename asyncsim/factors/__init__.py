"""Factors: masks and weights that multiply a method's loss, by token or by sample."""

from asyncsim.base import plugins

plugins.expose(__name__)
