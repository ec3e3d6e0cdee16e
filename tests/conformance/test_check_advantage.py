"""`check_advantage`: its oracle against enumeration, right advantages in every layout, and each mistake by name."""

import itertools
import math
import statistics

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim.conformance import ConformanceError, check_advantage
from asyncsim.conformance import _advantage_catalogue as catalogue
from asyncsim.conformance.advantages import NAMES, Subject
from tests.conformance.written_advantages import IMPALA, PLANTED, RIGHT, TARGETS, TIME, made
from tests.refusals import refused

GAMMA, LAM = 0.9, 0.7
CASES = catalogue.trace_cases(3, masked=False, ends=True, cuts=True)


def steps_ahead(case, i, t, k):
    """Rewards of k steps and the value behind them, as far as the episode goes, minus the value: `A^(k)`."""
    total = 0.0
    for n in range(k):
        total += GAMMA**n * case.rewards[i, t + n]
        last = t + n + 1 == catalogue.STEPS
        if case.ended[i, t + n]:
            return total - case.values[i, t]
        if case.cut[i, t + n] or last or n == k - 1:
            behind = case.behind[i, t + n]
            return total + GAMMA ** (n + 1) * behind - case.values[i, t]
    raise AssertionError


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_oracle_mixes_advantages_of_k_steps(case):
    found = catalogue.traced(case, {"gamma": GAMMA, "lam": LAM, "behind": "own"})
    for i, t in itertools.product(range(catalogue.ROWS), range(catalogue.STEPS)):
        far = 400
        mixed = (1 - LAM) * sum(LAM ** (k - 1) * steps_ahead(case, i, t, min(k, 6 - t)) for k in range(1, far))
        assert math.isclose(found[i, t], mixed, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("case", CASES[1:], ids=lambda case: case.name)
def test_the_oracle_of_v_trace_is_the_sum_of_its_definition(case):
    options = {"gamma": GAMMA, "rho": ("ratio", 1.3), "c": ("ratio", 0.8), "pg": ("ratio", 1.6)}
    found = catalogue.traced(case, {**options, "form": "targets"})
    for i in range(catalogue.ROWS):
        weight = np.exp(case.log_ratio[i])
        for s in range(catalogue.STEPS):
            total, product = case.values[i, s], 1.0
            for t in range(s, catalogue.STEPS):
                after = 0.0 if case.ended[i, t] else case.behind[i, t]
                delta = min(1.3, weight[t]) * (case.rewards[i, t] + GAMMA * after - case.values[i, t])
                total += GAMMA ** (t - s) * product * delta
                product *= min(0.8, weight[t])
                if case.ended[i, t]:
                    break
            assert math.isclose(found[i, s], total, rel_tol=1e-9, abs_tol=1e-9)


def test_the_oracle_of_groups_is_textbook():
    for case in catalogue.group_cases(3, ids=True, kept=False, steps=1, unequal=True):
        reward = case.rewards[:, 0].tolist()
        found = catalogue.grouped(case, {"scale": "group"})[:, 0]
        alone = catalogue.grouped(case, {"center": "others"})[:, 0]
        for i, one in enumerate(case.group):
            own = [x for x, g in zip(reward, case.group, strict=True) if g == one]
            others = [x for j, x in enumerate(reward) if case.group[j] == one and j != i]
            assert math.isclose(found[i], (reward[i] - statistics.fmean(own)) / statistics.stdev(own), rel_tol=1e-9)
            assert math.isclose(alone[i], reward[i] - statistics.fmean(others), rel_tol=1e-9)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in RIGHT.items() for text in texts])
