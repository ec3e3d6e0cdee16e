"""Does a low effective sample size announce collapse? How well scores tell who will collapse."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import vcpo_collapse
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

MEANS = {"chain": "1 if 24 of 32 bits are correct, less a KL penalty", "tokens": "32 of 4 kinds, no penalty"}
EXPERIMENTS = {"vcpo_collapse": {"names": {"chain": "chain"}, "means": MEANS}}
SCORES: dict[str, dict[str, Any]] = {
    "return": {"color": look.COLOR["muted"], "marker": "D"},
    "ess": {"color": look.COLOR["measured"], "marker": "o"},
    "norm": {"color": look.COLOR["contrast"], "marker": "s"},
    "ess_drop": {"color": look.COLOR["measured"], "marker": "v", **look.HOLLOW},
}
TITLES = {"chain": "Chain of bits", "tokens": "Sequences of tokens"}
NAMES = {"return": "low return", "ess": "low ESS", "norm": "large gradient", "ess_drop": "drop of ESS"}
SURE, GUESS = 0.7, 0.65
"""Areas above and below which a score predicts, and hardly predicts, who collapses."""
TIME = "updates relative to the collapse"
WARNING = 10
"""Updates before a collapse at which alarms are counted."""
AHEAD = tuple(range(WARNING, 101, 30))
"""Updates before a collapse by which an alarm has to sound."""


def areas_of(rows: Any, regime: str) -> Any:
    """How well scores tell runs that collapse from healthy ones; none where there are too few."""
    return _script.pick(rows, regime=regime, quantity="auc", group="healthy").dropna(subset="value")


def draw_areas(ax: Axes, rows: Any, regime: str) -> None:
    """How well each score tells who is about to collapse."""
    own = areas_of(rows, regime)
    ax.axhline(0.5, **_style.REFERENCE)
    for place, (name, style) in enumerate(SCORES.items()):
        one = _script.pick(own, statistic=name).sort_values("lead")
        # Side by side: as many percent of the axis as can be told apart.
        aside = 0.008 * (place - 1.5) * own.lead.max()
        look.points(ax, aside - one.lead, one, **look.CONNECTED, **{"markersize": 3.5, **style})
    ax.set(ylim=(0.3, 1.05), xlabel=TIME, title=TITLES[regime])
    look.say(ax, 0.0, 0.42, "chance", look.COLOR["muted"], ha="right")
    first = {name: _script.pick(own, statistic=name).sort_values("lead").value for name in SCORES}
    look.ends(ax, {NAMES[n]: (v.iloc[0], SCORES[n]["color"]) for n, v in first.items() if len(v)}, 0.1)


def told(rows: Any, regime: str, statistic: str) -> tuple[bool, bool]:
    """Whether a score predicts who collapses, and whether it hardly does, ten updates and more ahead."""
    own = _script.pick(areas_of(rows, regime), statistic=statistic)
    own = own[own.lead >= WARNING]
    return bool(len(own) and (own.low > SURE).all()), bool(len(own) and (own.value < GUESS).all())


def draw(rows: Any) -> Figure:
    """Who is about to collapse, a panel for each task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        axes = figure.subplots(1, 2)
        for ax, regime in zip(axes, vcpo_collapse.REGIMES, strict=True):
            draw_areas(ax, rows, regime)
        axes[0].set_ylabel("AUC: probability that a collapsing\nrun scores higher than a healthy one")
        low = {
            name: _script.pick(areas_of(rows, "tokens"), statistic=name).set_index("lead") for name in ("return", "ess")
        }
        better = len(low["ess"]) and (low["return"].low > low["ess"].high).all()
        holds = told(rows, "chain", "ess")[0] and better
        _script.headline(figure, holds, "Scores of runs before collapse")
    return figure


def value(rows: Any, **place: Any) -> Any:
    """The one row at a place, or None."""
    found = _script.pick(rows, **place)
    return None if found.empty else found.iloc[0]


def quoted(row: Any) -> str:
    """An area with its interval."""
    return "no value" if row is None else look.spread(row)


def percent(row: Any) -> str:
    """A share in percent."""
    return "no" if row is None else f"{100 * row.value:.0f} %"


def numbers(rows: Any) -> dict[str, str]:
    """What the entry quotes."""
    stale = [str(value) for value in _script.settings(rows, "staleness")]
    found = {"staleness": _script.listed(stale) or "unknown", "rate": f"{100 * vcpo_collapse.RATE:.0f}"}
    for regime in vcpo_collapse.REGIMES:
        own = _script.pick(rows, regime=regime)
        row = value(own, quantity="share", statistic="collapsed")
        found |= {f"{regime}_collapsed": percent(row), f"{regime}_replicates": f"{row.samples:.0f}"}
        found[f"{regime}_rate"] = f"{vcpo_collapse.REGIMES[regime]['step']:g}"
        alarm = value(own, quantity="announced", statistic="ess", lead=WARNING, group="collapsing")
        found[f"{regime}_ess_announced"] = percent(alarm)
    return found | areas(rows)


def areas(rows: Any) -> dict[str, str]:
    """Areas at the leads that the entry names."""
    found = {}
    chain, tokens = areas_of(rows, "chain"), areas_of(rows, "tokens")
    far, soon = chain.lead.max(), sorted(set(tokens.lead))[tokens.lead.nunique() // 2]
    for place, own, lead in (("chain_far", chain, far), ("chain_near", chain, soon), ("tokens_near", tokens, soon)):
        regime, _, when = place.partition("_")
        found[place] = f"{lead:.0f}"
        for key, name in (("return", "return"), ("ess", "ess"), ("drop", "ess_drop"), ("norm", "norm")):
            found[f"{regime}_{key}_{when}"] = quoted(value(own, statistic=name, lead=lead))
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether low ESS catches most collapses; whether other scores rank runs well, by task and updates ahead."""
    caught: list[Setting] = []
    ranked: dict[str, list[Setting]] = {"ess_drop": [], "norm": []}
    for regime in vcpo_collapse.REGIMES:
        place = regime
        alarms = _script.pick(rows, regime=regime, quantity="announced", statistic="ess", group="collapsing")
        for row in alarms[alarms.lead.isin(AHEAD)].sort_values("lead").itertuples():
            caught.append(Setting((place, f"{row.lead:.0f}"), decided(row.low > 0.5, row.high < 0.5)))
        for name, known in ranked.items():
            own = _script.pick(areas_of(rows, regime), statistic=name)
            for row in own[own.lead > 0].sort_values("lead").itertuples():
                known.append(Setting((place, f"{row.lead:.0f}"), decided(row.low > SURE, row.high < SURE)))
    return {"caught": caught, **ranked}
