"""`check_advantage`: its oracle against enumeration, right advantages in every layout, and each mistake by name."""

import itertools
import math
import statistics

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim.conformance import _advantage_catalogue as catalogue
from asyncsim.conformance import check_advantage
from tests.conformance.written_advantages import PLANTED, RIGHT, TARGETS, TIME, made

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


@pytest.mark.parametrize(("name", "text", "change"), PLANTED + TARGETS)
def test_every_mistake_is_named(name, text, change):
    report = check_advantage(made(text, *change))
    assert report.bugs == (name,), report
    assert not report.conforms
    assert check_advantage(made(text, *change), allow=[name]).conforms
