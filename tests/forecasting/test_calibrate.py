"""Calibration and forecast: exact inverses, intervals of correlated steps, bands that hold, and what is refused."""

import itertools
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy.stats import binom, binomtest, hypergeom

import asyncsim as sim
from asyncsim.base import laws
from asyncsim.base.checks import RunWarning
from asyncsim.diagnosing import aliases
from asyncsim.forecasting import calibrating, drifts, forecasting
from asyncsim.plotting import _decisions
from asyncsim.sweeping import advising
from tests.forecasting import published, simulated
from tests.forecasting.coverage import BARE, CHANGES, PRESETS, counted
from tests.forecasting.simulated import DRIFT, SMALL, given, part
from tests.refusals import refused

ROOT = Path(__file__).parents[2]
PAGE, ACCURACY = ROOT / "docs" / "your-run.md", ROOT / "docs" / "forecast-accuracy.md"
SYSTEM = {"trainer": "areal", **SMALL}
ONE = np.ones(1)


@pytest.fixture(scope="module")
def columns():
    return part(simulated.simulated(SYSTEM, 100)[0], slice(0, 100))


@pytest.fixture(scope="module")
def made(columns):
    return sim.calibrate(columns, "areal", **given(SYSTEM))


@pytest.mark.parametrize("name", drifts.GAUGES)
def test_a_gauge_and_its_way_back_are_inverse(name):
    """At one staleness; ESS of sequences is read from chi-square, so its way back gives 1 / (1 + chi^2)."""
    gauge, v = drifts.GAUGES[name], 0.07
    back = gauge.back(np.array([v]), ONE)
    back = 1 / back - 1 if name == "chi_square_sequence" else back
    assert gauge.variance(np.array([back]))[0] == pytest.approx(v, rel=1e-12)


@pytest.mark.parametrize("truth", [(0.01, 0.02, 0.003), (0.0, 0.02, 0.0), (0.01, 0.0, 0.0), (0.005, 0.0, 0.002)])
def test_drift_without_noise_is_exact(truth):
    s = np.concatenate([[0.0], np.linspace(0.2, 3, 30)])
    fit = drifts.fitted(truth @ np.stack([np.ones(31), s, s**2]), s, s**2, "x").fits[0]
    assert fit.values == pytest.approx(truth, abs=1e-9)


def test_a_constant_staleness_leaves_all_extremes_open():
    """All floor, all linear, all quadratic explain one number; the band of another staleness covers all three."""
    found = drifts.fitted(np.full(40, 0.04), np.full(40, 2.0), np.full(40, 4.0), "x")
    assert {tuple(fit.values.round(9)) for fit in found.fits} == {(0.04, 0, 0), (0, 0.02, 0), (0, 0, 0.01)}
    assert not found.identified
    share = np.zeros(9)
    share[8] = 1.0
    draws = [forecasting.Drawn({"staleness": 8.0}, share)] * 32
    band = forecasting._over(draws, found, drifts.GAUGES["kl_k3"].back, 100, 0, np.inf, False)
    assert (band.low, band.high) == pytest.approx((0.02, 0.32), rel=1e-6)
    # With the first steps of the run, which are fresh, the floor is known.
    s = np.concatenate([np.zeros(4), np.full(40, 2.0)])
    known = drifts.fitted(np.where(s == 0, 0.01, 0.04), s, s**2, "x")
    assert known.identified and all(fit.values[0] == pytest.approx(0.01) for fit in known.fits)


def test_shares_outside_a_clip_by_simulation():
    """A million normal log ratios: standard error 0.0005, allowed 4 of them."""
    log = np.random.default_rng(2).normal(-0.02, 0.2, 1_000_000)
    share = np.mean((np.exp(log) > 1.3) | (np.exp(log) < 0.8))
    assert drifts.outside(np.array([0.04]), ONE, 0.2, 0.3) == pytest.approx(share, abs=0.002)


def unseen(seen, later, width):
    """Highest probability, over all shares, of no token of a log outside and more than the band says of later ones."""
    _, high = forecasting.resolved(0.0, 1e-225, seen, later)
    share = np.geomspace(0.01 / (seen + later), 20 / min(seen, later), 400)
    return max((1 - share) ** seen * binom.sf(width * high * later, later, share))


@pytest.mark.parametrize(("seen", "later"), [(5120, 10240), (5120, 640), (400, 100_000)])
def test_a_share_too_small_for_the_log_has_a_band_of_what_the_log_cannot_show(seen, later):
    """Exact for independent tokens, whichever their number. Planted: no width, and three tenths of it."""
    low, high = forecasting.resolved(1e-300, 1e-225, seen, later)
    assert low == 0.0 and high > 3.0 / seen
    total, most = seen + later, int(high * later)
    assert hypergeom.pmf(0, total, most + 1, seen) <= 0.025
    assert unseen(seen, later, 1.0) <= 0.025 < unseen(seen, later, 0.3) <= unseen(seen, later, 0.0)
    assert forecasting.resolved(0.2, 0.5, seen, later) == (0.2, 0.5)


def test_endless_tokens_are_bounded_as_clopper_and_pearson_do():
    found = forecasting.resolved(0.0, 0.0, 5120, 1e12)[1]
    assert found == pytest.approx(binomtest(0, 5120).proportion_ci(method="exact").high, rel=1e-3)


def test_lengths_have_the_logged_mean_and_maximum():
    sigma = calibrating.sigma_of(900.0, laws.lognormal(900.0, 0.7).expected_max(32), 32)
    assert sigma == pytest.approx(0.7, abs=1e-3)
    cut = calibrating.cut_lengths(1900.0, 8192.0, 0.02)
    assert cut.mean() == pytest.approx(1900.0) and np.mean(cut == 8192.0) == pytest.approx(0.02)
    refused("share of cut responses", calibrating.cut_lengths, 1900.0, 8192.0, 0.9)