def test_what_is_right_conforms(name, text):
    report = check_advantage(made(text))
    assert report.conforms, report
    assert report.name == name
    assert report.same == ()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    layout=st.sampled_from(["rows", "time", "row"]),
    library=st.sampled_from(["numpy", "torch", "float32"]),
    flag=st.sampled_from(["dones", "not_done", "episode_starts"]),
    longer=st.booleans(),
    both=st.booleans(),
    seed=st.integers(0, 50),
)
def test_what_is_right_conforms_in_every_layout(layout, library, flag, longer, both, seed):
    gae = made(TIME)

    def core(rewards, values, flags, behind, gamma, lam):
        number = np.float32 if library == "float32" else float
        rewards, values, flags = (np.asarray(x, number) for x in (rewards, values, flags))
        if layout == "rows":
            rewards, values, flags = rewards.T, values.T, flags.T
        values, last = (values[:-1], values[-1]) if longer else (values, np.asarray(behind[0], number))
        flags = 1 - flags if flag == "not_done" else flags
        # The flag of the step behind the last one stands beside those of first steps.
        flags = np.concatenate([flags[1:], np.asarray(behind[-1], number)[None]]) if "starts" in flag else flags
        out = gae(rewards, values, flags, last, gamma, lam)
        out = out.T if layout == "rows" else out
        out = torch.from_numpy(np.ascontiguousarray(out)) if library == "torch" else out
        return {"advantages": out, "returns": out} if both else out

    also = ["bootstrap_value"] * (not longer) + ["last_done"] * ("starts" in flag)
    names = ", ".join(["rewards", "values", flag, *also, "gamma", "gae_lambda"])
    text = f"lambda {names}: core(rewards, values, {flag}, [{', '.join(also)}], gamma, gae_lambda)"
    report = check_advantage(eval(text, {"core": core}), seed=seed)
    assert report.conforms, report
    assert report.name == "gae"


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    text=st.sampled_from([text for texts in RIGHT.values() for text in texts]),
    place=st.integers(0, 100),
    size=st.floats(0.01, 3.0),
    seed=st.integers(0, 20),
)
def test_what_is_wrong_at_one_place_is_never_right(text, place, size, seed):
    right = made(text)
    names = right.__code__.co_varnames[: right.__code__.co_argcount]

    def wrong(arguments):
        found = right(**arguments)
        found = list(found) if isinstance(found, tuple) else [found]
        for one in found:
            # On generated tokens, by a share of the largest number there.
            shown = np.flatnonzero(arguments.get("response_mask", np.ones(one.shape)))
            one.flat[shown[place % len(shown)]] += size * np.abs(one.flat[shown]).max()
        return tuple(found) if len(found) > 1 else found[0]

    asked = eval(f"lambda {', '.join(names)}: wrong(dict(locals()))", {"wrong": wrong})
    report = check_advantage(asked, seed=seed)
    assert not report.conforms and report.name == "unknown", report


@pytest.mark.parametrize(("name", "text", "change"), PLANTED + TARGETS)
def test_every_mistake_is_named(name, text, change):
    report = check_advantage(made(text, *change))
    assert report.bugs == (name,), report
    assert not report.conforms
    assert check_advantage(made(text, *change), allow=[name]).conforms


ARGUMENTS = {
    "ends": lambda rewards, values, dones, last_value, gamma, lam: None,
    "limits": lambda rewards, values, next_values, terminated, truncated, gamma, lam: None,
    "tokens": lambda rewards, values, mask, gamma, lam: None,
    "v_trace": lambda log_rhos, rewards, values, dones, last_value, gamma, rho_bar, c_bar: None,
    "groups": lambda rewards, group_ids, keep: None,
}
SILENT = {
    # On which batches a mistake changes no number; on all others it changes one.
    "dones one slot late": {"no episode ends"},
    "dones one slot early": {"no episode ends"},
    "trace runs over the end of an episode": {"no episode ends"},
    "ends of episodes ignored": {"no episode ends"},
    "bootstraps from the next episode": {"no episode ends"},
    "termination treated as truncation": {"no episode ends"},
    "end at the last step ignored": {"no episode ends", "episodes end inside", "a time limit cuts episodes off"},
    "padding counted": {"full rows"},
}
CUTS = {"truncation treated as termination", "truncation ignored", "value of the next episode at a cut"}
AMBIGUOUS = {
    ("v_trace, bound of the trace is rho's", "v_trace_corrections, bound of the trace is rho's"),
    ("v_trace, ratio not truncated", "v_trace_corrections, ratio not truncated"),
    ("v_trace, value in place of the target", "v_trace_corrections, trace missing"),
}
"""What two mistakes share in every number: a report says so under `same`."""


def entries(kind, many):
    subject = Subject(ARGUMENTS[kind], None, None, None)
    base = subject.base(("numpy", "float", "rows", "same"))
    every = catalogue.entries(subject.family, base, subject.every, many)
    return [one for one in every if not one.options.get("whiten")], subject.cases(0)


def apart(one, other, case):
    x, y = one.value(case)[case.mask], other.value(case)[case.mask]
    return np.abs(x - y).max() > 1e-4 * np.abs(y).max()


