"""Right and wrong advantages as options of two exact recursions in float64, and the small test batches."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks

Array = np.ndarray
Options = Mapping[str, Any]
ROWS, STEPS, GROUPS, SIZE = 4, 6, 4, 3
_UNIT = 100.0
"""Rewards and values are of this size, so that no epsilon of a trainer is seen."""


@dataclass(frozen=True, eq=False)
class Case:
    """One test batch for advantages, `[B, T]` each, except for `group` and `keep`, `[B]`.

    `behind`: value of the state behind a step, of the final observation where an episode ends; `ended`: whether the
    episode is terminated with the step, `cut`: whether a time limit cuts it off; `prior` `[B]`: whether one ended in
    front of the first step.
    """

    name: str
    rewards: Array
    values: Array
    behind: Array
    ended: Array
    cut: Array
    prior: Array
    mask: Array
    log_ratio: Array
    group: Array
    keep: Array

    def part(self, rows: slice) -> "Case":
        """The same test batch, restricted to some rows."""
        return replace(self, **{key: x[rows] for key, x in vars(self).items() if key != "name"})


def _case(name: str, seed: int, shape: tuple[int, int], ends: str = "", cuts: str = "", **arrays: Array) -> Case:
    """Random rewards, values and log ratios; `ends` and `cuts` name rows and steps, as in "02 13"."""
    rng = np.random.default_rng([seed, *map(ord, name)])
    rewards, values, own, log_ratio = rng.normal(0.0, (_UNIT, _UNIT, _UNIT, 0.6), (*shape, 4)).transpose(2, 0, 1)
    flags = np.zeros((2, *shape), bool)
    for places, flag in zip((ends, cuts), flags, strict=True):
        for place in places.split():
            flag[int(place[0]), int(place[1])] = True
    behind = np.where(flags.any(0), own, np.roll(values, -1, 1))
    behind[:, -1] = own[:, -1]
    whole = np.ones(shape, bool)
    prior = np.arange(shape[0]) == 0
    known = {"mask": whole, "group": np.zeros(shape[0], int), "keep": whole[:, 0], **arrays}
    known |= {"ended": flags[0], "cut": flags[1], "rewards": np.where(known["mask"], rewards, 0.0)}
    return Case(name=name, values=values, behind=behind, prior=prior, log_ratio=log_ratio, **known)


@cache
def trace_cases(seed: int, *, masked: bool, ends: bool, cuts: bool) -> tuple[Case, ...]:
    """Test batches of episodes, the most informative first."""
    shape = ROWS, STEPS
    inside = _case("episodes end inside", seed, shape, "02 10 13 24")
    last = _case("episodes end at the last step", seed, shape, "05 12 15")
    none = _case("no episode ends", seed, shape)
    found = [inside, last, _case("short episodes", seed, shape, "01 02 03 25"), none] if ends else [none]
    if cuts:
        found.insert(0, _case("a time limit cuts episodes off", seed, shape, "23 02", "01 15 32"))
    if masked:
        # Rows end with their last token, whether or not a flag says so.
        found = found if ends else [_case("full rows", seed, shape, "05 15 25 35")]
        mask = np.arange(STEPS) < np.array([6, 4, 2, 5])[:, None]
        found.insert(0, _case("padding", seed, shape, "05 13 21 34", mask=mask))
    return tuple(found)


@cache
def group_cases(seed: int, *, ids: bool, kept: bool, steps: int, unequal: bool) -> tuple[Case, ...]:
    """Test batches of grouped samples; without ids, the samples of a group are consecutive."""
    n = np.arange(GROUPS * SIZE)
    orders = {"groups in blocks": n // SIZE}
    if ids:
        orders = {"groups interleaved": n % GROUPS, "groups shuffled": n * 5 % 12 // SIZE, **orders}
        if unequal:
            orders["groups of 2 to 4 samples"] = np.array([2, 0, 1, 1, 3, 2, 1, 0, 3, 3, 1, 2])
    mask = np.arange(steps) < 1 + (n * 7 % steps)[:, None]
    keep = n % 5 != 1 if kept else n >= 0
    shape = len(n), steps
    return tuple(_case(name, seed, shape, group=group, mask=mask, keep=keep) for name, group in orders.items())


def equal(case: Case) -> Case:
    """A copy of the batch in which the samples of one group have equal rewards."""
    alike = (case.group == case.group[0])[:, None] & (np.arange(case.rewards.shape[1]) == 0)
    rewards = np.where(case.group[:, None] == case.group[0], np.where(alike, _UNIT, 0.0), case.rewards)
    return replace(case, name="a group of equal rewards", rewards=rewards)


# `boot` and `carry`: exponents of gamma and lambda in front of the next value and the next advantage; `stop` and `cut`:
# which ends close them, `late` by how many slots, with `first` in front of the first step and `edge` at the last one.
TRACE: dict[str, Any] = {"form": "advantage", "gamma": 1.0, "lam": 1.0, "boot": (1, 0), "carry": (1, 1)}
TRACE |= {"stop": "terminated", "cut": "either", "told": True, "late": (0, 0), "first": "open", "edge": "shifted"}
TRACE |= {"valued": True, "behind": "next", "last": "own", "rewards": 0, "minus": 1.0, "sign": 1.0, "pad": "skipped"}
TRACE |= {"rho": ("one", 1.0), "c": ("one", 1.0), "pg": ("one", 1.0), "c_late": 0, "target": "target", "invert": 1.0}
GROUP: dict[str, Any] = {"center": "group", "scale": None, "ddof": 1, "power": 1}
GROUP |= {"order": "ids", "of": "all", "more": False}
_LAST = {"whiten": None, "over": "mask", "sign": 1.0}


def traced(case: Case, options: Options) -> Array:
    """Backward sum x_t = rho_t (r_t + gamma V_(t+1) - V_t) + gamma lambda c_t x_(t+1) in an episode, `[B, T]`."""
    o = {**TRACE, **_LAST, **options}
    out = np.zeros(case.rewards.shape)
    for i, mask in enumerate(case.mask):
        steps = np.arange(len(mask)) if o["pad"] == "counted" else np.flatnonzero(mask)
        out[i, steps] = _row(case, i, steps, o)
    return finished(case, out, o)


def _row(case: Case, i: int, at: Array, o: Options) -> Array:
    """Trace of one row at the steps `at`."""
    size = len(at)
    ended, cut = case.ended[i, at], case.cut[i, at]
    if o["pad"] == "counted" and not o["told"]:
        ended = np.zeros_like(ended)
    r, v = np.roll(case.rewards[i, at], o["rewards"]), case.values[i, at] * o["valued"]
    if o["rewards"]:
        r[0 if o["rewards"] > 0 else -1] = 0.0
    last = case.behind[i, at[-1]] if o["last"] == "own" else 0.0
    behind = {"next": np.append(v[1:], last), "same": v, "same, but last": np.append(v[:-1], last)}.get(o["behind"])
    behind = case.behind[i, at] if behind is None else behind
    if o["pad"] == "behind":
        behind, stop = np.append(case.values[i], 0.0)[at + 1], "terminated" if o["told"] else "never"
    else:
        stop = o["stop"]
    flags = []
    for which, late in zip((stop, o["cut"]), o["late"], strict=True):
        true = {"terminated": ended, "either": ended | cut, "never": np.zeros(size, bool)}[which]
        first = {"open": False, "prior": case.prior[i] and which != "never", "wrapped": true[-1]}[o["first"]]
        flag = np.append(first, true[:-1]) if late > 0 else np.append(true[1:], true[-1:]) if late < 0 else true.copy()
        flag[-1] = {"own": true[-1], "open": False, "closed": True}.get(o["edge"], flag[-1])
        flags.append(1.0 - flag)
    going, on = flags
    weight = np.exp(o["invert"] * case.log_ratio[i, at])
    ratios = (o[key] for key in ("rho", "c", "pg"))
    rho, c, pg = (np.minimum(weight, bound) if kind == "ratio" else np.ones(size) for kind, bound in ratios)
    c = np.roll(c, -o["c_late"])
    boot, carry = (o["gamma"] ** a * o["lam"] ** b for a, b in (o["boot"], o["carry"]))
    delta = rho * (r + boot * going * behind - o["minus"] * v)
    x, following = np.zeros(size), 0.0
    for t in reversed(range(size)):
        x[t] = following = delta[t] + carry * on[t] * c[t] * following
    if o["form"] == "advantage":
        return x
    targets = x + v
    if o["form"] == "targets":
        return targets
    later = np.where((on > 0) & (np.arange(size) < size - 1), np.append(targets[1:], 0.0), behind)
    return pg * (r + boot * going * (later if o["target"] == "target" else behind) - v)


def grouped(case: Case, options: Options) -> Array:
    """Group-relative advantage (reward - center) / scale^power of each sample, on its tokens, `[B, T]`."""
    o = {**GROUP, **_LAST, **options}
    reward, n = case.rewards.sum(1), np.arange(len(case.rewards))
    orders = {"ids": case.group, "blocks": n // SIZE, "columns": n % SIZE, "mod": n % GROUPS, "long": n // GROUPS}
    groups = orders[o["order"]]
    counted = case.keep if o["of"] == "kept" else np.ones_like(case.keep)
    out = np.zeros(len(reward))
    for i in n:
        own, every = reward[(groups == groups[i]) & counted], reward[counted]
        others = reward[(groups == groups[i]) & counted & (n != i)]
        kind = o["center"]
        pool = {"group": own, "batch": every, "others": others}[kind]
        center = pool.sum() / (len(pool) + (o["more"] and kind == "others")) if len(pool) else 0.0
        out[i] = reward[i] - center
        if o["scale"]:
            scale = {"group": own, "batch": every}[o["scale"]]
            out[i] /= scale.std(ddof=o["ddof"]) ** o["power"] if len(scale) > o["ddof"] else math.nan
    return finished(case, np.where(case.mask, out[:, None], 0.0), o)


def finished(case: Case, out: Array, o: Options) -> Array:
    """Advantages times the option's sign, standardized over all tokens if requested."""
    out = o["sign"] * out
    if o["whiten"]:
        pool = out[case.mask] if o["over"] == "mask" else np.where(case.mask, out, 0.0)
        out = (out - pool.mean()) / pool.std(ddof=o["whiten"] == "sample")
    return out