def covering(interval, runs=400):
    """Share of intervals that hold the mean of steps whose neighbours have correlation 0.6."""
    random, held = np.random.default_rng(8), 0
    for _ in range(runs):
        x = random.normal(size=160)
        for k in range(1, 160):
            x[k] = 0.6 * x[k - 1] + 0.8 * x[k]
        low, high = interval(x[60:])
        held += low <= 0.0 <= high
    return held / runs


def test_intervals_of_correlated_steps_hold_the_mean():
    """400 runs, standard error 0.012 at 0.93; the formula for independent steps holds in seven of ten."""

    def ours(x):
        found = calibrating.mean_of(x, "x")
        return found.low, found.high

    def independent(x):
        half = 1.98 * x.std(ddof=1) / np.sqrt(len(x))
        return x.mean() - half, x.mean() + half

    assert covering(ours) >= 0.90 and covering(independent) < 0.75


def test_bands_hold_what_runs_do():
    """Two runs, and another setting of two changes each: at most 2 of 16 bands miss.

    At the measured miss rate of 4 % more than 2 are missed once in 40 seeds (the seed is fixed); planted: the next.
    """
    rows = list(itertools.chain(*counted(("areal", "verl"), [1], CHANGES[-1:]).values()))
    assert len(rows) == 16 and sum(not held for held, *_ in rows) <= 2


def test_a_forecast_without_drift_is_caught(made):
    """The k3 at four times the staleness is not that of today, which a constant floor would say."""
    line = sim.forecast(made, staleness_limit=8).line("k3")
    assert line.forecasts[1].low > 2 * line.forecasts[0].value
    floor = drifts.Fit(np.array([2 * made.measured["kl_k3"].value, 0, 0]), np.zeros((3, 3)), 8.0)
    drift = {name: each._replace(fits=(floor,)) for name, each in made.drift.items()}
    blind = sim.forecast({**made.row(), "drift": {n: d.row() for n, d in drift.items()}}, staleness_limit=8)
    band = blind.line("k3").forecasts[1]
    assert not band.low <= line.forecasts[1].value <= band.high


