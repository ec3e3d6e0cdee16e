"""Rewards: when they are there, and what becomes of samples whose reward is late."""

from asyncsim.base import plugins

plugins.expose(__name__)
