"""Planted causes are told apart, healthy runs are left alone, and a defect of `diagnose` itself is caught."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import special, stats

import asyncsim as sim
from asyncsim import claims
from asyncsim.diagnosing import ages, aliases, diagnosis, gradients, mismatch, sizes
from asyncsim.diagnosing.findings import BY_DEFINITION
from tests.architecture.source import ROOT
from tests.diagnosing import simulated
from tests.diagnosing.simulated import Run, table

LAW, DRIFT, COSINE = "distribution of staleness", "drift with staleness", "cosine of consecutive gradients"
PLANTED = {
    "engine mismatch": (Run("uniform", floor=8e-3), "", ["engine mismatch"]),
    "step near boundary": (Run("constant", 4, step=0.33), "", ["step near boundary"]),
    "momentum": (Run("uniform", momentum=0.9, signal=0.05), "", ["momentum"]),
    "shared batches": (Run("uniform", shared=0.4, signal=0.05), "", ["shared batches"]),
    "ESS clamped": (Run("geometric", 4, growth=2e-2), "clamped", ["ESS clamped"]),
    "ESS over micro-batches": (Run(number=4, growth=1e-2), "micro-batches", ["ESS averaged over micro-batches"]),
    "ESS above one": (Run(), "above one", ["ESS above one"]),
    "mask ignored": (Run(), "mask ignored", ["mask ignored"]),
    "negative k3": (Run(), "negative k3", ["negative k3"]),
    "wrong log-probs": (Run(offset=-0.05), "", ["wrong log-probs"]),
    "stamps one too high": (Run(shift=1), "", ["off-by-one staleness"]),
    "stamps one too low": (Run("uniform", shift=-1), "", ["off-by-one staleness"]),
    "stamps of 30 % one version too new": (Run("uniform", early=0.3), "", ["stale data stamped fresh"]),
    "the same of a geometric staleness": (Run(floor=1e-4, early=0.3), "", ["stale data stamped fresh"]),
}
"""A run, a mistake of its metrics, and the causes that differ: exactly these."""
LAWS = {law: Run(law, 4) for law in ("constant", "sawtooth", "uniform", "geometric", "capped")}
LAWS["mixed"] = Run("two", 2)
"""Distributions of staleness; none of them is a fault."""


def diagnosed(run: Run, wrong: str = "", **options) -> sim.Diagnosis:
    steps, tokens = table(run, wrong)
    return sim.diagnose(steps, tokens=tokens, **options)


def answer(found: sim.Diagnosis, question: str) -> sim.diagnosing.Finding:
    return next(each for each in found.findings if each.question == question)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_cause_is_named_and_no_other(name, seed):
    run, wrong, causes = PLANTED[name]
    assert diagnosed(replace(run, seed=seed), wrong).causes == causes


@pytest.mark.parametrize("law", LAWS)
def test_distributions_of_staleness_are_told_apart(law):
    found = diagnosed(LAWS[law])
    assert found.causes == []
    assert answer(found, LAW).cause == f"{law} staleness"
    other = {"constant": "geometric", "mixed": "uniform"}.get(law, "constant:4")
    assert f"{law} staleness" in diagnosed(LAWS[law], staleness=other).causes


def test_a_stamp_taken_at_arrival_is_seen_in_the_ratios():
    """Staleness 1 stamped as 0 is possible by its number; only the first step's ratios contradict it."""
    tokens = simulated.tokens(Run("uniform", growth=4e-3))
    tokens["staleness"] = np.maximum(tokens["staleness"] - 1, 0)
    assert sim.diagnose(simulated.metrics(tokens), tokens=tokens).causes == ["stale data stamped fresh"]


