"""Methods: an advantage, a weight on the score and an aggregator, as one value."""

from asyncsim.base import plugins

plugins.expose(__name__, beside={"from_loss": "_from_loss", "added": "_method"})