def test_drift_between_syncs_is_counted_in_training_steps(monkeypatch):
    """A sync every 4 steps, and no staleness in the log; planted: staleness in versions."""

    def held():
        table = counted(["verl bare"], [0], CHANGES[:1])
        return [one[0] for (_, name), rows in table.items() if name in ("k3", "token ESS") for one in rows]

    assert held() == [True] * 4
    measure = advising.measure

    def versions(*arguments):
        numbers, found = measure(*arguments)
        return numbers, found._replace(ages=found.cells, moments=found.moments // (4.0, 16.0))

    monkeypatch.setattr(advising, "measure", versions)
    assert not all(held())


def test_tokens_per_second_are_all_tokens_over_all_seconds(made, columns):
    """As the event model has them; planted: a mean over steps, which counts short steps as much as long ones."""
    tokens, seconds = columns["length_mean"][made.warm :] * 32, columns["seconds_step"][made.warm :]
    assert made.measured["tokens"].value == pytest.approx(tokens.sum() / seconds.sum(), rel=1e-9)
    assert np.mean(tokens / seconds) > 1.003 * made.measured["tokens"].value


@pytest.mark.rows
@pytest.mark.parametrize("preset", [*PRESETS, *BARE])
def test_bands_hold_for_every_preset(preset):
    """Two runs of 16 numbers: at most 4 of 32 bands miss.

    At the measured miss rate of 4 % and independent misses, more do in 1 % of seeds (these are fixed). Planted: growth
    by versions alone, above, of which half of the bands miss.
    """
    rows = list(itertools.chain(*counted([preset], range(2)).values()))
    assert sum(not held for held, *_ in rows) <= 4


def test_yaml_is_written_to_no_file_of_another_ending(made, tmp_path):
    """It was, into cal.json, which nobody could read."""
    refused(r"ending in \.yaml", made.save, tmp_path / "cal.json")
    assert not list(tmp_path.iterdir())


def test_a_saved_calibration_says_the_same(made, tmp_path):
    made.save(tmp_path / "system.yaml")
    again, before = sim.forecast(tmp_path / "system.yaml"), sim.forecast(made)
    for line in before.lines:
        value = line.forecasts[0].value
        assert again.line(line.name).forecasts[0].value == (value if value is None else pytest.approx(value, rel=1e-3))
    assert sim.advise(tmp_path / "system.yaml", updates=20, realizations=2).knee.limit == 2
    assert before.misses == [] and "agrees with the log" in str(before)


def test_a_description_that_is_wrong_is_told_in_the_first_line(columns):
    """Machines that write at less than the speed of the run, and at less than the log's tokens need at all."""
    with pytest.raises(sim.InputError, match=r"tokens_per_second = 8.0: must be 26\.61 or more"):
        sim.calibrate(columns, "areal", **{**given(SYSTEM), "tokens_per_second": 8})
    wrong = {**given(SYSTEM), "tokens_per_second": 27}
    text = str(sim.forecast(sim.calibrate(columns, "areal", **wrong)))
    assert (
        text.startswith("For today's setting, the forecast disagrees with the log in")
        and "seconds per update" in text[:200]
    )
    assert re.search(r"updates are [\d.]+ times too slow\. Larger", " ".join(text.split()))
    assert "in the log: try" not in text
    slow = sim.forecast(sim.calibrate(columns, "areal", **{**given(SYSTEM), "train_seconds": 60}))
    (note,) = (each for each in slow.notes if "in the log: try" in each)
    assert re.fullmatch(r"train_seconds is 60 here, and ([\d.]+) in the log: try --set train_seconds=\1\.", note)


def test_rows_of_samples_say_the_same_as_rows_of_steps(tmp_path):
    """The same run: tokens a second are exact, since pauses for syncs are known; lengths are those of all rows."""
    system, path = {**SYSTEM, "tokens_per_second": 45}, tmp_path / "samples.csv"
    path.write_text(simulated.sample_rows(system))
    fields = {name: system[name] for name in ("machines", "slots_per_machine", "staleness_limit", "sync_seconds")}
    found = sim.calibrate(path, "areal", out=tmp_path / "system.yaml", **fields)
    steps = sim.calibrate(simulated.simulated(system, 100)[0], "areal", **given(system))
    assert found.fields["tokens_per_second"] == pytest.approx(45, rel=1e-3)
    assert (found.fields["prompts_per_batch"], found.fields["samples_per_prompt"]) == (8, 4)
    for name in ("staleness_mean", "seconds", "train_seconds", "response_tokens"):
        assert found.measured[name].value == pytest.approx(steps.measured[name].value, rel=0.02), name
    assert (tmp_path / "system.lengths.txt").read_text().count("\n") == len(found.lengths) == 3200
    assert "The drift is unknown" in str(found)
    assert (
        sim.forecast(tmp_path / "system.yaml")
        .line("token ESS")
        .forecasts[0]
        .why.startswith("no mismatch is logged (verl")
    )


def test_slots_that_never_wait_for_the_limit_idle_as_long_as_they_pause(made):
    """Pauses of a hundredth of a response, which the event model lacks, take a hundredth of a slot's time: 1/101."""
    row, far = made.row(), {"staleness_limit": 64, "train_seconds": 0.01, "updates": 40}
    pause = {"value": 0.01, "low": 0.01, "high": 0.01, "from": "t_start, t_end", "steps": 96, "freedom": 5.0}
    paused = {**row, "measured": {**row["measured"], "pause": pause}}
    idle, more = (sim.forecast(each, **far).line("idle slots").forecasts[1] for each in (row, paused))
    share = (more.value - idle.value) / (1.0 - idle.value)
    assert share == pytest.approx(1.0 / 101.0, abs=1e-3)
    assert more.low <= more.value <= more.high


def test_rows_of_tokens_tell_growth_by_staleness(columns):
    """Four stalenesses beside one another tell linear from quadratic growth, and the variance at each is known."""
    random, step = np.random.default_rng(4), np.repeat(np.arange(1, 101), 400)
    stale = random.integers(0, 4, len(step))
    v = DRIFT[0] + DRIFT[1] * stale + DRIFT[2] * stale**2
    ratio = random.normal(-v / 2, np.sqrt(v))
    tokens = {"step": step, "staleness": stale, "sampler_log_prob": np.zeros(len(step)), "trainer_log_prob": ratio}
    made = sim.calibrate([changed(columns, kl_k3=None, ess=None, chi_square=None), tokens], "areal", **given(SYSTEM))
    # The growth at staleness 3 has a standard error of 1.5 %; four of them are allowed.
    fit = made.drift["levels"].fits[0].values
    assert fit @ [1, 3, 9] == pytest.approx(DRIFT[0] + 3 * DRIFT[1] + 9 * DRIFT[2], rel=0.06)
    assert fit[0] == pytest.approx(DRIFT[0], rel=0.15)
    assert "derived from levels" in str(sim.forecast(made, method="grpo"))


def changed(columns, **more):
    return {name: value for name, value in {**columns, **more}.items() if value is not None}


@pytest.mark.parametrize(
    ("change", "fields", "words"),
    [
        (lambda c: part(c, slice(0, 12)), {}, "steps of the log = 12: must be 18 or more"),
        (lambda c: c, {"slots_per_machine": None}, "slots_per_machine=VALUE: responses that a machine"),
        (lambda c: changed(c, seconds_step=None, seconds_wait=None), {}, "train_seconds=VALUE: seconds of"),
        (lambda c: changed(c, length_max=None), {}, "lognormal:2000:0.8; or log the mean and maximum"),
        (lambda c: changed(c, length_max=np.full(100, 4096.0)), {}, "share of responses cut at the limit"),
        (lambda c: changed(c, seconds_wait=2 * c["seconds_step"]), {}, "a step longer than its wait and its sync"),
        (lambda c: changed(c, seconds_sync=40.0 * c["seconds_step"]), {}, "end the name of a column of milliseconds"),
        (lambda c: changed(c, clock=c["step"] % 60), {}, "cut the log where the run was resumed"),
        (lambda c: {n: np.concatenate([v, v]) for n, v in c.items()}, {}, "column step, row 101"),
        (lambda c: c, {"staleness_limit": [1, 2]}, "give the limit at which the log ran"),
        (lambda c: c, {"slots": 3}, "must be left out beside slots_per_machine"),
        (lambda c: c, {"max_concurrent_rollouts": 3, "prompts_at_once": 3}, "prompts_at_once? It is areal's"),
        (lambda c: changed(c, seconds_wait=None, my_wait=c["step"]), {}, "my_wait); OURS is length_mean"),
    ],
)  # fmt: skip
def test_a_log_that_does_not_do_is_refused(columns, change, fields, words):
    fields = {name: value for name, value in {**given(SYSTEM), **fields}.items() if value is not None}
    error = refused("", sim.calibrate, change(columns), "areal", **fields)
    assert words in "\n".join([str(error), *getattr(error, "__notes__", ())])


def test_milliseconds_of_a_log_are_seconds_and_names_that_are_spelled_alike_are_told(columns):
    """A unit in the name is taken, one that only the size tells is asked for; `diagnose` names who reads seconds."""
    parts, plain = ("seconds_step", "seconds_wait"), sim.calibrate(columns, "areal", **given(SYSTEM)).measured
    thousand = {f"{name}_ms" if name in parts else name: v * 1e3 ** (name in parts) for name, v in columns.items()}
    made = sim.calibrate(thousand, "areal", columns={each: f"{each}_ms" for each in parts}, **given(SYSTEM))
    assert made.measured["train_seconds"].value == pytest.approx(plain["train_seconds"].value)
    assert "seconds_wait_ms is read as milliseconds." in made.notes
    # A trainer's name with a unit is that trainer's column, and one behind the step is asked for.
    synced = changed(columns, **{"timing_s/param_sync_ms": 500.0 + 0.0 * columns["seconds_step"]})
    synced = sim.calibrate(synced, "areal", **given(SYSTEM))
    assert synced.measured["sync_seconds"].value == pytest.approx(0.5)
    assert any("--columns seconds_sync=timing_s/param_sync_ms" in note for note in synced.notes)
    with pytest.warns(RunWarning, match="are its seconds milliseconds"):
        sim.calibrate({n: v * 1e3 ** (n in parts) for n, v in columns.items()}, "areal", **given(SYSTEM))
    alike = changed(columns, kl_k3=None, kl_k33=columns["kl_k3"])
    assert "--columns kl_k3=kl_k33" in str(sim.calibrate(alike, "areal", **given(SYSTEM))).replace("\n", " ")
    assert "calibrate" in sim.diagnose(columns).refused["seconds_step"]


def test_what_contradicts_the_log_is_told(columns):
    twice = 60.0
    made = sim.calibrate(columns, "areal", **{**given(SYSTEM), "train_seconds": twice})
    (note,) = (each for each in made.notes if "is given as" in each)
    assert note.startswith(f"train_seconds is given as {twice:g}, which forecasts use; the log has ")
    own = sim.calibrate(columns, "areal", **{**given(SYSTEM), "train_seconds": made.measured["train_seconds"].value})
    assert not any("is given as" in each for each in own.notes)
    other = {"perf/time_per_step" if name == "seconds_step" else name: each for name, each in columns.items()}
    other |= {"rollout_corr/k3_kl": other.pop("kl_k3")}
    with pytest.warns(RunWarning, match="column names of verl, but the preset is areal"):
        sim.calibrate(other, "areal", **given(SYSTEM))


def test_how_few_prompts_at_once_the_log_allows_is_told(columns):
    """From the smallest on, updates take as long as in the log; half of it takes longer. Nothing where it is given."""
    few = calibrating.TABLE["fewer_at_once"].partition(" {}")[0]
    notes = sim.calibrate(columns, "areal", **given(SYSTEM)).notes
    (note,) = (each for each in notes if each.startswith(few))
    least, usual = map(int, re.findall(r"from (\d+) to (\d+)", note)[0])
    assert least < usual == SMALL["machines"] * SMALL["slots_per_machine"]

    def seconds(at_once):
        system = {**SYSTEM, "prompts_at_once": at_once}
        made, _ = advising.system_of(advising.read(system, Path()), 2, SMALL["machines"], True)
        return advising.measure(made, 100, SMALL["samples_per_prompt"], 0, 0)[0]["seconds"]

    assert seconds(least) < 1.05 * seconds(usual) < seconds(least // 2)
    assert not any(
        each.startswith(few) for each in sim.calibrate(columns, "areal", **given(SYSTEM), prompts_at_once=32).notes
    )


def test_seconds_of_another_batch_are_asked_for(made):
    said = calibrating.TABLE["same_seconds"]
    assert said in sim.forecast(made, prompts_per_batch=16).notes
    for settings in ({"staleness_limit": 4}, {"prompts_per_batch": 16, "train_seconds": 60.0}):
        assert said not in sim.forecast(made, **settings).notes


def test_all_fields_that_a_log_lacks_are_named_at_once(columns):
    error = refused("", sim.calibrate, columns, "areal")
    for name in ("tokens_per_second", "prompts_per_batch", "samples_per_prompt", "slots_per_machine", "machines"):
        assert f"{name}=VALUE: " in error.__notes__[0]


ASSUMED = [
    ("areal", ["machines", "sync_seconds"], "prompts_at_once 8, from the number of slots; machines 1; sync_seconds 0"),
    ("verl", [], "prompts_at_once 32, from the number of slots; publish_every 4; partial_rollouts true"),
    ("prime_rl", [], "prompts_at_once 32 responses, from the number of slots"),
    ("open_instruct", [], "partial_rollouts true"),
]


@pytest.mark.parametrize(("trainer", "without", "words"), ASSUMED)
def test_what_nobody_gave_is_told(trainer, without, words):
    """By calibration and forecast; nothing where all is given."""
    fields = {name: value for name, value in SMALL.items() if name not in without} | {"trainer": trainer}
    (note,) = calibrating.assumed(advising.read(fields, Path()))
    assert note.startswith(f"Assumed: {words}. The log does not contain") and "--set NAME=VALUE" in note
    said = fields | {n: SMALL.get(n, 1) for n in without} | {"partial_rollouts": True, "publish_every": 1}
    said |= {"prompts_at_once": 32} if advising.TRAINERS[trainer].running else {}
    assert calibrating.assumed(advising.read(said, Path())) == []


def test_pages_of_calibration_and_forecast_have_what_is_assumed(made):
    for text in (str(made), str(sim.forecast(made))):
        assert "Assumed: prompts_at_once 32, from the number of slots. The log does not" in " ".join(text.split())


def test_a_forecast_from_a_log_without_reward_says_how_often_its_bands_held(columns, made):
    """The counts are those of the page; a log with a reward is silent."""
    row = next(line for line in ACCURACY.read_text(encoding="utf-8").splitlines() if "learns slowly |" in line)
    held = row.split("|")[3].strip()
    text = " ".join(str(sim.forecast(made)).split())
    assert "assume a policy that learns slowly" in text and f"{held} bands of ESS and k3 contained" in text
    reward = np.random.default_rng(3).normal(0.5, 0.1, 100)
    steady = sim.calibrate({**columns, "reward": reward}, "areal", **given(SYSTEM))
    assert steady.measured["reward"].value == pytest.approx(0.5, abs=0.1)
    assert "learns slowly" not in str(sim.forecast(steady))


def test_what_should_be_logged_has_verl_s_name(made):
    """And that name is read. An extrapolation is told beside the staleness that it counts from."""
    found = sim.forecast(made, staleness_limit=8)
    (why,) = {band.why for band in found.line("sequence ESS").forecasts}
    assert "rollout_corr/chi2_seq" in why and aliases.steps()["rollout_corr/chi2_seq"][0] == "chi_square_sequence"
    seen = made.drift["ess"].seen
    assert f"the log's stalest step (mean {seen:.2g} training steps)" in " ".join(str(found).split())


def lines_of(found):
    """Texts of the first panel's legend, and the places that its bands stand at."""
    ax = sim.plot(found).axes[0]
    handles, labels = ax.get_legend_handles_labels()
    return {label: handle.get_xdata().tolist() for handle, label in zip(handles, labels, strict=True)}


def test_a_number_that_varies_is_an_axis_with_a_line_for_each_number_of_machines(made):
    """Sorted, the log at its own value; settings that differ in more, or in no number, stand side by side."""
    drawn = lines_of(sim.forecast(made, staleness_limit=[8, 4], machines=[8, 4]))
    assert drawn.pop("the log, 95 % interval") == [2.0]
    assert drawn == {"forecast, 95 % band, 4 machines": [2, 4, 8], "forecast, 95 % band, 8 machines": [4, 8]}
    for more in ({"staleness_limit": [4, 8], "slots_per_machine": 4}, {"train_seconds": ["gamma:20:9", "gamma:40:9"]}):
        found = sim.forecast(made, **more)
        assert lines_of(found)["forecast, 95 % band"] == [0, 1, 2]
        assert [each.get_text() for each in sim.plot(found).axes[0].get_xticklabels()] == list(found.settings)


def test_runs_held_out_stand_beside_their_forecasts(made):
    found = sim.forecast(made, staleness_limit=4)
    held = {"seconds per update": (30.0, 20.0), "staleness": (1.0, 3.0), "head staleness": (1.0, 4.0)}
    figure = _decisions.draw_forecast(found, held | {"token ESS": (0.9, 0.5)})
    drawn = [[line.get_xydata().tolist() for line in ax.lines if line.get_marker() == "D"] for ax in figure.axes]
    assert drawn == [[[[0.22, now], [1.22, there]]] for now, there in ((30.0, 20.0), (1.0, 4.0), (0.9, 0.5))]
    assert not [line for ax in sim.plot(found).axes for line in ax.lines if line.get_marker() == "D"]


def test_clocks_of_samples_that_go_back_are_refused(tmp_path):
    rows = simulated.sample_rows(SYSTEM, 40).splitlines()
    cells = [row.split(",") for row in rows]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(",".join([*c[:-1], "1.0"] if c[5] == "20" else c) for c in cells) + "\n")
    refused("write all times from one clock", sim.calibrate, path, "areal", **given(SYSTEM))


def test_growth_with_the_square_of_staleness_is_told_from_mean_staleness_alone():
    """v = b s^2, and a log of steps that has the mean staleness of tokens: 0.5 is 0 and 1, a mean square of 0.5."""
    system = {**SMALL, "response_lengths": "constant:16", "tokens_per_second": 16.0, "train_seconds": "gamma:1:4"}
    system |= {"prompts_per_batch": 4, "samples_per_prompt": 8, "sync_seconds": 0.0}
    found, planted = [], []
    for seed in range(3):
        columns, truth = simulated.simulated({"trainer": "areal", **system}, 100, seed, (0.0, 0.0, 1e-3), noise=0.05)
        log = {"step": columns["step"], "kl_k3": columns["kl_k3"]}
        log["ppo_actor/update/version_stats/sample_staleness_theta_avg"] = stale = truth["staleness"]
        found.append(sim.calibrate(log, "areal", **system).row()["drift"]["kl_k3"]["fits"][0]["values"])
        # The planted defect: a mean square in proportion to the squared mean.
        square = stale**2 * truth["k3"][10:].mean() / 0.5e-3 / (stale[10:] ** 2).mean()
        planted.append(drifts.fitted(2.0 * columns["kl_k3"], stale, square, "").fits[0].values)
    (_, linear, right), (_, wrong, short) = np.mean(found, 0) / 1e-3, np.mean(planted, 0) / 1e-3
    assert right > 0.85 and linear < 0.2
    assert short < 0.75 and wrong > 0.2


def test_what_a_log_lacks_narrows_the_forecast(columns):
    """Without staleness the simulation stands in; a log that begins late leaves the floor open; both are said."""
    bare = sim.calibrate(changed(columns, staleness_mean=None), "areal", **given(SYSTEM))
    assert "the simulated staleness is used" in str(bare) and bare.drift["kl_k3"].identified
    late = sim.calibrate(part(columns, slice(60, 100)), "areal", **given(SYSTEM))
    assert "floor and growth cannot be separated" in " ".join(str(late).split())
    wide, narrow = (sim.forecast(each, staleness_limit=0).line("k3").forecasts[1] for each in (late, bare))
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low) and narrow.low <= DRIFT[0] / 2.0 <= narrow.high


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"staleness": 3}, "did you mean staleness_limit?"), ({"staleness_limit": 0.5}, "must be an integer"),
     ({"draws": 4}, "draws = 4"), ({"method": "gsp"}, "did you mean gspo?")],
)  # fmt: skip
def test_a_wrong_setting_is_named(made, settings, words):
    assert words in str(refused("", sim.forecast, made, **settings))


