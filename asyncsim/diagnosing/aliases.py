"""Names under which trainers log telemetry: column, our quantity, its scope, and the source file.

Sources are repository@commit:path. `UNVERIFIED` marks names that were not found in a source that could be opened.
A quantity that is truncated, clamped or otherwise changed before it is averaged has a name of its own here, since no
prediction for the plain one holds for it. The names themselves stand in `names.txt`.
"""

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable
from functools import cache
from typing import NamedTuple

from asyncsim.base import checks

UNVERIFIED, CALIBRATE = "not verified", "read by `asyncsim calibrate`"
GUESSED = "a whole that is not known, so only its range is checked"
"""Scope of a column that is a share by its name alone."""
MILLISECONDS = re.compile(r"(?i)(^|[^a-z])(ms|msecs?|milli(s|seconds?))([^a-z]|$)")
SHARE = re.compile(
    r"(frac(tion)?|share|(idle|busy|partial|overlap|success|(clip|mask|dropp?|reject|abort|accept|discard|truncat|wast)\w*)"
    r"_(ratio|rate))(/(mean|avg))?$"
)
"""Names of parts of a whole: a ratio alone may be one of probabilities."""
STALE = re.compile(r"(?i)^(?!.*(count|processed|total|max|min|std|ratio|p\d\d|limit|threshold|proximal)).*"
                   r"(staleness|off.?policy|([^a-z]|^)lag([^a-z]|$))")  # fmt: skip
"""Names of what may be a mean staleness."""
FURTHEST, OLDEST = 64, 256
"""Largest lag of a cosine, and largest staleness of a mean, that have a name."""
COSINES = ("gradient_cosine", "cosine", "rl/grad_cosine_lag")
WANTED = ("staleness_mean", "staleness_min", "staleness_max", "ess", "kl_k3", "chi_square", "ratio_mean")
"""Quantities of a step that most questions need."""
MOVES = ("policy_kl", "policy_ratio_max", "grad_norm")
"""Quantities that say how far updates move the policy."""
APART = ("kl_k1", "kl_k3", "log_ratio_abs", "geometric_abs")
"""Quantities that say how far the trainer's log-probs are from the sampler's."""
WATCHED = (*MOVES, "length_mean")
"""Quantities without a prediction, whose cells may be no numbers: that is a finding."""
BUCKETS = ("kl_k3/staleness_", "kl_k3_staleness_", "rl/k3/staleness_", "rl/k3/lag_")


class Alias(NamedTuple):
    """A column name (a final `*` matches any ending): its quantity, scope of averaging and unit, and source."""

    column: str
    quantity: str
    scope: str
    source: str


def _table(lines: str) -> list[Alias]:
    """Parse lines `column quantity scope`, indented below the line of their source."""
    rows, source = list[Alias](), ""
    for line in (each for each in lines.splitlines() if not each.startswith("#")):
        if line.startswith(" "):
            column, quantity, scope = line.split(maxsplit=2)
            rows.append(Alias(column, quantity, scope, source))
        else:
            source = line.removesuffix(":")
    return rows


STEPS, TOKENS, SYSTEM = map(_table, checks.resource(__file__, "names.txt").split("\n\n"))
"""Columns of tables with a row a step, of tables with a row a token, or a list of tokens a row, and of a step's seconds
and lengths, which `calibrate` reads and no claim of `diagnose` predicts."""


@cache
def steps(system: bool = False) -> dict[str, tuple[str, str]]:
    """Map columns of a table with one row per step to (quantity, scope), including numbered lags and stalenesses.

    `system`: seconds and lengths too.

    >>> steps()["train/ess_ratio"], steps()["gradient_cosine_3"]
    (('ess', 'tokens within sequences'), ('cosine_3', 'updates'))
    """
    found = {f"{stem}_{k}": (f"cosine_{k}", "updates") for stem in COSINES for k in range(1, FURTHEST + 1)}
    for stem in BUCKETS:
        found |= {f"{stem}{s}": (f"k3_at_{s}", "tokens, nats") for s in range(OLDEST + 1)}
    return _named([*STEPS, *(each for each in SYSTEM if system or each.quantity in WATCHED)], found)


