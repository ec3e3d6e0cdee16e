"""Systems: who generates, who trains and when weights move, as discrete-event models under their own names."""

from asyncsim.base import plugins

plugins.expose(__name__)
