"""Tasks: what a policy is trained on: prompts, possible outcomes and their rewards."""

from asyncsim.base import plugins

plugins.expose(__name__)
