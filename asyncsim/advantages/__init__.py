"""Advantages: what a sample's reward is compared with."""

from asyncsim.base import plugins

plugins.expose(__name__)