class Mistake(NamedTuple):
    """A known mistake in advantages: its name, its remedy, and the option changes of its variants."""

    name: str
    remedy: str
    changes: tuple[Options, ...]


_TRUNCATE = "the error has min(rho_bar, ratio), the trace min(c_bar, ratio)"
_WHITE = Mistake("padding counted", "standardize over generated tokens", ({"over": "all"},))
_TABLES = checks.table(__file__, "advantages.toml")


def _frozen(entries: Options) -> Options:
    return {key: tuple(x) if isinstance(x, list) else x for key, x in entries.items()}


MISTAKES = {
    when: tuple(Mistake(name, remedy, tuple(map(_frozen, ways))) for name, (remedy, *ways) in some.items())
    for when, some in _TABLES["mistakes"].items()
}
"""By what makes them possible, see `entries`."""


def _ratios(o: Options) -> tuple[Mistake, ...]:
    """Mistakes with the ratios of V-trace, depending on its bounds."""
    rho, c, pg = o["rho"], o["c"], o["pg"]
    free, one, keys = ("ratio", math.inf), ("one", 1.0), ("rho", "c", "pg")
    some = [subset for n in (1, 2, 3) for subset in itertools.combinations(keys, n)]
    swapped = ({"rho": c, "c": rho, "pg": c if pg == rho else pg}, {"rho": c, "c": rho})
    following = "the advantage is rho (r + gamma v(t+1) - V(t)) with the target v of the next step"
    return (
        Mistake("rho and c swapped", _TRUNCATE, swapped),
        Mistake("product of c one step late", "carry x(t+1) with c(t)", ({"c_late": 1},)),
        Mistake("product of c one step early", "carry x(t+1) with c(t)", ({"c_late": -1},)),
        Mistake("log ratio reversed", "use exp(log_pi - log_mu)", ({"invert": -1.0},)),
        Mistake("ratio not truncated", _TRUNCATE, tuple(dict.fromkeys(subset, free) for subset in some)),
        Mistake("bound of the trace is rho's", _TRUNCATE, ({"c": rho},)),
        Mistake("error without its ratio", _TRUNCATE, ({"rho": one}, {"rho": one, "pg": one})),
        Mistake("trace without its ratio", _TRUNCATE, ({"c": one},)),
        Mistake("advantage without its ratio", following, ({"pg": one},)),
        Mistake("value in place of the target", following, ({"target": "value"},)),
    )


