r"""A generator rho times as fast as the trainer loses the share 1 - 1/rho, and lengths stay unbiased.

dropped_fraction = 1 - 1/rho of all finished groups, rho = C t_T / (P T) with C places, T = E[max of N works], batches
of P groups. mean_length of trained samples = E[length]. Derivation: an open loop with a buffer that drops its oldest
never blocks a place, so C/T groups finish each second. A trainer that always has a batch takes P/t_T. Which group is
dropped depends on how many finish behind it, not on its length or age. Domain: rho >= 1.25, drop_oldest, no age rule,
no synchronization time, and a buffer so large that the trainer is seldom left without a batch. Lengths are unbiased up
to an order of 1/C: behind a long sample its own place has delivered nothing for a while. Second route: a fluid that
fills the buffer and runs over, batches taken out at a fixed period. Source: derived.
"""

from __future__ import annotations

from typing import Any

from asyncsim.base import checks
from asyncsim.theory import _engines, _openloop, _work
from asyncsim.theory._declared import Draw, Real
from asyncsim.theory._stated import stated


class _Setting(_engines.Engines):
    places = _engines.places(example=32)
    samples_per_group = _engines.samples(typical=(1, 4), example=4)
    groups_per_batch = _engines.groups(typical=(8, 16), example=8)
    length = _engines.work(typical=_openloop.STEADY, example="exponential:1")
    train_time = _engines.train_time("> 0", example=1.0)
    capacity = _engines.capacity(example=16)

    def joint(self) -> None:
        """Near equality, and with a small buffer, the trainer waits by chance."""
        checks.integer("capacity", self.capacity, self.groups_per_batch, "give the buffer room for a batch")
        ratio = self.ratio(self.group)
        checks.require(
            ratio >= 1.25,
            "train_time",
            self.train_time,
            f"such that 1.25 groups or more are generated for each one trained, not {ratio:.4g}",
            "near equality drops are a matter of chance; train for longer or add places",
        )
        _openloop.refuse_chance(ratio, self.groups_per_batch, self.capacity)

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Generators well above the trainer."""
        return _openloop.with_buffer(super().drawn(draw), draw(Real(typical=(1.8, 4.0))), draw)

    def ratio(self, group: float) -> float:
        """Groups finished for each one trained."""
        return self.places * self.train_time / (self.groups_per_batch * group)


def _quantities(ratio: float, length: float) -> dict[str, float]:
    return {"dropped_fraction": 1.0 - 1.0 / ratio, "mean_length": length}


def _predict(s: _Setting) -> dict[str, float]:
    return _quantities(s.ratio(s.group), s.length.mean())


def _cross_check(s: _Setting) -> dict[str, float]:
    """A fluid in place of groups: inflow of a period beyond the free room is lost."""
    inflow = s.places / s.group_by_quantiles * s.train_time
    level, spill = 0.0, 0.0
    while not spill:
        level, spill = min(level + inflow, s.capacity), max(level + inflow - s.capacity, 0.0)
        level -= s.groups_per_batch
    spill = level + inflow - s.capacity
    return {"dropped_fraction": spill / inflow, "mean_length": _work.longest_by_quantiles(s.length, 1)}


claim = stated(
    id="systems/overflow",
    statement="a generator `rho` times as fast as the trainer loses `1-1/rho` of its groups, lengths unbiased",
    kind="expectation",
    status="asymptotic",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: finished less trained",
    formula_defects={
        "dropped groups counted against trained ones": lambda s: (
            _predict(s) | {"dropped_fraction": s.ratio(s.group) - 1.0}
        ),
        "kept share for dropped share": lambda s: _predict(s) | {"dropped_fraction": 1.0 / s.ratio(s.group)},
        "mean sample instead of the longest of a group": lambda s: _quantities(
            s.ratio(s.length.mean()), s.length.mean()
        ),
    },
)
