"""Diagnostics: metrics, one number per replicate and recorded update."""

from asyncsim.base import plugins

plugins.expose(__name__, tools=dict.fromkeys(("ANY", "POSITIVE", "SHARE", "metric"), "_diagnostic"))
