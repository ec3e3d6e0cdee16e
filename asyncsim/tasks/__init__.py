"""Tasks: what is asked, which outcomes exist and what they earn."""

from asyncsim.base import plugins

plugins.expose(__name__)