def test_a_method_without_a_clip_of_staleness_cannot_be_told(made):
    whys = {name: sim.forecast(made, method=name).lines[-1].forecasts[0].why for name in ("gspo", "decoupled_ppo")}
    assert "no mismatch of sequences" in whys["gspo"] and "clips the ratio to" in whys["decoupled_ppo"]
    refused("asyncsim calibrate LOG", sim.forecast, SYSTEM)


def test_a_share_of_tokens_outside_a_clip_needs_normal_log_ratios(columns):
    """A tenth of the tokens carries the variance, or all do; without the mean size neither is known."""
    size = np.sqrt(2 / np.pi * 2 * columns["kl_k3"])

    def band(method="grpo", **more):
        made = sim.calibrate({**columns, **more}, "areal", **given(SYSTEM))
        return sim.forecast(made, method=method).line(f"outside {method}'s clip").forecasts[0]

    assert "is not known: log the mean |log ratio|" in band().why
    assert "not normal" in band(log_ratio_abs=size * np.sqrt(0.1)).why
    assert 0.15 < band(log_ratio_abs=size).low < band(log_ratio_abs=size).high < 0.35
    assert band("cispo", log_ratio_abs=size).high < 0.01
    # Bounds of log ratios, of a ratio's power that depends on staleness, of divergences, of sums that adapt.
    for method in ("gmpo", "a3po", "dppo_kl", "bapo_code"):
        assert "no fixed range [1 - low, 1 + high]" in band(method, log_ratio_abs=size).why
    # A hundredth of the spread: no token in practice, of about 98 steps of 32 samples of 900 tokens.
    small, tokens = band(log_ratio_abs=size / 1e2, kl_k3=columns["kl_k3"] / 1e4), 98 * 32 * 900
    assert small.value < 1e-30 and small.low == 0.0 and 3.0 / tokens < small.high < 10.0 / tokens


