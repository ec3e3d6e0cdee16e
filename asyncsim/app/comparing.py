"""What `asyncsim compare` does: from words to specs, then the answer printed, drawn and written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

from asyncsim.app import commands, streams, wording
from asyncsim.base import checks

if TYPE_CHECKING:
    from asyncsim.running.spec import Spec

PASSED = (
    *("smallest", "metric", "over", "statistic", "error", "tune", "target", "better", "interval", "max_replicates"),
    *("seed", "store", "workers"),
)
"""Options that `sim.compare` has under the same names."""
UNDECIDED = 3
"""Exit status of a comparison that ended undecided."""


def compare(o: SimpleNamespace) -> int:
    """Compare arms given as words, print the answer and write what is asked for; the exit status."""
    specs = specs_of(o.arms, o.set)
    shared = [word for word in o.set if not _of_task(word)]
    tasks = [wording.of_words([*shared, *_task(o.set, other)], "--also").task for other in o.also]
    from asyncsim import comparing

    with streams.announced():
        answer = comparing.compare(specs, tasks=tasks, **{name: vars(o)[name] for name in PASSED})
    outputs = streams.Files()
    outputs.write("--json", o.json, lambda path: commands.write_json(path, answer.row()))
    drawn = outputs.write("--plot", o.plot, lambda path: commands.draw(answer, path))
    print(answer)
    if drawn:
        print(f"plot: {o.plot}")
    undecided = any(on.word_of(pair) == "undecided" for on in answer.tasks for pair in on.pairs)
    return outputs.status(UNDECIDED if undecided else 0)


def specs_of(arms: Sequence[str], common: Sequence[str]) -> dict[str, Spec]:
    """A spec for each arm by its name: the words of all arms, then its own."""
    specs: dict[str, Spec] = {}
    for text in arms:
        name, words = _words(text)
        name = name or " ".join(words)
        own = {word.partition("=")[0] for word in words}
        inherited = [word for word in common if word.partition("=")[0] not in own]
        checks.require(name not in specs, "arm", name, "named once", "put NAME: in front of an arm")
        specs[name] = wording.of_words([*inherited, *words], f"arm {name}")
    if any(_words(text)[0] for text in arms):
        return specs
    from asyncsim.comparing.arms import short_names

    return dict(zip(short_names(list(specs.values())) or specs, specs.values(), strict=True))


def _words(text: str) -> tuple[str, list[str]]:
    """Name ("" where there is none) and words of an arm."""
    named = re.match(r"\s*([\w .+-]+):\s+(.*)$", text)
    return (named[1].strip() if named else ""), _split("arm", named[2] if named else text)


def _split(field: str, text: str) -> list[str]:
    """Words of a text as a shell splits them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        remedy = "close the quotation, or put a backslash before a quotation mark that is meant"
        raise checks.InputError(field, text, f"words as in a shell ({error})", remedy) from None


def _of_task(word: str) -> bool:
    return word.partition("=")[0].partition(".")[0] == "task"


def _task(common: Sequence[str], other: str) -> list[str]:
    """Words of another task: those of all arms unless it names another kind, then its own."""
    own = _split("--also", other)
    keys = {word.partition("=")[0] for word in own}
    inherited = [] if "task" in keys else [word for word in common if _of_task(word)]
    return [*(word for word in inherited if word.partition("=")[0] not in keys), *own]
