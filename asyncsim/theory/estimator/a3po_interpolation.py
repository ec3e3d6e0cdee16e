r"""A snapshot that is interpolated by staleness instead of computed shifts every ratio of the clip by one constant.

Logits move steadily from mu to pi in d versions. The true snapshot is the version before pi, at the share alpha =
1 - 1/d of the way; A-3PO takes log pi_prox = alpha log pi + (1 - alpha) log mu, which is not normalized. So the clip
sees `seen` = log(pi/mu)/d in place of log(pi/pi_prox) of the true one, too large by `shift` = -log sum_a pi_a^alpha
mu_a^(1 - alpha) = (1 - alpha) D_alpha(pi || mu) >= 0 for every action alike (D_alpha: Renyi divergence), near alpha
(1 - alpha) Var_pi(difference of logits)/2. The gate for A > 0 closes a little early, the one for A < 0 a little late;
what is let through has the full ratio and no error. Derivation: both are log-linear in the action, so they differ by
their normalizers. Domain: one softmax, a straight path of logits, d >= 2 (at 1 both are mu), log ratios below 20. On
other paths it is an approximation. Second route: the snapshot's own log-probs. Source: 2512.06547.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax

from asyncsim.base import checks
from asyncsim.theory._bandit import PolicyPair
from asyncsim.theory._declared import Staleness
from asyncsim.theory._stated import indexed, stated


class _Setting(PolicyPair):
    staleness = Staleness(2, typical=(2, 16), example=4)

    def joint(self) -> None:
        """Policies that differ, with ratios that are not limited."""
        super().joint()
        self.mu, self.pi = map(log_softmax, self.logits)
        self.log_ratio = self.pi - self.mu
        apart = _renyi(self, self.alpha) > 1e-6
        logits = self.current_logits.tolist()
        checks.require(apart, "current_logits", logits, "another policy", "without a difference no gate closes")
        near = float(np.abs(self.log_ratio).max()) < 20.0
        checks.require(near, "current_logits", logits, "within 20 of behavior in log-probs", "move them closer")

    @property
    def alpha(self) -> float:
        """Share of the way at which the snapshot stands."""
        return 1.0 - 1.0 / self.staleness


def _renyi(s: _Setting, alpha: float) -> float:
    """(1 - alpha) D_alpha(pi || mu)."""
    return -float(np.log(np.exp(alpha * s.pi + (1.0 - alpha) * s.mu).sum()))


def _of(s: _Setting, alpha: float, shift: float) -> dict[str, float]:
    return indexed("seen", (1.0 - alpha) * s.log_ratio) | indexed("shift", np.full(len(s.mu), shift))


def _cross_check(s: _Setting) -> dict[str, float]:
    snapshot = s.behavior_logits + s.alpha * (s.current_logits - s.behavior_logits)
    seen = s.log_ratio - (s.alpha * s.pi + (1.0 - s.alpha) * s.mu - s.mu)
    return indexed("seen", seen) | indexed("shift", seen - (s.pi - log_softmax(snapshot)))


def _second_order(s: _Setting) -> dict[str, float]:
    chance = np.exp(s.pi)
    variance = float(chance @ s.log_ratio**2 - (chance @ s.log_ratio) ** 2)
    return _of(s, s.alpha, 0.5 * s.alpha * (1.0 - s.alpha) * variance)


claim = stated(
    id="estimator/a3po-interpolation",
    statement="an interpolated snapshot shifts log ratios of the clip by `(1 - alpha) D_alpha(pi || mu)`, all alike",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=lambda s: _of(s, s.alpha, _renyi(s, s.alpha)),
    cross_check=_cross_check,
    reference="arXiv 2512.06547",
    formula_defects={
        "alpha and 1 - alpha exchanged": lambda s: _of(s, 1.0 - s.alpha, _renyi(s, 1.0 - s.alpha)),
        "snapshot taken to be normalized": lambda s: _of(s, s.alpha, 0.0),
        "second order only": _second_order,
        "a version more": lambda s: _of(s, *(lambda a: (a, _renyi(s, a)))(1.0 - 1.0 / (s.staleness + 1))),
    },
    relative_to="norm",
)
