"""Language models under asynchronous training: models and texts of a setting, its run, and rows of its replicates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import asyncsim as sim
from asyncsim.step.batch import Draws
from asyncsim.tasks._language import LanguageTask
from asyncsim.tasks._task import Turn

TINY = {"width": 16, "layers": 1, "heads": 2, "hidden": 32, "context": 40, "steps": 0}
"""A random model for quick rows."""
LONG = {"width": 64, "layers": 2, "hidden": 128, "context": 600, "high": 9, "steps": 80}
"""A small character model with room for long texts, taught sums for a second: it writes at about 1 nat a character."""
SUMS: dict[str, dict[str, Any]] = {
    "char": {"digits": 2, "prompts": 128},
    "smollm2": {"digits": 1, "shots": 4, "style": "spaced", "prompts": 48},
}
"""What either model is asked: sums that it answers right in a third to nine tenths of all cases."""
PROMPTS = {
    "char": tuple(f"{a}+{b}=" for a in range(4) for b in range(4)),
    "smollm2": ("Once upon a time", "The weather today is", "My favorite book", "In the kitchen there was"),
}
MARK = {"char": "13579", "smollm2": "e"}
"""What is paid for in long texts."""


@dataclass(frozen=True)
class Written(LanguageTask):
    """Texts of fixed length, line breaks and all, paid by the share of their characters that are among `marks`."""

    marks: str = "1"

    def step(self, world: Tensor, action: Tensor, token: int, draws: Draws) -> Turn:
        """The text goes on whatever is written."""
        return Turn(world, torch.ones_like(action, dtype=torch.bool))

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        """Share of the marks, `[R, G, N]`."""
        texts = [self.tokenizer.decode(ids) for ids in action.reshape(-1, action.shape[-1]).tolist()]
        shares = [sum(map(text.count, self.marks)) / max(1, len(text)) for text in texts]
        return torch.tensor(shares, dtype=mask.dtype, device=mask.device).reshape(mask.shape[:3])


def task(setting: Mapping[str, Any]) -> LanguageTask:
    """Sums, or texts of `tokens` tokens; four in place of sums, of which random weights would solve none."""
    model = setting["model"]
    if setting["task"] == "sums" and setting.get("recipe") != TINY:
        return sim.tasks.arithmetic(**SUMS[model] | place(setting, ("prompts",)))
    return Written(PROMPTS[model], ("",) * len(PROMPTS[model]), setting.get("tokens", 4), marks=MARK[model])


def spec(setting: Mapping[str, Any], staleness: int, updates: int, diagnostics: Iterable[Any], **more: Any) -> sim.Spec:
    """A run of the setting's model at constant staleness: GRPO with Adam behind a norm clip, unless `more` differs."""
    policy = sim.policies.causal_lm(
        setting["model"],
        sampler=setting.get("sampler", "float32"),
        train_layers=setting.get("layers"),
        micro_batch=setting.get("micro_batch"),
        recipe=setting.get("recipe"),
    )
    usual = {
        "method": sim.methods.grpo(),
        "update": sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(setting["rate"])),
        "replicates": setting["replicates"],
    }
    return sim.Spec(
        task=task(setting),
        policy=policy,
        system=sim.schedules.fixed(staleness, groups_per_batch=setting["groups"]),
        samples_per_group=setting["samples"],
        updates=updates,
        diagnostics=list(diagnostics),
        device=setting.get("device", "cpu"),
        **{**usual, **more},
    )


def place(setting: Mapping[str, Any], columns: Iterable[str]) -> dict[str, Any]:
    """What a setting says in the columns of its rows."""
    return {name: setting[name] for name in columns if name in setting}


def larger(settings: Iterable[Mapping[str, Any]], **changes: Any) -> list[dict[str, Any]]:
    """The same settings on a GPU, with changes."""
    return [{**setting, "device": "cuda", **changes} for setting in settings]


def methods() -> dict[str, Any]:
    """The five losses that are compared, with one advantage."""
    gain = sim.advantages.group_std()
    return {
        "no correction": sim.methods.reinforce(gain),
        "TIS": sim.methods.truncated_is("sequence", cap=8.0, advantage=gain),
        "PPO clip": sim.methods.ppo_clip(advantage=gain),
        "M2PO": sim.methods.m2po_mask(advantage=gain),
        "GSPO": sim.methods.gspo(advantage=gain),
    }
