"""Tasks: what is asked, which outcomes exist and what they earn."""

from asyncsim import plugins

plugins.expose(__name__)