def test_the_fit_of_two_cells_is_a_t_test_of_their_stretches():
    """Of two stalenesses Hotelling's test is Student's, two-sided, on the shares of consecutive stretches.

    To rounding, from p = 1 down to one in a million: stretches or degrees of freedom that count twice are seen.
    """
    rng, p = np.random.default_rng(0), []
    for share in (0.5, 0.52, 0.6):
        row = np.repeat(np.arange(240), 8)
        seen = ages.Ages(row, (rng.random(row.size) < share).astype(int), 240)
        each = seen.staleness.reshape(24, 80).mean(axis=1)
        law = ages.Law("uniform", np.array([0.5, 0.5]), "", 0.5)
        p.append(ages._shares(seen, law))
        assert p[-1] == pytest.approx(stats.ttest_1samp(each, 0.5).pvalue, rel=1e-6)
        assert ages._between(seen, seen.staleness.astype(float)) == pytest.approx(stats.sem(each), rel=1e-12)
    assert max(p) > 0.05 and min(p) < 1e-5


@pytest.mark.parametrize("column", ["trainer/idle_ratio", "fully_async/rollouter/idle_ratio", "generator_idle"])
def test_a_share_of_time_outside_of_0_to_1_is_impossible(column):
    log = {"kl_k3": [0.01] * 12, column: [0.2] * 12}
    assert sim.diagnose(log).causes == []
    for wrong in (1.3, -0.1):
        log[column][4] = wrong
        found = sim.diagnose(log)
        assert found.causes == ["share out of range"] and "inequalities" not in str(found)
        assert f"is {'above 1' if wrong > 1.0 else 'below 0'}" in str(found) and "At step 4" in str(found)


def test_the_floor_is_that_of_the_first_step_where_stamps_are_in_doubt():
    """Data stamped fresh differ by .0012 nats^2, more than engines may; those of the first step by a tenth of that."""
    found = diagnosed(Run("uniform", floor=1e-4, growth=4e-3, early=0.3))
    one = answer(found, "engine floor")
    assert (one.verdict, one.cause) == ("as predicted", "engines agree") and one.measured < 1.5e-4
    assert found.causes == ["stale data stamped fresh"] and answer(found, DRIFT).verdict == "cannot tell"
    assert answer(found, "fresh data are fresh").measured > 5.0 * one.measured


@pytest.mark.parametrize("growing", [0.5, 1.5, 4.0])
def test_a_mismatch_that_grows_with_training_is_no_wrong_stamp(growing):
    for seed in range(4):
        run = Run("uniform", floor=2e-4, growth=1e-3, growing=growing, seed=seed)
        assert diagnosed(run).causes == [], seed


@pytest.mark.long
def test_stamps_too_new_are_seen_in_nine_of_ten_runs_and_in_no_other():
    """Of 100 runs whose drift of one version is 6 to 12 times the floor, 30 % of stamps one version too new.

    The miss rate is below 0.1 with confidence 0.99 where at most 3 are missed; the healthy runs above have the other.
    """
    rng = np.random.default_rng(4)
    missed = []
    for seed in range(100):
        floor = float(rng.uniform(1e-4, 8e-4))
        law = str(rng.choice(["uniform", "geometric", "capped"]))
        run = Run(law, int(rng.integers(2, 5)), floor=floor, growth=floor * float(rng.uniform(6.0, 12.0)), early=0.3)
        found = diagnosed(replace(run, seed=seed))
        missed += [] if found.causes == ["stale data stamped fresh"] else [(seed, run, found.causes)]
    assert len(missed) <= 3, missed


def test_a_distribution_whose_mean_is_another_is_not_named():
    """Shares of stretches alone let a uniform staleness of mean 2 stand for one of 1.84."""
    rng = np.random.default_rng(1)
    found = []
    for mean in (2.0, 1.84):
        p = np.full(5, 0.2) + (2.0 - mean) / 10.0 * np.array([2.0, 1.0, 0.0, -1.0, -2.0])
        age = rng.choice(5, size=1600, p=p)
        log = {"step": range(40, 1640), "staleness_min": age, "staleness_max": age}
        found.append(answer(sim.diagnose(log), LAW))
    assert found[0].cause == "uniform staleness" and "on average, for 2 predicted" in found[0].sentence
    assert f"{found[0].measured:.3g} on average" in found[0].sentence
    assert found[1].cause == "mixed staleness"


