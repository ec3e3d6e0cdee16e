"""Rewards: their time of arrival, and the treatment of samples with late rewards."""

from asyncsim.base import plugins

plugins.expose(__name__)
