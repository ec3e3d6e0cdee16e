"""What every setting of a part, a preset and a claim may be, as its refusal says it.

`bounds.json` holds them; `python -m tests.core.bounds` writes it anew where a bound has been changed on purpose.
"""

import inspect
import json
import math
from pathlib import Path

from asyncsim import claims
from asyncsim.base import plugins
from asyncsim.base.checks import InputError
from tests.contracts.laboratory import make, names
from tests.systems.preset_table import REQUIRED, own_knobs
from tests.systems.test_presets import built

KINDS = ("methods", "advantages", "factors", "penalties", "updates", "tasks")
PLUGINS = [(kind, name) for kind in KINDS for name in names(kind)]
FILE = Path(__file__).with_name("bounds.json")


def settings(kind, name):
    """The arguments of a part."""
    return inspect.signature(plugins.load(f"asyncsim.{kind}", name, kind)).parameters.values()


def said(call, setting):
    """The bound in the refusal of a number far below any, of no number, or of a word that is none."""
    for bad in (-(10**18), math.nan, "no such word"):
        try:
            call(**{setting: bad})
        except InputError as error:
            return f"{error.field}: {error.bound}"
    return "anything"


def bounds():
    """By part, preset and claim: by setting what is said."""
    found = {}
    for kind, name in PLUGINS:
        own = {each.name: said(lambda name=name, kind=kind, **bad: make(kind, name, **bad), each.name)
               for each in settings(kind, name)}  # fmt: skip
        found[f"{kind}.{name}"] = own
    for name, required in REQUIRED.items():
        given = dict(zip((each.name for each in own_knobs(name)), required, strict=False))
        own = {each.name: said(lambda name=name, given=given, **bad: built(name, **{**given, **bad}), each.name)
               for each in own_knobs(name)}  # fmt: skip
        found[f"systems.{name}"] = own
    return found | {id: {n: p.domain for n, p in claims.claim(id).point.parameters.items()} for id in claims.claims()}


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(own)}" for name, own in sorted(bounds().items())]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