@cache
def tokens() -> dict[str, tuple[str, str]]:
    """Map columns of a table with one row per token to (quantity, scope)."""
    return _named(TOKENS, {})


def _named(table: list[Alias], found: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Add names with a leading `train/`; a verified name takes precedence over an unverified one."""
    for alias in sorted(table, key=lambda each: each.source != UNVERIFIED):
        if alias.quantity != "-":
            found[alias.column] = f"share {alias.column}" if alias.quantity == "share" else alias.quantity, alias.scope
    return {f"train/{name}": meaning for name, meaning in found.items()} | found


def reason(column: str) -> str | None:
    """Return why a known column is not compared with a prediction; None for a column that is not known.

    >>> reason("timing_s/gen"), reason("train/kl_penalty"), reason("seconds_sync"), reason("loss")
    ('seconds of a part of the step', 'against the reference policy', 'read by `asyncsim calibrate`', None)
    """
    known = [*(each for each in STEPS if each.quantity == "-"), *(a._replace(scope=CALIBRATE) for a in SYSTEM)]
    return next((a.scope for name in (plain(column), *in_seconds(column)) for a in known if _is(a, name)), None)


def near(column: str) -> list[str]:
    """Known column names with a similar spelling, in full or after the last slash.

    >>> near("idle_ratio"), near("kl_k33"), near("loss/mean")
    (['trainer/idle_ratio', 'rollouter/idle_ratio'], ['kl_k3'], [])
    """
    known = list(dict.fromkeys(each.column for each in [*STEPS, *TOKENS, *SYSTEM] if not each.column.endswith("*")))
    found = difflib.get_close_matches(plain(column), known, n=2, cutoff=0.8)
    ends = [name.rpartition("/")[2] for name in known]
    own, last = {*ends} - {"mean", "avg", "max", "min"}, column.rpartition("/")[2]
    close = difflib.get_close_matches(last, own, n=2, cutoff=0.8)
    found += (name for name, end in zip(known, ends, strict=True) if end in close)
    alike = [f"{last}_mean", last.removesuffix("_mean"), *found]
    alike = [name for name in alike if "loss" in name or "loss" not in column]  # a policy loss is no policy KL
    return list(dict.fromkeys(name for name in alike if name in known and name != column))[:2]


def plain(column: str) -> str:
    """Strip `train/` and ROLL's reduction suffix, such as `@sum`, from a column name."""
    return column.removeprefix("train/").partition("@")[0]


def in_seconds(column: str) -> list[str]:
    """Names that a column of milliseconds would have in seconds: timing_ms/step is timing_s/step or timing/step."""
    return [MILLISECONDS.sub(unit, plain(column)) for unit in ("\\1s\\4", "\\4")] if MILLISECONDS.search(column) else []


def beside(columns: Iterable[str], have: Collection[str]) -> tuple[str, list[str]]:
    """The trainer that most columns belong to, and its column names for the quantities that are missing."""
    names = {plain(column) for column in columns} - {each.column for each in STEPS if each.source == "asyncsim"}
    of = Counter(a.source.split("@")[0] for a in (*STEPS, *SYSTEM) if "@" in a.source and any(_is(a, n) for n in names))
    trainer = max(of, key=lambda name: of[name], default="")
    lacking = dict[str, str]()
    for alias in STEPS:
        if alias.source.startswith(f"{trainer}@") and alias.quantity in WANTED and alias.quantity not in have:
            lacking.setdefault(alias.quantity, alias.column)
    return trainer, list(lacking.values())


def ours(columns: Collection[str], have: Collection[str]) -> list[str]:
    """Suggest OURS=THEIRS for missing quantities, from columns that end in asyncsim's names or say staleness."""
    stale = next(filter(STALE.search, columns), "")
    ends = {"staleness_mean": stale} if stale else {}
    ends |= {name.rpartition("/")[2]: name for name in columns if "/" in name}
    return [f"{n}={ends[n]}" for n in WANTED if n in ends and n not in have and f"{n[:9]}_mean" not in have]


def _is(alias: Alias, name: str) -> bool:
    stem = alias.column.removesuffix("*")
    return name == stem or (stem != alias.column and name.startswith(stem))