def test_a_slope_below_one_is_not_called_independent_steps():
    noise = np.random.default_rng(5).normal(1.0, 0.02, (60, 6))
    log = {f"kl_k3/staleness_{s}": (1e-4 + 1e-3 * s**0.6) * noise[:, s] for s in range(6)}
    found = answer(sim.diagnose({"step": range(60), **log}), DRIFT)
    assert found.cause == "growth slower than linear" and "slower than independent steps" in found.sentence


@pytest.mark.parametrize(
    ("share", "cause"), [(0.0, "independent steps"), (1.0, "aligned steps"), (0.2, "noise and drift")]
)
def test_drift_is_linear_quadratic_or_both(share, cause):
    found = answer(diagnosed(Run("uniform", 5, share=share, steps=240)), DRIFT)
    assert (found.verdict, found.cause) == ("as predicted", cause)


@pytest.mark.parametrize(("power", "cause"), [(1, "independent steps"), (2, "aligned steps")])
def test_drift_is_read_from_means_by_staleness(power, cause):
    """Means of k3 by staleness, as some trainers log them, in place of tokens."""
    noise = np.random.default_rng(5).normal(1.0, 0.05, (60, 6))
    log = {f"kl_k3/staleness_{s}": (1e-4 + 1e-3 * s**power) * noise[:, s] for s in range(6)}
    found = answer(sim.diagnose({"step": range(60), **log}), DRIFT)
    assert (found.verdict, found.cause) == ("as predicted", cause)
    stuck = {name: log["kl_k3/staleness_1"] * (1.0 + 0.2 * (k > 0)) * noise[:, k] for k, name in enumerate(log)}
    assert "no growth with staleness" in sim.diagnose({"step": range(60), **stuck}).causes


def test_a_low_signal_is_no_fault_but_said():
    found = answer(diagnosed(Run("uniform", signal=0.001)), COSINE)
    assert (found.verdict, found.cause) == ("as predicted", "low signal")


def test_momentum_that_is_given_explains_the_cosine():
    assert diagnosed(Run("uniform", momentum=0.9, signal=0.05), momentum=0.9).causes == []


@pytest.mark.parametrize(("share", "momentum"), [(0.3, 0.6), (0.05, 0.9), (0.5, 0.0)])
def test_the_cosine_under_momentum_is_that_of_the_sums_it_makes(share, momentum):
    """From the weights of past gradients, summed. The planted defect: the noise summed as the signal is, 1/(1 - b)."""
    weights = momentum ** np.arange(400.0)
    signal, noise = share * weights.sum() ** 2, (1.0 - share) * (weights**2).sum()
    cosine = (signal + (1.0 - share) * (weights[1:] * weights[:-1]).sum()) / (signal + noise)
    found = gradients._with_momentum(share, momentum)
    assert found == pytest.approx(cosine, rel=1e-12)
    planted = (1.0 - share) / (1.0 - momentum)
    assert momentum == 0.0 or found != pytest.approx((signal + planted * momentum) / (signal + planted), rel=0.01)


def false_findings(runs: int) -> list[tuple[int, list[str]]]:
    found = []
    for seed in range(runs):
        run = simulated.healthy(seed)
        causes = diagnosed(run, staleness=simulated.expected(run)).causes
        found += [(seed, causes)] * bool(causes)
    return found


def test_healthy_runs_are_left_alone():
    """Of 60 runs at level 0.002 one differs with probability 0.11, two with 0.007; a level of 0.1 would show six."""
    assert len(false_findings(60)) <= 1


@pytest.mark.long
def test_at_most_one_percent_of_a_thousand_healthy_runs_differ():
    """At the level 0.002 more than four of 1,000 have probability 0.05; with four the interval ends at 1.02 %."""
    false = false_findings(1000)
    assert stats.beta.ppf(0.975, len(false) + 1, 1000 - len(false)) < 0.0103, false


def _without_floor(levels):
    """Fresh data taken to have no mismatch."""
    return lambda t: levels(t)._replace(square=np.where(levels(t).staleness == 0.0, 0.0, levels(t).square))


