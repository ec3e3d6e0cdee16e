"""Factors: what multiplies score weights before they are aggregated (masks, weights of samples)."""

from asyncsim.base import plugins

plugins.expose(__name__)
