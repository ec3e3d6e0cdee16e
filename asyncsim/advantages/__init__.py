"""Advantages: estimators of the advantage, such as baselines, group normalization and GAE."""

from asyncsim.base import plugins

plugins.expose(__name__, beside={"from_function": "_advantage"}, tools={"advantage": "_advantage"})