@lru_cache(maxsize=20_000)
def _value(case: Case, options: frozenset[tuple[str, Any]]) -> Array:
    o = dict(options)
    with np.errstate(all="ignore"):
        return grouped(case, o) if "center" in o else traced(case, o)


class Entry(NamedTuple):
    """One advantage of the catalogue: its name, its options, and its known mistakes."""

    name: str
    options: Options
    mistakes: tuple[Mistake, ...] = ()

    @property
    def label(self) -> str:
        """Name of the advantage with its mistakes."""
        return ", ".join([self.name, *(mistake.name for mistake in self.mistakes)])

    def value(self, case: Case) -> Array:
        """The entry's advantage on a test batch, `[B, T]`."""
        return _value(case, frozenset(self.options.items()))


RIGHT: dict[str, dict[str, tuple[str, Options]]] = {
    family: {name: (words, _frozen(options)) for name, (words, options) in some.items()}
    for family, some in _TABLES["right"].items()
}
"""By family and name: what an advantage is, and the options that make it."""
_SCALED = {
    "group_std": ("group_mean", "group"),
    "group_mean_batch_std": ("group_mean", "batch"),
    "batch_std": ("batch_mean", "batch"),
}
for _name, (_of, _scale) in _SCALED.items():
    for _ending, _ddof in (("", 1), ("_population", 0)):
        _words = f"{RIGHT['group'][_of][0]}, divided by the deviation of the {_scale} (N{' - 1' * _ddof})"
        _scaled = {**RIGHT["group"][_of][1], "scale": _scale, "ddof": _ddof}
        RIGHT["group"][_name + _ending] = _words, _scaled
