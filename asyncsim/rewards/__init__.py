"""Rewards: when they arrive, and what happens to samples whose reward is late."""

from asyncsim.base import plugins

plugins.expose(__name__)
