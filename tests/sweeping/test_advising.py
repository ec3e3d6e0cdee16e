"""Advice on a staleness limit: closed forms of seconds, the knee, speeds that are shared, and what is refused."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.app import timelines
from asyncsim.base import plugins
from asyncsim.base.advice import mean_interval
from asyncsim.base.checks import InputError, RunWarning
from asyncsim.sweeping import advising
from asyncsim.sweeping.advising import FIELDS, TRAINERS, advise, pooled
from asyncsim.systems import _summary
from tests.refusals import refused

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "which-limit.md"
# Four prompts of 300 tokens at 30 per second take 10 s, a batch trains for 8 s; eight slots.
SYSTEM = {
    "trainer": "areal",
    "slots_per_machine": 8,
    "tokens_per_second": 30,
    "response_lengths": 300,
    "prompts_per_batch": 4,
    "samples_per_prompt": 1,
    "train_seconds": 8,
    "staleness_limit": [0, 1, 2, 4],
}


def test_seconds_are_those_of_the_closed_form():
    """K = 4 (limit + 1) permits: one after the other 10 + 8 s; 8 permits in a cycle of 18 s make a batch in 9 s.
    With 12 the eight slots make a batch in 5 s, and the trainer takes 8. Slot-hours: 8 x 1,000 x seconds / 3,600."""
    advice = advise(SYSTEM, updates=40, realizations=2)
    seconds = [each.mean("seconds") for each in advice.curve()]
    assert seconds == pytest.approx([18.0, 9.0, 8.0, 8.0], rel=1e-9)
    assert advice.knee.limit == 2 and advice.between == (1, 2) and not advice.gaps
    # Limit 2 is the knee; where it is not tried, the interval still holds it, and the answer asks for it.
    coarse = advise(SYSTEM | {"staleness_limit": [1, 4]}, updates=40, realizations=2)
    assert coarse.knee.limit == 4 and coarse.reach == "95 %: above 1, at most 4"
    narrow = "To narrow the 95 % interval of the recommended max_head_offpolicyness, add --set staleness_limit={}"
    assert coarse.gaps == narrow.format("1,2,4") and coarse.gaps in " ".join(str(coarse).split())
    fast = advise(SYSTEM | {"staleness_limit": [4, 8]}, updates=40, realizations=2)
    assert fast.reach == "95 %: at most 4" and fast.gaps == narrow.format("0,4,8")
    assert advice.knee.slot_hours == pytest.approx(8 * 8.0 * 1000 / 3600)
    # Slots write 4 x 300 tokens of a batch; the staleness of an unbound cap is what its permits let wait.
    assert [each.mean("tokens") for each in advice.curve()] == pytest.approx([1200 / s for s in seconds])
    assert [each.mean("generator_idle_seconds") for each in advice.curve()] == pytest.approx([s - 5 for s in seconds])
    assert [each.mean("trainer_idle_seconds") for each in advice.curve()] == pytest.approx([s - 8 for s in seconds])
    assert advice.standstill == (
        "Per update, the trainer waits 0 s [0, 0] and a generator slot waits 3 s [3, 3]. "
        "The bottleneck is the trainer side."
    )
    for own, cause in (
        ({"staleness_limit": [0]}, ", since the longest response of a batch takes 10 s on average, on any number"),
        ({"prompts_at_once": 3, "staleness_limit": [4]}, ", since prompts_at_once=3 limits: a prompt takes 10 s on"),
        ({"staleness_limit": [0], "model": {"reward": "constant:60"}}, "."),
    ):
        standstill = advise(SYSTEM | own, updates=40, realizations=2).standstill
        assert f"Each side waits for the other{cause}" in standstill
    # A response is written from a publish on for 10 s; what comes behind the next publish is one version fresher.
    tokens = [limit - max(0.0, 10 - s) / 10 for limit, s in zip([0, 1, 2, 4], seconds, strict=True)]
    assert [each.mean("staleness") for each in advice.curve()] == pytest.approx(tokens)
    assert [each.p99.value for each in advice.curve()] == [0, 1, 2, 4]
    # The knee follows the loss that is allowed: 9 s are 12.5 % more than 8.
    assert advise(SYSTEM, share=0.13, updates=40, realizations=2).knee.limit == 1
    assert advise(SYSTEM, share=0.12, updates=40, realizations=2).knee.limit == 2


def test_more_machines_and_a_slower_sync_bring_what_arithmetic_says():
    """One slot a machine; 4 of them write a batch in 10 s and bind; 8 write two, and the trainer takes 8 + 1 s."""
    system = {**SYSTEM, "machines": [4, 8], "slots_per_machine": 1, "sync_seconds": 1.0, "staleness_limit": [4]}
    now, more = advise(system, updates=40, realizations=2).settings
    # Generators pause for the second of a sync; between the ends of 30 batches, and the last install, are 31 syncs.
    assert (now.mean("seconds"), more.mean("seconds")) == pytest.approx((11.0 + 1 / 30, 9.0 + 1 / 30))
    advice = advise(system, updates=40, realizations=2)
    gains = "With 8 machines, at the same limit of 4: -2 s per update [-2, -2]; +7.81 slot-hours ["
    assert f"{(8 * (9 + 1 / 30) - 4 * (11 + 1 / 30)) / 3.6:.3g}" in gains
    assert (now.slots, more.slots) == (4, 8) and advice.gains()[0].startswith(gains)
    # The slots stand still for the sync alone, and the trainer for 2 s besides; it says who is slower.
    assert advice.standstill.endswith("of which the sync takes 1 s. The bottleneck is the generator side.")
    assert now.mean("generator_idle_seconds") == pytest.approx(1 + 1 / 30) and now.mean("sync_seconds") == 1


def test_staleness_of_tokens_is_that_after_the_groups_that_wait_are_as_many_as_they_become(monkeypatch):
    """Generation is a fifth faster than training, so it takes 50 batches until all permits wait. Planted: no such wait.

    A limit of 4 batches and one in training: in the long run tokens are 4 versions old.
    """
    near = {"trainer": "verl", "machines": 10, "slots_per_machine": 16, "tokens_per_second": 36, "publish_every": 2}
    near |= {"response_lengths": "lognormal:1400:0.75", "prompts_per_batch": 32, "samples_per_prompt": 8}
    known = advising.read({**near, "train_seconds": 70.0, "sync_seconds": 9.0}, Path())
    made, _ = advising.system_of(known, 4, 10, True)
    short, long = (advising.measure(made, batches, 8, 0, 0)[0]["staleness"] for batches in (100, 600))
    assert short == pytest.approx(long, rel=0.01) and long == pytest.approx(4.0, rel=0.02)
    monkeypatch.setattr(_summary, "fill", lambda *_: 0.0)
    assert advising.measure(made, 100, 8, 0, 0)[0]["staleness"] < 0.95 * long


def test_partial_rollouts_are_compared_at_their_knees():
    """Planted: the limit of today's knee in place of each one's own."""
    system = {**SYSTEM, "trainer": "verl", "response_lengths": "lognormal:300:0.8", "publish_every": 1}
    system["partial_rollouts"] = [True, False]
    advice = advise(system, updates=40, realizations=3)
    drained = advice.curve(partial=False)
    assert [each.limit for each in drained] == [0, 1, 2, 4]
    # At limit 0 nothing runs when weights move, so both are one system, to the bit.
    assert np.array_equal(advice.curve()[0].numbers["seconds"], drained[0].numbers["seconds"])
    assert drained[-1].mean("seconds") > advice.curve()[-1].mean("seconds")
    own = next(each for each in advice.knees() if not each.partial)
    *same, line = advice.gains()
    # At equal limits too: a smaller knee alone makes a faster system look slower.
    for limit, text in zip((advice.knee.limit, own.limit), same, strict=True):
        one, other = (next(each for each in curve if each.limit == limit) for curve in (drained, advice.curve()))
        gap = np.mean(one.numbers["seconds"] - other.numbers["seconds"])
        assert text.startswith(f"With partial rollouts off, at the same limit of {limit:g}: {gap:+.3g} s per update [")
    assert own.limit < advice.knee.limit and line.endswith("] per 1,000 updates.")
    knees = f"with its knee of {own.limit:g} instead of today's knee of {advice.knee.limit:g}: +"
    assert line.startswith(f"With partial rollouts off, {knees}")
    for each, unit in (
        (own.numbers["seconds"] - advice.knee.numbers["seconds"], "s per update"),
        (own.slot_hours - advice.knee.slot_hours, "slot-hours"),
    ):
        mean, low, high = mean_interval(each)
        assert f"{mean:+.3g} {unit} [{low:+.3g}, {high:+.3g}]" in line and low < mean < high
    assert {"limit", "low", "high"} == advice.row()["knee"].keys() and len(advice.row()["settings"]) == 8


def test_every_knee_at_the_end_of_the_limits_is_named_and_drawn():
    """Two slots are busy at once, so that further permits buy nothing; sixteen use them all."""
    system = {**SYSTEM, "machines": [1, 8], "slots_per_machine": 2, "train_seconds": 1, "staleness_limit": [0, 1, 2]}
    advice = advise(system, updates=40, realizations=2)
    few, many = advice.knees()
    assert few.limit < many.limit == 2
    text = " ".join(str(advice).split())
    assert "The knee is the largest limit tried (8 machines): larger limits may be faster." in text
    both = " ".join(str(advise(system | {"staleness_limit": [1]}, updates=40, realizations=2)).split())
    assert "largest limit tried (your present system, 8 machines)" in both
    figure = sim.plot(advice)
    for ax, name in zip(figure.axes, ("seconds", "slot_hours"), strict=False):
        rings = [line.get_xydata().tolist() for line in ax.lines if line.get_fillstyle() == "none"]
        assert rings == [[[each.limit, each.interval(name)[0]]] for each in (few, many)]
    entries = [text.get_text() for text in figure.legends[0].get_texts()]
    assert entries[:2] == ["today: 1 machine", "8 machines"]
    assert figure.get_suptitle() == f"areal: set {advice.knob} to {few.limit:g} ({advice.reach})"
    hours = f"{few.slot_hours.mean():,.0f} slot-hours at {few.limit:g}"
    assert [ax.get_title(loc="left").endswith(hours) for ax in figure.axes] == [False, True, False]


@given(st.integers(1, 5), st.integers(1, 6))
def test_shared_speeds_conserve_what_machines_write(machines, slots):
    """A machine that shares its tokens (r(n) = 1 / n) writes as many whatever runs, so n responses write min(n, m)."""
    rows = range(1, slots + 1)
    speed = pooled(rows, [1.0 / n for n in rows], machines, slots)
    n = np.arange(1, machines * slots + 1)
    written = n if speed is None else n * np.array(speed)
    assert written == pytest.approx(np.minimum(n, machines) if slots > 1 else n)
    assert pooled([1], [30.0], machines, slots) is None


def test_two_responses_beside_each_other_by_hand():
    """Work 1 and 3 at speed 1 alone, 1/2 together: the first ends at 2, the second has 2 left and ends at 4."""
    base = sim.systems.areal(0, 2, 2, length=1.0, train_time=1.0).replace(rates=(1.0, 1.0), work_by="group")
    system = base.replace(length=sim.empirical([1.0, 3.0]), decode=pooled([1, 2], [1.0, 0.5], 1, 2))
    for seed in range(20):
        record = system.timeline(1, 1, seed=seed)
        work, end = (record.samples[name][:2] for name in ("work", "t_end"))
        if sorted(work) == [1.0, 3.0]:
            assert sorted(end) == [2.0, 4.0]
            break
    else:
        raise AssertionError("no seed draws both")
    assert sorted(system.replace(decode=None).timeline(1, 1, seed=seed).samples["t_end"][:2]) == [1.0, 3.0]


def test_full_slots_write_at_the_speed_of_the_table():
    """Eight slots always busy: 20 tokens per second each, 8 x 20 / 300 responses a second, a batch of 4 in 7.5 s."""
    system = {**SYSTEM, "tokens_per_second": {1: 60, 8: 20}, "train_seconds": 1, "staleness_limit": [8]}
    advice = advise(system, updates=60, realizations=2)
    assert advice.knee.mean("seconds") == pytest.approx(7.5, rel=1e-6)
    assert advice.knee.mean("generator_idle") == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_every_trainer_takes_a_description(trainer):
    more = {"trainer": trainer, "samples_per_prompt": 2, "staleness_limit": [1, 2], "response_lengths": "gamma:300:4"}
    text = " ".join(str(advise(SYSTEM | more, updates=12, realizations=2)).split())
    assert "Set " in text and f" {TRAINERS[trainer].limit}=" in text
    # What is assumed of prompts at once is said beside the trainer's own, and not where the owner says it.
    own = TRAINERS[trainer].running.removesuffix("*")
    # Each knob is explained where it is declared, and by the field that sets it: no letters of a formula.
    preset = TRAINERS[trainer].preset
    assert f"`asyncsim list systems {preset}` explains" in text and preset in plugins.listed("asyncsim.systems")
    assert not re.search(r"\b[A-Z]\b", text.partition("Options of")[2].replace("TRL", "")), text
    assert bool(own) == (f"The trainer's own defaults: {own} " in text) == ("set prompts_at_once to" in text)
    if own:
        said = advise(SYSTEM | more | {"prompts_at_once": 4, "publish_every": 1}, updates=12, realizations=2).knee
        assert own in said.knobs and own not in said.defaults and "prompts_at_once" not in said.defaults


@pytest.mark.parametrize(("machines", "at_once", "each"), [(1, 8, 8), (4, 8, 2), (3, 8, 3)])
def test_options_of_replicas_are_those_of_the_users_machines(machines, at_once, each):
    """As pasted, as many prompts run at once as were simulated, up to less than one a replica."""
    own = {"trainer": "verl", "machines": machines, "prompts_at_once": at_once, "staleness_limit": 1}
    knobs = advise(SYSTEM | own, updates=8, realizations=2).knee.knobs
    assert knobs["replicas"] == machines and knobs["concurrent_samples_per_replica"] == each


def test_a_distribution_of_lengths_may_have_a_maximum():
    """No response takes longer than the maximum, and nothing was measured whose mean is uncertain."""
    text = str(advise(SYSTEM | {"response_lengths": "lognormal:300:1:600"}, updates=12, realizations=2))
    assert "responses of 242.8 tokens" in text and "uncertain" not in text and "no maximum" not in text
    text = str(advise(SYSTEM | {"response_lengths": "lognormal:300:1"}, updates=12, realizations=2))
    assert "no maximum" in text and "response_lengths=lognormal:300:1:8192" in " ".join(text.split())


def test_options_of_other_trainers_lead_to_their_field_without_a_list_of_all():
    error = refused(r"staleness_limit\? It is openrlhf's async_queue_size", advise, SYSTEM | {"async_queue_size": 2})
    assert not getattr(error, "__notes__", [])


@pytest.mark.parametrize(
    ("change", "unit"),
    [
        ({"tokens_per_second": 3840}, "a second of one response"),
        ({"train_seconds": 40_000}, "seconds of one training step"),
        ({"sync_seconds": 90}, "seconds of one sync"),
    ],
)
def test_numbers_that_may_have_another_unit_are_asked_about(change, unit):
    with pytest.warns(RunWarning, match=unit):
        advise(SYSTEM | change, updates=12, realizations=2)


def test_colocated_generators_stand_still_while_a_batch_trains():
    """Speeds 1 and 0.4, work 1, 3 s of training. Group 0 ends at 1; group 1 has 0.4 of its work. Both stand still until
    4. Group 2 runs from 4 to 5, where group 1 has 0.8; that ends half a second after the next pause, at 8.5."""
    system = sim.systems.colocated(1, 1, length=1.0, train_time=3.0).replace(rates=(1.0, 0.4))
    record = system.timeline(3, 1)
    assert record.batches["t_start"].tolist() == pytest.approx([1.0, 5.0, 8.5])
    assert record.uses["group"].ravel().tolist() == [0, 2, 1]
    assert system.staleness(3, 1, 0).ravel().tolist() == [0, 0, 2]
    apart = system.replace(colocated=False).timeline(3, 1)
    assert apart.batches["t_start"].tolist() == pytest.approx([1.0, 4.0, 7.0])


def test_a_colocated_batch_that_is_ready_leaves_no_time_for_admission():
    """Four equal groups end together: two train at staleness 0, then at once the other two at 1, and so on. The permits
    that come back between are used after both, so the mean is 1/2 and not K / P - 1 = 1; no formula is claimed."""
    system = sim.systems.colocated(2, 1, length=1.0, train_time=1.0)
    assert system.staleness(6, 1, 0).mean(-1).ravel().tolist() == [0, 1, 0, 1, 0, 1]
    assert sim.claims.predicted_staleness(system.describe_at(1), 1).mean is None
    smooth = system.replace(length=sim.lognormal(1.0, 0.5))
    assert sim.claims.predicted_staleness(smooth.describe_at(1), 1).mean == 1
    assert smooth.staleness(4000, 1, 0)[:, 100:].mean() == pytest.approx(1.0, abs=0.005)


def test_the_latest_is_the_last_to_enter_not_the_last_admitted():
    """Group 0 is written at half the speed and enters last, at 2; groups 1 and 2 enter at 1, and 2 trains until 3."""
    system = sim.systems.fixed_lag(2, 1, length=1.0, train_time=2.0).replace(rates=(0.5, 1.0, 1.0), window=None)
    first = {o: system.replace(order=o).timeline(2, 1).uses["group"].ravel().tolist() for o in ("latest", "freshest")}
    assert first == {"latest": [2, 0], "freshest": [2, 1]}


def test_percentiles_and_intervals_by_hand():
    assert timelines._p99([0.5, 0.48, 0.02]) == 2 and timelines._p99([0.5, 0.49, 0.01]) == 1
    mean, low, high = mean_interval([1.0, 2.0, 3.0])
    assert (mean, high - mean) == pytest.approx((2.0, 4.302653 / 3**0.5), rel=1e-6) and low == pytest.approx(4 - high)
    # Several tests at once have wider intervals.
    assert mean_interval([1.0, 2.0, 3.0], 5)[2] > high


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"trainer": "verll"}, "trainer = 'verll': must be one of verl, areal"),
        ({"slots": 8}, "slots = 8: must be left out beside slots_per_machine"),
        ({"max_tokens": 600}, "lognormal:5000:0.9:16384"),
        ({"token_per_second": 8}, "did you mean tokens_per_second?"),
        ({"train_seconds": None}, "train_seconds"),
        ({"slots_per_machine": 0}, "slots_per_machine = 0: must be an integer >= 1"),
        ({"machines": [4, 4]}, "machines = [4, 4]: must be one value or different ones"),
        ({"machines": 2.5}, "machines = 2.5: must be an integer"),
        ({"tokens_per_second": {0: 3}}, "tokens_per_second row = 0"),
        ({"tokens_per_second": "1500 tok/s"}, "write 1500; speed of one response, which is a machine's over"),
        ({"set": {"machines": [2, 4]}}, "must be a field, not a mapping of fields; write machines=[2, 4]"),
        ({"trainer": "roll", "staleness_limit": 0}, "same machines is trainer='areal', staleness_limit=0"),
        ({"response_lengths": "none.csv:x"}, "response_lengths"),
        ({"response_lengths": [1, 2]}, "response_lengths = [1, 2]"),
        ({"response_lengths": "x.npy"}, "write np.savetxt('x.txt', np.load('x.npy').ravel()), and give x.txt"),
        ({"response_lengths": "x.xlsx:len"}, "a .txt (one number a line), .csv, .jsonl or .parquet file; save a .txt"),
        ({"max_head_offpolicyness": 1}, "did you mean staleness_limit? It is areal's max_head_offpolicyness"),
        (
            {"trainer": "trl", "samples_per_step": 8},
            "did you mean prompts_per_batch? It is trl's samples_per_step over",
        ),
        ({"partial_rollouts": False}, "partial_rollouts = False: must be True for areal"),
        ({"partial_rollouts": "yes"}, "partial_rollouts = 'yes': must be True or False"),
        ({"publish_every": 2}, "publish_every = 2: must be 1; areal syncs after every step"),
        ({"trainer": "openrlhf", "prompts_at_once": 9}, "prompts_at_once = 9: must be unset; openrlhf has no such"),
        ({"staleness_limit": [0.5]}, "staleness_limit (max_head_offpolicyness) = 0.5: must be an integer"),
        ({"staleness_limit": [-1]}, "staleness_limit = -1"),
        ({"model": {"rewards": 1}}, "did you mean reward?"),
        ({"model": 3}, "model = 3: must be a mapping"),
        (
            {"machines": "8:24:4"},
            "machines = '8:24:4': must be values, not a range; write each value, as machines=8,24",
        ),
        ({"staleness_limit": "0:16"}, "write each value, as staleness_limit=0,16"),
        ({"staleness_limit": "none"}, "for no limit one that nothing reaches"),
        ({"n_gpus_generation": 24}, "did you mean machines? A machine may be one GPU"),
    ],
)
def test_a_wrong_field_is_named_with_its_bound(change, words):
    assert words in str(refused("", advise, SYSTEM | change, updates=12, realizations=2))


def test_a_trainers_own_option_is_the_field_that_it_is_and_seconds_may_have_units():
    own = {"max_head_offpolicyness" if n == "staleness_limit" else n: value for n, value in SYSTEM.items()}
    made = advising.read(advising.changed(own | {"train_seconds": "8s"}, {"sync_seconds": "0.1min"}), Path())
    assert made == advising.read(SYSTEM | {"sync_seconds": 6.0}, Path())


@pytest.mark.parametrize("name", [name for name, (usual, _) in FIELDS.items() if usual is ...])
def test_a_missing_field_is_asked_for(name):
    words = rf"system = '{name}': must be given; add each, as NAME: VALUE, or in a shell --set {name}=\S+"
    with pytest.raises(InputError, match=f"{words}\n  {name}: "):
        advise({key: value for key, value in SYSTEM.items() if key != name})


def test_a_table_of_speeds_that_ends_early_is_told():
    table = {1: 30.0, SYSTEM["slots_per_machine"] - 1: 20.0}
    with pytest.warns(
        RunWarning, match="tokens_per_second ends at .* responses at once; 20 is used from there on: add"
    ):
        advise(SYSTEM | {"tokens_per_second": table}, updates=12, realizations=2)


def test_a_calibrated_limit_is_one_of_several_and_settings_change_fields():
    """A log ran at one limit, which alone says nothing of others; a limit that is asked for stays alone."""
    calibrated = {**SYSTEM, "staleness_limit": 5, "measured": {}}
    tried = {each.limit for each in sim.advise(calibrated, updates=10, realizations=2).settings}
    assert tried == {5, *TRAINERS["areal"].limits}
    one = sim.advise(calibrated, updates=10, realizations=2, staleness_limit=2, machines=[1, 2])
    assert {(each.limit, each.machines) for each in one.settings} == {(2, 1), (2, 2)}


def test_numbers_a_line_are_lengths_beside_the_description(tmp_path):
    (tmp_path / "lengths.txt").write_text("100\n500\n")
    (tmp_path / "system.yaml").write_text(
        "\n".join(f"{k}: {v}" for k, v in (SYSTEM | {"response_lengths": "lengths.txt"}).items())
    )
    assert "1 responses of 300 tokens" in advise(tmp_path / "system.yaml", updates=12, realizations=2).about


@pytest.mark.committed
def test_the_page_shows_what_its_command_prints(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from asyncsim.app.cli import app

    monkeypatch.chdir(ROOT)
    text = PAGE.read_text(encoding="utf-8")
    command, *lines = text.split("```console\n")[1].split("```")[0].replace("\\\n", "").rstrip().splitlines()
    words = shlex.split(command.removeprefix("$ asyncsim "))
    at = words.index("--plot")
    picture, words[at + 1] = words[at + 1], str(tmp_path / "picture.png")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and (ROOT / picture).exists()
    assert done.stdout.splitlines()[:-1] == lines[:-1] and lines[-1] == f"plot: {picture}"
    description = text.split("```yaml\n")[1].split("```")[0]
    assert description == (ROOT / "docs/which-limit/system.yaml").read_text(encoding="utf-8")
