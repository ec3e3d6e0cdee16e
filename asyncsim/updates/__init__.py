"""Update links: parts of an optimizer step, such as clip-norm and adam, composed by `chain`."""

from asyncsim.base import plugins

plugins.expose(__name__, tools=dict.fromkeys(("Record", "State", "Stateless", "link"), "_link"))
