"""Rows that a card made, beside those of the CPU at the same settings and seeds."""

import json

import pandas as pd
import pytest

from experiments import _contract

pytestmark = pytest.mark.committed
CARD = _contract.HERE / "gpu" / "nvidia_h200"
SETTINGS = json.loads((CARD / "rows.json").read_text(encoding="utf-8"))["settings"]


def both(name):
    """Values of an experiment's settings that ran on both, side by side."""
    card = pd.concat([pd.DataFrame(each["rows"]) for each in SETTINGS if each["experiment"] == name])
    cpu = pd.concat([pd.read_parquet(part) for part in sorted((_contract.HERE / "results" / name).glob("*.parquet"))])
    on = [column for column in card.columns if column != "value"]
    # A table of one setting has whole numbers where a longer one has floats.
    kinds = {column: "float64" for column in on if pd.api.types.is_numeric_dtype(cpu[column])}
    found = cpu.astype(kinds).merge(card.astype(kinds), on=on, suffixes=("_cpu", "_card"))
    assert len(found) == len(card)
    return found


def test_what_ran():
    counts = pd.Series([each["experiment"] for each in SETTINGS]).value_counts().to_dict()
    assert counts == {"model_losses": 14, "model_ratios": 3, "model_numerics": 3}
    assert {each["accelerator"] for each in SETTINGS} == {"NVIDIA H200"}


def test_statistics_of_ratios_are_those_of_the_cpu():
    rows = both("model_ratios")
    assert (rows.value_card - rows.value_cpu).abs().max() < 1e-3
    means = rows.groupby(["behind", "quantity"])[["value_cpu", "value_card"]].mean()
    assert ((means.value_card - means.value_cpu).abs() < 1e-4 * means.value_cpu.abs().clip(lower=1.0)).all()


def test_return_curves_are_those_of_the_cpu_but_for_a_mask_that_jumps():
    rows = both("model_losses").query("quantity == 'return'")
    gaps = (rows.value_card - rows.value_cpu).abs()
    moved = set(rows[gaps > 0].method)
    assert moved == {"M2PO"} and (rows.value_card - rows.value_cpu)[gaps > 0].mean() < 0.02
    equal = gaps.groupby([rows.rate, rows.staleness, rows.method]).max() == 0
    assert equal.sum() == 12 and len(equal) == 14


def test_a_rounded_sampler_is_as_far_off_as_on_the_cpu():
    """bfloat16 differs by its kernels, int8 only in float32's last digits."""
    rows = both("model_numerics").query("quantity == 'variance'").groupby("sampler")[["value_cpu", "value_card"]].mean()
    share = rows.value_card / rows.value_cpu - 1.0
    assert abs(share["bfloat16"]) < 0.05 and abs(share["int8"]) < 1e-3