@pytest.mark.parametrize("kind", ["ends", "limits", "tokens"])
def test_the_table_of_mistakes_and_batches(kind):
    right = {one.name: one for one in entries(kind, 0)[0]}
    wrong, cases = entries(kind, 1)
    assert wrong
    for one in wrong:
        name = one.mistakes[0].name
        silent = {case.name for case in cases if not apart(one, right[one.name], case)}
        every = {case.name for case in cases}
        allowed = every - {"a time limit cuts episodes off"} if name in CUTS else SILENT.get(name, set()) & every
        assert silent == allowed, name


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_what_cannot_be_told_apart_is_stated(kind):
    right, cases = entries(kind, 0)
    wrong = [one for one in entries(kind, 1)[0] if all(any(apart(one, r, c) for c in cases) for r in right)]
    pairs = itertools.combinations([*right, *wrong], 2)
    alike = {(a.label, b.label) for a, b in pairs if a.label != b.label and not any(apart(a, b, c) for c in cases)}
    assert alike == {pair for pair in AMBIGUOUS if kind == "v_trace"}


def test_what_cannot_be_told_apart_is_said():
    report = check_advantage(made(IMPALA, "np.minimum(np.exp(log_rhos), rho_bar)", "np.exp(log_rhos)"), key=1)
    assert "v_trace_corrections, ratio not truncated" not in report.same
    change = ("rho * (rewards + going * later", "rho * (rewards + going * after")
    report = check_advantage(made(IMPALA, *change), key=1)
    assert report.same == ("v_trace_corrections, trace missing",)
    assert "same numbers: v_trace_corrections, trace missing" in str(report)


def test_gae_of_stable_baselines3():
    buffers = pytest.importorskip("stable_baselines3.common.buffers")
    spaces = pytest.importorskip("gymnasium.spaces")

    def asked(rewards, values, episode_starts, last_values, last_done, gamma, gae_lambda):
        steps, environments = rewards.shape
        space = spaces.Box(-1.0, 1.0, (1,))
        buffer = buffers.RolloutBuffer(steps, space, space, "cpu", gae_lambda, gamma, environments)
        buffer.rewards, buffer.values, buffer.episode_starts = (
            np.float32(x) for x in (rewards, values, episode_starts)
        )
        buffer.compute_returns_and_advantage(torch.as_tensor(last_values, dtype=torch.float32), np.asarray(last_done))
        return {"advantages": buffer.advantages, "returns": buffer.returns}

    report = check_advantage(asked, like="gae", layout="time")
    assert report.conforms, report
    assert check_advantage(asked, like="lambda_returns", layout="time", key="returns").conforms
    # The flags of the step behind are those of first steps: handed over as ends they come late.
    late = check_advantage(lambda rewards, values, dones, last_values, gamma, lam: asked(
        rewards, values, dones, last_values, dones[-1], gamma, lam
    ), layout="time")  # fmt: skip
    assert late.bugs == ("dones one slot early",)


def test_gae_and_v_trace_of_torchrl():
    functional = pytest.importorskip("torchrl.objectives.value.functional")

    def columns(*tensors):
        return [x.unsqueeze(-1) for x in tensors]

    def gae(rewards, values, next_values, terminated, truncated, gamma, lam):
        terminated, truncated = terminated > 0, truncated > 0
        each = columns(values, next_values, rewards, terminated | truncated, terminated)
        return tuple(x.squeeze(-1) for x in functional.generalized_advantage_estimate(gamma, lam, *each))

    def v_trace(log_pi, log_mu, values, next_values, rewards, terminated, truncated, gamma, rho_thresh, c_thresh):
        terminated, truncated = terminated > 0, truncated > 0
        each = columns(log_pi, log_mu, values, next_values, rewards, terminated | truncated, terminated)
        found = functional.vtrace_advantage_estimate(gamma, *each, rho_thresh=rho_thresh, c_thresh=c_thresh)
        return tuple(x.squeeze(-1) for x in found)

    report = check_advantage(gae, layout="rows")
    assert (report.conforms, report.name) == (True, "gae"), report
    report = check_advantage(v_trace, layout="rows")
    assert (report.conforms, report.name) == (True, "v_trace"), report
    targets = check_advantage(v_trace, layout="rows", key=1)
    assert (targets.conforms, targets.name) == (True, "v_trace_targets"), targets


def test_groups_of_trl():
    utils = pytest.importorskip("trl.trainer.utils")

    def scaled(rewards, num_generations):
        table = rewards.view(-1, num_generations)
        deviation = utils.nanstd(table, dim=1).repeat_interleave(num_generations)
        return (rewards - table.nanmean(1).repeat_interleave(num_generations)) / (deviation + 1e-4)

    report = check_advantage(scaled, strict=True)
    assert (report.conforms, report.name) == (True, "group_std"), report