def _halved(share):
    """h in place of 2 h / (1 + h), nearly."""
    return lambda t: share(t)._replace(value=0.5 * share(t).value)


DEFECTS = {
    "signal share halved": (gradients, "signal_share", _halved, Run(signal=0.4), "", {}),
    "floor forgotten": (mismatch, "levels", _without_floor, *PLANTED["engine mismatch"][:2], {}),
    "tails exchanged": (mismatch, "above", lambda real: lambda *a: 1.0 - real(*a), Run("uniform"), "", {}),
    "geometric one version late": (
        ages, "_geometric", lambda real: lambda *a: np.r_[0.0, real(*a)[:-1]], Run(), "", {"staleness": "geometric:3"}
    ),
    "any quantity is nearer": (sizes, "CLOSER", lambda real: 0.0, *PLANTED["ESS over micro-batches"][:2], {}),
}  # fmt: skip
"""A slip of `diagnose`: where it is, and a run whose causes it changes."""


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_of_diagnose_is_caught(monkeypatch, name):
    module, attribute, planted, run, wrong, options = DEFECTS[name]
    before = diagnosed(run, wrong, **options).causes
    monkeypatch.setattr(module, attribute, planted(getattr(module, attribute)))
    assert diagnosed(run, wrong, **options).causes != before


def test_verdicts_without_correction_are_caught(monkeypatch):
    """Each p-value on its own at 0.2: of 15 healthy runs more than one then differs, and the test above fails."""
    alone = lambda drafts: [draft.settled(draft.p is not None and draft.p <= 0.2) for draft in drafts]  # noqa: E731
    monkeypatch.setattr(diagnosis, "settle", alone)
    assert len(false_findings(15)) > 1


def test_every_claim_exists():
    """Every id that a source of `diagnosing` names, whether a run above meets it or not."""
    families = "|".join({id.partition("/")[0] for id in claims.claims()})
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "asyncsim/diagnosing").glob("*.py")]
    named = {id for text in texts for id in re.findall(rf'"((?:{families})/[a-z0-9-]+)"', text)}
    assert len(named) > 15
    assert named <= set(claims.claims())
    found = diagnosed(Run())
    assert all(each.claim in {*named, BY_DEFINITION} for each in found.findings)
    assert BY_DEFINITION in {each.claim for each in found.findings}


def test_clamped_logs_of_verl_are_read_beside_chi_square():
    """A log of metrics alone: ESS of clamped weights is no mistake under the name that says so."""
    steps = simulated.metrics(simulated.tokens(Run(growth=2e-2)), "clamped")
    log = {"rollout_corr/rollout_is_eff_sample_size": steps["ess"], "rollout_corr/chi2_token": steps["chi_square"]}
    assert sim.diagnose({"step": steps["step"], **log}, cap=2.0).causes == []
    plain = {name: steps[name] for name in ("step", "ess", "chi_square", "ratio_mean")}
    assert sim.diagnose(plain).causes == ["ESS clamped or averaged"]


@pytest.mark.parametrize("digits", [3, 4, 6])
def test_a_rounded_log_is_not_taken_for_a_mistake(digits):
    steps, tokens = table(Run())
    assert sim.diagnose(steps | {"ess": steps["ess"].round(digits)}, tokens=tokens).causes == []


def test_small_mistakes_show_in_a_log_that_is_not_rounded():
    assert diagnosed(Run(growth=1e-3), "micro-batches").causes == ["ESS averaged over micro-batches"]


def test_the_floor_of_a_clamp_bounds_its_ess():
    log = {
        "step": range(20),
        "rollout_corr/rollout_is_eff_sample_size": [0.6] * 20,
        "rollout_corr/chi2_token": [3.0] * 20,
    }
    assert sim.diagnose(log, cap=2.0).causes == ["ESS below its floor"]
    assert sim.diagnose(log, cap=3.0).causes == []


