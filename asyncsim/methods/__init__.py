"""Methods: an advantage, a weight on the score and an aggregator, as one value."""

from asyncsim import plugins

plugins.expose(__name__)