def test_uids_in_a_dictionary():
    """Ids reach a dictionary as numbers: tensors would each be a key of their own."""

    def leave_one_out(token_level_rewards, response_mask, index, epsilon=1e-6, config=None, **kwargs):
        scores, found = token_level_rewards.sum(-1), {}
        for uid, score in zip(index, scores, strict=True):
            found.setdefault(uid, []).append(score)
        each = [s - (sum(found[u]) - s) / max(len(found[u]) - 1, 1) for u, s in zip(index, scores, strict=True)]
        return torch.stack(each).unsqueeze(-1) * response_mask, scores

    report = check_advantage(leave_one_out)
    assert (report.conforms, report.name) == (True, "leave_one_out"), report


def test_what_stands_behind_the_mask():
    assert not check_advantage(made(RIGHT["gae"][3])).shows("NaN on padding")

    def product(rewards, values, mask, gamma, lam):
        return made(RIGHT["gae"][3])(rewards * mask, values * mask, 0 * mask + 1, gamma, lam)

    report = check_advantage(product)
    assert report.conforms, report
    assert report.shows("NaN on padding") and "masked tokens inside a row" in str(report)


def test_constants_inside_the_function():
    fixed = made(TIME.replace("last_value, gamma, lam):", "last_value):\n    gamma, lam = 0.99, 0.95"))
    assert check_advantage(fixed, gamma=0.99, lam=0.95).conforms
    assert not check_advantage(fixed).conforms
    monte_carlo = made(TIME.replace(", gamma, lam)", ", gamma)").replace("gamma * lam", "gamma"))
    assert check_advantage(monte_carlo).name == "monte_carlo"
    assert check_advantage(monte_carlo, lam=1.0).name == "gae"


def test_inputs_changed_in_place():
    def greedy(rewards, group_ids):
        for one in np.unique(group_ids):
            rewards[group_ids == one] -= rewards[group_ids == one].mean()
        return rewards

    assert check_advantage(greedy).bugs == ("inputs changed in place",)


def test_what_it_is_not():
    assert check_advantage(made(RIGHT["gae"][0]), like="gae-whitened").difference
    unknown = check_advantage(lambda rewards, group_ids: rewards**3)
    assert (unknown.name, unknown.conforms) == ("unknown", False)
    assert "nearest" in str(unknown)
    with pytest.raises(ConformanceError):
        check_advantage(lambda rewards, group_ids: rewards**3, check=True)


REFUSED = {
    "one of rewards": lambda: check_advantage(lambda values, gamma: values),
    "a name that says what it is": lambda: check_advantage(lambda rewards, zeta: rewards),
    "runs on small batches": lambda: check_advantage(lambda rewards, gamma: rewards["x"]),
    "the shape of rewards is": lambda: check_advantage(lambda rewards, gamma: 3.0),
    "must be one of": lambda: check_advantage(made(TIME), like="gea"),
    "with these arguments": lambda: check_advantage(made(TIME), like="v_trace"),
    "say what dones": lambda: check_advantage(made(TIME), dones="later"),
    "say how arrays lie": lambda: check_advantage(made(TIME), layout="columns"),
    "name one of what": lambda: check_advantage(made(RIGHT["gae"][1]), key=2),
    "name findings": lambda: check_advantage(made(TIME), allow=["anything"]),
    "whose arguments have names": lambda: check_advantage(3),
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_input_is_refused_in_one_line(words):
    refused(words, REFUSED[words])


def test_every_mistake_of_the_catalogue_is_planted():
    planted = {name for name, *_ in PLANTED + TARGETS}
    edges = {"NaN for a group of one", "NaN on padding", "inputs changed in place"}
    assert set(NAMES) - edges == planted


def test_masks_beside_a_value_behind_say_that_the_episode_goes_on():
    gae = made(TIME)
    report = check_advantage(lambda rewards, value_preds, masks, next_value, gamma, gae_lambda: gae(
        rewards, value_preds, 1 - masks, next_value, gamma, gae_lambda
    ))  # fmt: skip
    assert report.conforms and "masks is going" in str(report)


def test_a_wrong_shape_is_told_with_the_one_that_is_wanted():
    """Even of a function that runs in torch alone, whose error in numpy is no mistake of its own."""

    def one_number(rewards, group_ids):
        return (rewards - rewards.mean()).view(-1)[:3]

    words = r"shape \(3,\) was returned, and the shape of rewards is \(12,\)"
    error = refused(words, check_advantage, one_number)
    assert "ndarray" not in str(error)