@pytest.mark.parametrize(
    ("law", "limit"),
    [("constant", 2 * np.sin(np.pi / 18)), ("sawtooth", 2 / 5), ("uniform", 10 * np.sin(np.pi / 10) ** 2)],
)
def test_the_boundary_is_that_of_the_measured_staleness(law, limit):
    """Staleness 4, 0 to 4 in turn, 0 to 4 drawn: textbook boundaries, from Levin and May and from the claims."""
    found = answer(
        diagnosed(Run(law, 4, steps=400), learning_rate=0.45, curvature=1.0), "distance to the stability boundary"
    )
    assert found.measured == pytest.approx(0.45 / limit, rel=0.02)
    assert (found.verdict == "differs") == (law != "uniform")


def test_names_of_trainers_are_known():
    named = {alias.column: alias.source for alias in [*aliases.STEPS, *aliases.TOKENS]}
    for column in ("rollout_corr/k3_kl", "mismatch_kl/all/mean", "async/staleness_mean", "ess_ratio", "rl/kl_new_old"):
        assert "@" in named[column]
        assert f"train/{column}" in aliases.steps()


def test_steps_alone_leave_questions_open_and_say_what_is_missing():
    found = sim.diagnose({"ess": [0.9] * 20})
    told = [each for each in found.findings if each.verdict == "cannot tell"]
    assert len(told) >= 6
    assert all(each.action and not each.cause for each in told)


def test_a_short_log_is_not_said_to_lack_what_it_has():
    """Six steps with staleness and ESS: there are too few of them, and nothing else is wrong."""
    log = {"step": range(40, 46), "staleness_min": range(6), "staleness_max": range(6), "ess": [0.9] * 6}
    found = sim.diagnose(log, batch=64)
    for question in (LAW, gradients.BOUNDARY, sizes.SHOWN):
        assert "oo few steps" in answer(found, question).sentence
    found = sim.diagnose(
        {"step": range(40, 80), **{f"staleness_{m}": [0, 1] * 20 for m in ("min", "max")}}, momentum=0.9
    )
    assert "No boundary is known for momentum" in answer(found, gradients.BOUNDARY).sentence


def test_the_result_is_plain_json():
    found = diagnosed(Run())
    assert json.loads(json.dumps(found.json(), allow_nan=False))["counts"] == found.counts
    for each in found.findings:
        for text in (each.sentence, each.action):
            assert max(len(sentence.split()) for sentence in text.replace(";", ".").split(". ")) <= 25, text


def weighed(log_weight):
    """A log of one token a sequence whose weights are these, 64 a step."""
    place = np.arange(len(log_weight))
    known = {"step": place // 64, "sequence": place, "sampler_log_prob": np.full(len(place), -99.0)}
    return known | {"trainer_log_prob": np.asarray(log_weight) - 99.0}


def tail_of(log_weight):
    return next(each for each in sim.diagnose(weighed(log_weight)).findings if each.question == sizes.TAIL)


def test_a_heavy_tail_is_named_at_its_level():
    """On exact Pareto weights at the limit of 2, p is uniform: of 400 at most 33 are below 0.05 with probability 0.998.
    The planted defect reads the other tail of the Gamma law and calls an index of 1 light."""
    rng = np.random.default_rng(0)
    p = np.array([tail_of(rng.exponential(0.5, 640)).p for _ in range(400)])
    assert (p < 0.05).sum() <= 33 and 0.4 < p.mean() < 0.6
    heavy, light, normal = (
        tail_of(x) for x in (rng.exponential(1.0, 640), rng.exponential(0.2, 640), rng.normal(0, 0.05, 640))
    )
    assert (heavy.cause, heavy.verdict) == ("heavy tail", "differs") and heavy.low < 1.0 < heavy.high
    assert [each.verdict for each in (light, normal)] == ["as predicted"] * 2
    assert special.gammainc(76, 2 * 76 / heavy.measured) > 0.5
    # A log-normal reads what its own law says; equal weights have no tail.
    read = float(re.search(r"spread has an index of ([\d.]+)", normal.sentence)[1])
    assert normal.low < read < normal.high
    assert tail_of(np.zeros(640)).verdict == "cannot tell"