def test_columns_of_seconds_are_read_here_and_not_by_diagnose():
    known = {each.quantity for each in aliases.SYSTEM}
    parts = {name for name in known if name.startswith("part_")}
    assert known - parts == {"length_mean", "length_max", "seconds_step", "seconds_wait", "seconds_sync", "sync_after",
                             "clock"}  # fmt: skip
    # Lengths say what a k3 of tokens implies for responses.
    assert known & {quantity for quantity, _ in aliases.steps().values()} == {"length_mean"}
    assert all(each.column in aliases.steps(system=True) for each in aliases.SYSTEM)


@pytest.mark.committed
def test_the_page_shows_what_its_commands_print(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from asyncsim.app.cli import app

    monkeypatch.chdir(ROOT)
    assert (ROOT / "docs/your-run/verl-wandb.csv").read_text(encoding="utf-8") == simulated.exported()
    text = PAGE.read_text(encoding="utf-8")
    blocks = text.split("```console\n")[1:]
    assert len(blocks) == 2
    system = str(tmp_path / "system.yaml")
    for block in blocks:
        lines = block.split("```")[0].rstrip().splitlines()
        end = next(k for k, line in enumerate(lines) if not line.endswith("\\"))
        words = shlex.split(" ".join(line.rstrip("\\") for line in lines[: end + 1]).removeprefix("$ asyncsim "))
        words = [system if word == "docs/your-run/system.yaml" else word for word in words]
        words = [str(tmp_path / "picture.png") if word.endswith(".png") else word for word in words]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        assert done.output.splitlines()[:-1] == lines[end + 1 : -1]
    for name in ("system.yaml", "system.lengths.txt"):
        assert (tmp_path / name).read_text() == (ROOT / "docs/your-run" / name).read_text()
    # What the page says that the made-up system does there; its picture shows both runs.
    held = simulated.held_out()
    assert json.loads((ROOT / "docs/your-run/held-out.json").read_text(encoding="utf-8")) == held
    truth = {name: there for name, (_, there) in held.items()}
    said = (f"{truth['seconds per update']:.1f} s", f"ESS is {truth['token ESS']:.2f}", f"k3 is {truth['k3']:.3f}")
    assert all(each in " ".join(text.split()) for each in (*said, f"staleness of {truth['staleness']:.2f}"))


def test_rows_between_syncs_are_single_steps_and_merged_rows_say_the_same(monkeypatch):
    """A verl log with a sync in every fourth row was taken for rows of four steps each, or for a sync a row."""
    row, noise = np.arange(80), np.random.default_rng(1).normal(0.0, 0.03, (2, 80))
    table = pandas.DataFrame({"step": row, "timing_s/step": 62.0 + noise[0], "timing_s/gen": 17.0 - noise[0]})
    table["timing_s/timing_s/param_sync"], table["rollout_corr/k3_kl"] = (
        np.where(row % 4 == 3, 4.0, 0.0),
        0.0145 + 0.01 * noise[1],
    )
    table["critic/rewards/mean"] = 0.6 - 0.3 * np.exp(-row / 25.0) + noise[0]
    table["response_length/mean"], table["response_length/max"] = 1800.0 + noise[0], 8192.0
    table["response_length/clip_ratio"] = 0.014
    own = {"machines": 8, "slots_per_machine": 16, "prompts_per_batch": 16, "samples_per_prompt": 8}
    own |= {"staleness_limit": 1, "tokens_per_second": 32}
    single = sim.calibrate(table, "verl", **own)
    assert single.fields["publish_every"] == 4 and single.fields["sync_seconds"] == pytest.approx(4.0)
    assert single.measured["seconds"].value == pytest.approx(62.0, rel=0.01)
    refused("publish_every = 1: must be 4, as in the log", sim.calibrate, table, "verl", publish_every=1, **own)
    # A log that begins later has no fresh step, so its floor may be 0; 24 rows have 6 syncs.
    late = sim.calibrate(table[40:64].rename(columns={"step": "Step"}), "verl", **own)
    assert late.measured["sync_seconds"].steps == 6 and late.drift["kl_k3"].ranges()[0][0] == 0.0
    # Two steps after a sync, by the rows that took one; W&B's numbers alone would say another place.
    aged = {"staleness_mean": 1.0 - (row % 4) / 4.0, "kl_k3": 0.0145 + 0.0 * row}
    found = table.drop(columns="rollout_corr/k3_kl").assign(**aged)[42:].rename(columns={"step": "Step"})
    assert sim.calibrate(found, "verl", **own).drift["kl_k3"].seen == pytest.approx(3.8, abs=0.1)
    refused("must be known", sim.calibrate, table[:1].rename(columns={"step": "Step"}), "verl", **own)
    assert "training steps, tokens are" in str(sim.forecast(single, publish_every=1)).replace("\n", " ")
    merged = table.groupby(row // 4).mean()
    seconds = [name for name in table if name.startswith("timing_s/")]
    merged[seconds] *= 4.0
    four = sim.calibrate(merged, "verl", publish_every=4, **own)
    assert four.measured["seconds"].value == pytest.approx(62.0, rel=0.01)
    # verl's own count of updates tells how many a row has, and the headline has the seconds of both.
    counted = sim.calibrate(
        merged.drop(columns="step").assign(**{"training/global_step": 4 * np.arange(1, 21)}), "verl", **own
    )
    assert counted.fields["publish_every"] == 4 and not single.rows
    assert ": 248 s per row, 62 s per update" in counted.rows
    assert "and publish_every=4" in four.rows
    for one in (single, four):
        drift = one.drift["kl_k3"]
        assert drift.steps == 80 and drift.learns * 80 > 1.0
        assert "learns so fast" in sim.forecast(one).line("k3").forecasts[0].why
    # Planted: every row a sync, as before, and rows of four steps counted as single ones.
    with monkeypatch.context() as patch:
        patch.setattr(calibrating.Read, "rows_of_sync", 1)
        refused("tokens_per_second = 32.0", sim.calibrate, table, "verl", publish_every=4, **own)
    monkeypatch.setattr(calibrating.Read, "batches_of", lambda self, known: 1)
    assert sim.calibrate(merged, "verl", publish_every=4, **own).drift["kl_k3"].steps == 20


def test_the_guide_states_the_coverage_of_its_tables():
    """Sums over the rows of live runs, and over those of the policy that learns slowly."""
    text, tables = PAGE.read_text(encoding="utf-8"), ACCURACY.read_text(encoding="utf-8")

    def held(rows, columns):
        counts = [re.findall(r"(\d+) of (\d+)", line) for line in tables.splitlines() if re.match(rows, line)]
        return [sum(int(row[k][end]) for row in counts for k in columns) for end in (0, 1)]

    for words, rows, columns in (
        ("seconds and staleness | independent live runs", r"\| (seconds per|staleness).*\| 0 of 60 \|", [3]),
        ("token ESS and k3 | independent live runs", r"\| (token ESS|k3) .*\| 2[478] of 60 \|", [3]),
        ("token ESS and k3 | simulated systems used to develop the forecast", r"\| token.* slowly", [0, 1, 2]),
    ):
        inside, bands = held(rows, columns)
        share = f"{100 * inside / bands:.0f} % ({inside} of {bands})"
        assert f"| {words} | {share} |" in text and f"({inside} of {bands})" in tables
    # The pause behind idle slots was developed on some of these runs.
    inside, bands = held(r"\| (seconds|staleness|token|k3|outside).* of 60 \|", [3])
    assert f"In {inside} of {bands} independent tests on live runs" in text
    assert f"{100 * inside / bands:.0f} % of the bands held ({inside} of {bands})" in tables


def test_published_seconds_of_other_limits_are_forecast(monkeypatch):
    found = published.swept()
    for key, seconds in published.SWEEP.items():
        # A tenth of a second is the last digit of what was published.
        assert (
            found[key] == pytest.approx(seconds, rel=0.05) if key[2] else found[key] == pytest.approx(seconds, abs=0.05)
        )
        assert f"| {seconds} s | {found[key]:.1f} s |" in ACCURACY.read_text(encoding="utf-8")
    # A model that does not know the limit misses by a third and more.
    windowed = sim.systems.nemo_rl_windowed
    monkeypatch.setattr(sim.systems, "nemo_rl_windowed", lambda batch, _, **more: windowed(batch, 0, **more))
    assert published.swept()[16, 16, 1] > 1.3 * published.SWEEP[16, 16, 1]


@pytest.mark.rows
def test_published_thresholds_are_forecast_from_the_first_two():
    text = ACCURACY.read_text(encoding="utf-8")
    for threshold, seconds in published.forecast(published.SLOTS[0]).items():
        assert seconds == pytest.approx(published.VERL[threshold][0], rel=0.05)
        row = f"| {threshold:g} | {published.VERL[threshold][0]:.0f} s |"
        assert any(f"{row} {seconds + rounding:.0f} s |" in text for rounding in (-0.3, 0.0, 0.3))


def test_training_times_of_batches_that_did_not_wait_are_bounds():
    """4,000 times of mean 1 (sd 0.3), of which half are only known to be below a bound: standard error about 0.007.

    Planted: the mean of those that are known is 0.1 too long.
    """
    random = np.random.default_rng(4)
    time, bound = random.gamma(11.0, 1 / 11.0, 4000), random.gamma(20.0, 1 / 20.0, 4000)
    known = time > bound
    naive = time[known].mean()
    found = naive * calibrating.censored(np.maximum(time, bound), known)
    assert found == pytest.approx(1.0, abs=0.04) and naive > 1.1
    assert calibrating.censored(time, np.ones(4000, dtype=bool)) == pytest.approx(1.0)


def test_a_drift_that_wanders_widens_its_band_and_is_not_told_where_it_falls_fast():
    """The same log with a level that is steady, a random walk, and falls by a factor of ten."""
    random, s = np.random.default_rng(6), np.concatenate([np.zeros(4), np.full(96, 2.0)])
    v, n = 0.01 + 0.01 * s, np.arange(100)
    noise = 1 + 0.05 * random.normal(size=100)
    share = np.array([0.0, 0.0, 1.0])
    draws = [forecasting.Drawn({"staleness": 2.0}, share)] * 32

    def band(level):
        drift = drifts.fitted(v * noise * level, s, s**2, "x")
        return forecasting._over(draws, drift, drifts.GAUGES["kl_k3"].back, 100, 0, np.inf, False)

    steady, walk, fallen = band(np.ones(100)), band(1 + 0.3 * np.sin(n / 25)), band(np.exp(-n / 43.0))
    assert steady.high - steady.low < 0.004 and walk.high - walk.low > 3 * (steady.high - steady.low)
    assert fallen.value is None and "changed during the log" in fallen.why


def test_a_policy_that_learns_fast_is_told_by_its_reward(columns):
    """Rewards of noise sd 0.1 per step, steady or rising by 0.004 per step: a standard error of 0.0003.

    Of steady runs 5 % have a trend, and none of 200 one that is 1 standard deviation of a prompt's until then.
    """
    random = np.random.default_rng(3)
    steady = [drifts.learning(0.5 + 0.1 * random.normal(size=100), 8) for _ in range(200)]
    assert 2 <= np.count_nonzero(steady) <= 20 and max(steady) * 100 < forecasting.LEARNED

    def band(reward):
        made = sim.calibrate({**columns, "reward": reward}, "areal", **given(SYSTEM))
        return sim.forecast(made).line("k3").forecasts[0], made.notes

    noise = 0.1 * random.normal(size=len(columns["step"]))
    (held, notes), (learnt, _) = band(0.5 + noise), band(0.1 + 0.004 * np.arange(len(noise)) + noise)
    assert held.value is not None and "the policy learns" in learnt.why
    assert not any("no reward" in note for note in notes)
    assert any("no reward" in note for note in sim.calibrate(columns, "areal", **given(SYSTEM)).notes)


def test_steps_count_alike_as_in_logs():
    """Shares of staleness have the mean of the steps' means. Planted: of all tokens, 5 % higher at two a step."""
    few = {"prompts_per_batch": 2, "samples_per_prompt": 1, "machines": 6, "slots_per_machine": 1}
    known = advising.read({**SYSTEM, **few, "tokens_per_second": 500, "train_seconds": 1.0}, Path())
    made, _ = advising.system_of(known, 2, 6, known["partial_rollouts"][0])
    numbers, found = advising.measure(made, 400, 1, 0, 0)
    mean = found.cells @ np.arange(len(found.cells))
    assert mean == pytest.approx(found.moments[found.warm :, 0].mean(), rel=1e-12)
    assert numbers["staleness"] > 1.05 * mean


def test_terms_that_stand_for_each_other_keep_their_sum():
    """Errors of 1 in each of two terms and of 0.01 in their sum: 2,000 draws leave a standard error of 0.0003.

    Planted: terms that are cut at 0 one by one add 0.5 and more.
    """
    fit = drifts.Fit(np.array([0.5, 0.5, 0.0]), np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0]]) + 5e-5 * np.eye(3), 1e6)
    random = np.random.default_rng(0)
    drawn = np.array([fit.drawn(random) for _ in range(2000)])
    assert drawn.min() >= 0.0 and drawn.sum(1).mean() == pytest.approx(1.0, abs=2e-3)
    cut = np.maximum(np.random.default_rng(0).multivariate_normal(fit.values, fit.covariance, 2000), 0.0)
    assert cut.sum(1).mean() > 1.2


