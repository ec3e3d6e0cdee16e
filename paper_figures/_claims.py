"""Claims of papers, and of the package, with what came out here: one list for the table, the claim map and JSON.

A number is text with `{figure:key}` for what a figure's `numbers()` gives. A verdict says what was tested, no more.
Sentences of papers that exact results decide (`asyncsim list papers`) stand behind those that figures decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from asyncsim import theory
from asyncsim.base import checks
from paper_figures._gallery import PLACEHOLDER

VERDICTS = ("reproduced", "under conditions", "not reproduced", "not tested")
OF_STATUS = {
    "exact": "reproduced",
    "asymptotic": "reproduced",
    "conditional": "under conditions",
    "open": "not tested",
    "false as stated": "not reproduced",
}
"""What a status of `theory.papers()` is here."""


@dataclass(frozen=True)
class Claim:
    """One claim: who says it, what came out, the number that decides, and the figure that shows it.

    `when`: the conditions, or what was not tested; `rebuilt`: our reconstruction of the method is judged. `stated`: the
    sentence in `theory.papers()`, whose exact results are set against it too. Without a figure they alone decide.
    """

    source: str
    text: str
    verdict: str
    number: str
    figure: str
    when: str = ""
    rebuilt: bool = False
    stated: str = ""

    @property
    def claims(self) -> tuple[str, ...]:
        """Ids of the exact results."""
        return theory.papers()[self.stated].claims if self.stated else ()

    def __post_init__(self) -> None:
        checks.one_of("verdict", self.verdict, VERDICTS, "choose one")
        conditional = self.verdict in ("under conditions", "not tested")
        checks.require(bool(self.when) or not conditional, "when", self.when, f"given where {self.verdict}", "say it")


def _vcpo(*words: str, **more: Any) -> Claim:
    return Claim("VCPO", *words, **more)


def _gac(*words: str, **more: Any) -> Claim:
    return Claim("GAC", *words, **{"rebuilt": True, **more})


def _m2po(*words: str, **more: Any) -> Claim:
    return Claim("M2PO", *words, **more)


CLAIMS = (
    _vcpo(
        "Few samples dominate a stale batch",
        "reproduced",
        "one of {vcpo_ess:batch} samples holds {vcpo_ess:share_most} % of the weight",
        "vcpo_ess",
    ),
    _vcpo("… because ratios are heavy-tailed", "not reproduced", "every ratio is bounded: no heavy tail", "vcpo_ess"),
    _vcpo(
        "Truncated IS collapses at high staleness",
        "under conditions",
        "{vcpo_training:truncated_late_collapsed} of runs collapse",
        "vcpo_training",
        when="graded rewards and a bold learning rate",
    ),
    _vcpo(
        "VCPO stays stable at staleness 128",
        "under conditions",
        "return {vcpo_training:vcpo_late}, best 1, after {vcpo_training:long} updates",
        "vcpo_training",
        when="stable, and slow",
    ),
    _vcpo(
        "Its step rule must read the batch",
        "not reproduced",
        "return {vcpo_timing:late_learning} over a constant rate",
        "vcpo_timing",
    ),
    _vcpo(
        "Prior stabilizers fail where VCPO does not",
        "under conditions",
        "{vcpo_controls:high_vcpo_tuned} against {vcpo_controls:high_tis_tuned}, later equal",
        "vcpo_controls",
        when="truncated IS in short runs; its baseline suffices; masks not raced",
    ),
    _vcpo(
        "Its baseline has the least variance",
        "under conditions",
        "{vcpo_baselines:many_opob_variance} % of a batch mean's variance",
        "vcpo_baselines",
        when="truncated ratios or much data; in small batches part of it is bias",
        stated="2602.17616/baseline",
    ),
    _vcpo(
        "Low ESS reliably predicts collapse",
        "under conditions",
        "AUC at best {vcpo_collapse:chain_ess_far}",
        "vcpo_collapse",
        when="better than chance, not reliable",
        stated="2602.17616/ess-predicts-collapse",
    ),
    _vcpo("… by sharp drops", "not reproduced", "AUC {vcpo_collapse:chain_drop_far}", "vcpo_collapse"),
    _vcpo(
        "2.5 times faster than synchronous at staleness 2",
        "under conditions",
        "{vcpo_hours:vcpo_paper_speed} times",
        "vcpo_hours",
        when="long-tailed responses; most of it is the system's gain",
    ),
    _gac(
        "Stale gradients align, fresh ones hardly",
        "under conditions",
        "cosine {gac_alignment:near_gaussian_8} at {gac_alignment:near} of the limit",
        "gac_alignment",
        when="constant staleness, plain descent, settled, near the stability limit",
        rebuilt=False,
    ),
    _gac(
        "Alignment is the signature of staleness",
        "not reproduced",
        "synchronous cosines reach {gac_causes:far_batch_256_0}",
        "gac_causes",
        rebuilt=False,
        stated="2603.01501/alignment",
    ),
    _gac(
        "It warns of instability",
        "under conditions",
        "cosine {gac_boundary:high_8} at {gac_boundary:high} of the limit",
        "gac_boundary",
        when="constant or periodic staleness",
        rebuilt=False,
        stated="2603.01501/early-warning",
    ),
    _gac(
        "Control keeps training stable",
        "under conditions",
        "largest stable step {gac_projection:edge_raw}, else {gac_projection:edge_none}",
        "gac_projection",
        when="stability limit of plain descent, far from the optimum",
        stated="2603.01501/projection",
    ),
    _gac(
        "It matches synchronous training",
        "not reproduced",
        "{gac_control:stiff_behind} times the regret",
        "gac_control",
    ),
    _gac(
        "It converges under bounded staleness",
        "not tested",
        "no bound known for GAC itself",
        "gac_bound",
        when="the bound is ours and speaks of plain descent",
        rebuilt=False,
    ),
    _m2po(
        "It masks 0.06 % of tokens, the clip 1.22 %",
        "under conditions",
        "at most {m2po_masked:worst} where the clip masks {m2po_masked:clipped}",
        "m2po_masked",
        when="small learning rates",
    ),
    _m2po(
        "… and those of high variance",
        "under conditions",
        "entropy {m2po_entropy:forks_m2po} times the mean",
        "m2po_entropy",
        when="some tokens certain; so does the clip",
    ),
    _m2po(
        "It matches fresh training at 256 updates",
        "under conditions",
        "at the end on {m2po_returns:matched} of {m2po_returns:tasks} tasks",
        "m2po_returns",
        when="pass-or-fail rewards, tuned",
        stated="2510.01161/second-moment",
    ),
    _m2po(
        "Stale data informs as fresh data does",
        "under conditions",
        "no region ends as fresh on {m2po_returns:equal} of {m2po_returns:tasks} tasks",
        "m2po_returns",
        when="tables, tuned, at the end",
    ),
    _m2po(
        "… until training collapses",
        "not reproduced",
        "at most {m2po_returns:collapsed} of runs",
        "m2po_returns",
        when="tables",
    ),
    Claim(
        "ROLL Flash",
        "2.24 times faster on reasoning",
        "under conditions",
        "{roll_flash:long_2} times at ratio 2, {roll_flash:long_4} at 4",
        "roll_flash",
        when="long-tailed lengths; equal ones lose",
    ),
    Claim(
        "ROLL Flash",
        "2.72 times faster on agentic tasks",
        "under conditions",
        "{roll_flash:agentic_2} times at ratio 2, {roll_flash:agentic_4} at 4",
        "roll_flash",
        when="long-tailed lengths, and environments that free their place",
    ),
    Claim(
        "ROLL Flash",
        "Modest asynchrony has nearly all of the gain",
        "under conditions",
        "{roll_flash:most} % of it at ratio {roll_flash:mild_enough}, long tails {roll_flash:long_enough}",
        "roll_flash",
        when="lengths that spread little",
    ),
    Claim(
        "delay theory",
        "Staleness sets the largest stable step",
        "reproduced",
        "{stability:boundaries} boundaries within {stability:off} %",
        "stability",
    ),
    Claim(
        "AReaL",
        "A cap of 4 fixes the mean staleness",
        "reproduced",
        "mean {systems_stories:lognormal_mean}",
        "systems_stories",
    ),
    Claim(
        "asyncsim",
        "Asynchrony raises throughput",
        "under conditions",
        "{system_spread:open_loop_quick} times on long tails",
        "system_spread",
        when="long-tailed lengths; even lengths gain one half at most",
    ),
    Claim(
        "asyncsim",
        "Stabilizers beat doing nothing, all tuned",
        "under conditions",
        "{league:better} of {league:judged} better, {league:worse} worse",
        "league",
        when="graded sequences at staleness 32; most undecided",
    ),
    Claim(
        "asyncsim",
        "PPO equals stable-baselines3 on CartPole",
        "reproduced",
        "curve areas within {cartpole_parity:cut_high} %",
        "cartpole_parity",
    ),
    Claim(
        "asyncsim",
        "A recomputed anchor cannot see staleness",
        "not tested",
        "return {cartpole:blind_last} against {cartpole:behavior_last} on one task",
        "cartpole",
        when="PPO on CartPole alone",
    ),
    Claim(
        "asyncsim",
        "ESS falls as exp(-variance × length)",
        "under conditions",
        "ESS {pendulum_tails:ess}, predicted {pendulum_tails:law}",
        "pendulum_tails",
        when="Pendulum, early training",
    ),
    Claim(
        "asyncsim",
        "One update forecasts a language model's ESS",
        "under conditions",
        "{language_ess:met} of {language_ess:levels} levels of staleness within a tenth",
        "language_ess",
        when="random rewards; real ones drift faster",
    ),
    Claim(
        "asyncsim",
        "Language models learn from stale data, slower",
        "under conditions",
        "accuracy {language_learning:char_stale_held_last}, fresh {language_learning:char_held_last}",
        "language_learning",
        when="one model size, one learning rate",
    ),
    Claim(
        "asyncsim",
        "Token ratios beat sequence ratios on stale data",
        "not tested",
        "one step probed, nothing trained",
        "atlas",
        when="the atlas probes one step; no method was trained",
    ),
)


SHORT = {
    "2602.17616/root-of-ess": "step scales with the root of ESS",
    "2607.01083/bias": "bias grows as staleness × step",
    "2607.01083/step-limit": "largest step falls as 1/staleness",
    "2607.01083/collapse-time": "collapse at constant time × step",
    "2607.01083/ballistic": "positive cosine means drift",
    "2609.20807/score-drift": "score drift is the main cause",
    "2604.22407/inflation": "Adam inflates what is projected",
    "2206.08307/average-delay": "average delay decides, not largest",
}
"""A few words for each sentence that no figure decides."""


def exact() -> tuple[Claim, ...]:
    """Sentences of papers that exact results alone decide."""
    told = {each.stated for each in CLAIMS}
    found = [each for id, each in theory.papers().items() if id not in told]
    return tuple(
        Claim(
            each.paper, SHORT[each.id], OF_STATUS[each.status], each.number(), "",
            when=each.when or each.verdict, stated=each.id,
        )
        for each in found
    )  # fmt: skip


def filled(text: str, numbers: Mapping[str, Mapping[str, str]]) -> str:
    """A claim's number with what the figures give; raises `InputError` for a key that none has."""

    def number(found: Any) -> str:
        own = numbers.get(found[1] or "", {})
        checks.require(found[2] in own, "claim", found[0], "a number of its figure", f"let numbers() give {found[2]}")
        return own[found[2]]

    return PLACEHOLDER.sub(number, text)


def table() -> str:
    """All claims as Markdown, with placeholders for numbers."""
    rows = ["| source | claim | verdict | number |", "|---|---|---|---|"]
    for before, each in zip((None, *CLAIMS), CLAIMS, strict=False):
        verdict = f"**{each.verdict}**" + (f": {each.when}" if each.when else "")
        source = "" if before and before.source == each.source else each.source
        claim = f"[{each.text}](#{each.figure})" + "\\*" * each.rebuilt
        rows.append(f"| {source} | {claim} | {verdict} | {each.number} |")
    return "\n".join(rows) + "\n\n\\* judged on our reconstruction of the method\n"


def rows(numbers: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """All claims with their numbers, as they stand in claims.json."""
    known = [*CLAIMS, *exact()]
    return [asdict(each) | {"number": filled(each.number, numbers), "claims": list(each.claims)} for each in known]