for _family in RIGHT.values():
    for _name, (_words, _options) in tuple(_family.items()):
        if "scale" not in _options and _name != "batch_mean":
            for _ending, _kind, _n in (("", "sample", "N - 1"), ("_population", "population", "N")):
                _white = f"{_words}; standardized over the batch ({_n})", {**_options, "whiten": _kind}
                _family[f"{_name}_whitened{_ending}"] = _white
WORDS = {name: words for family in RIGHT.values() for name, (words, _) in family.items()}
"""Every advantage by name, in words."""
NAMES = tuple(dict.fromkeys(m.name for m in itertools.chain(*MISTAKES.values(), _ratios(TRACE))))
"""Mistakes by name."""


def entries(family: str, base: Options, roles: frozenset[str], many: int) -> Iterator[Entry]:
    """Catalogue entries of a family with `many` mistakes that the function's arguments allow; no duplicates."""
    own, told, masked = base.get("behind") == "own", base.get("told", False), "mask" in roles
    trace = family != "group"
    possible = {
        "group": not trace, "trace": trace, "ends": told, "open": told and own, "next": told and not own,
        "cuts": "truncated" in roles, "final": own, "last": not own and base.get("last") == "own",
        "values": trace and "values" in roles, "lambda": family == "gae" or (trace and "lam" in roles),
        "padding": trace and masked,
    }  # fmt: skip
    known = [mistake for when, some in MISTAKES.items() if possible[when] for mistake in some]
    known += _ratios(base) if family == "v_trace" else ()
    for name, (_, form) in RIGHT[family].items():
        white = [_WHITE] * (masked and "whiten" in form)
        for chosen in itertools.combinations(known + white, many if many < 2 or "whiten" not in form else 0):
            for changes in itertools.product(*(m.changes if many < 2 else m.changes[:1] for m in chosen)):
                if sum(map(len, changes)) == len({key for change in changes for key in change}):
                    merged = {key: value for change in changes for key, value in change.items()}
                    yield Entry(name, {**base, **form, **merged}, chosen)