def test_lengths_beyond_the_log_may_come():
    """Of 200 log-normal lengths the longest is about 400; draws of a forecast have longer ones, of cut lengths none."""
    random = np.random.default_rng(1)
    drawn = np.exp(4.0 + 0.6 * random.normal(size=200))
    assert forecasting.smooth(laws.empirical(drawn)) and not forecasting.smooth(laws.empirical(np.minimum(drawn, 60.0)))
    assert not forecasting.smooth(laws.empirical([60.0] * 30)) and not forecasting.smooth(laws.lognormal(60.0, 0.6))


def test_training_that_overlaps_generation_is_read_from_its_own_column(columns):
    """A step that leaves less than its own training is named; a mapped column of training is used."""
    long = changed(columns, update=0.0 * columns["seconds_step"] + 1.01 * columns["seconds_step"].mean())
    long["update"] = 0.5 * columns["seconds_step"] + 0.5 * (columns["seconds_step"] - columns["seconds_wait"])
    made = sim.calibrate(long, "areal", columns="seconds_train=update", **given(SYSTEM))
    assert made.measured["train_seconds"].column == "update"
    (note,) = (each for each in made.notes if each.startswith("train_seconds "))
    assert "generation runs during training" in note
    logged = {"timing_s/update_actor" if name == "update" else name: each for name, each in long.items()}
    assert any("timing_s/update_actor" in each for each in sim.calibrate(logged, "areal", **given(SYSTEM)).notes)
