"""Methods: loss functions, each with an advantage, a weight on the score and an aggregator."""

from asyncsim.base import plugins

plugins.expose(__name__, beside={"from_loss": "_from_loss", "added": "_method"}, tools={"estimator": "_estimator"})
