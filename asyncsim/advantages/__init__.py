"""Advantages: baselines that are subtracted from the rewards."""

from asyncsim.base import plugins

plugins.expose(__name__)
