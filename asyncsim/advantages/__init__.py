"""Advantages: what a sample's reward is compared with."""

from asyncsim import plugins

plugins.expose(__name__)
