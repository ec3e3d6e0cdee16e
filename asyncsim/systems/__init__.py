"""Systems: event models of real trainers: who generates, who trains, when weights are published."""

from asyncsim.base import plugins

plugins.expose(__name__)
