"""Rewards: rewards that arrive late, and what happens to their samples."""

from asyncsim.base import plugins

plugins.expose(__name__)
