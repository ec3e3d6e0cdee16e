"""Slips in samplers, policies, tasks, late rewards and the oracle."""

from __future__ import annotations

from tests.defects.slips import slip

P, T, L = "asyncsim.policies", "asyncsim.tasks", "asyncsim.learning"

slip(196, "samplers", "temperature multiplied instead of divided by", f"{P}._engine:Engine.install",
     "(self.temperature, self.top_k, self.top_p)", "(1.0 / self.temperature, self.top_k, self.top_p)")  # fmt: skip
slip(197, "samplers", "reports of a cut law are those of the whole one", f"{P}._engine_kernels:lay_out",
     "logits[a] - log_total if", "table[r, s, a] if", by=f"{P}._engine:Engine.install")  # fmt: skip
slip(198, "samplers", "noise: the variance taken for the deviation", f"{P}._engine:Engine._drawn",
     "self.noise, out", "self.noise**2, out")  # fmt: skip
slip(199, "samplers", "noise of tokens drawn once a sequence, and the reverse", f"{P}._engine:Engine.misreport",
     'T if self.noise_per == "token" else 1', '1 if self.noise_per == "token" else T')  # fmt: skip
slip(200, "samplers", "normal policy: temperature on the deviation, not on the variance",
     f"{P}.gaussian:Gaussian.act",
     "self.width * math.sqrt(self.temperature)", "self.width * self.temperature")  # fmt: skip
slip(201, "samplers", "top-p keeps the actions that fit below it", f"{P}._engine:Engine.install",
     "self.top_k, self.top_p)", "self.top_k, self.top_p**2)")  # fmt: skip
slip(202, "policies", "tables: score without the normalizer", f"{P}.tabular:Tabular._pull",
     """_scattered(cotangent, cells, prob)
                table += scattered - scattered.sum(-1, keepdim=True) * prob""",
     """_scattered(cotangent, cells, prob)
                table += scattered""")  # fmt: skip
slip(203, "policies", "tables: gradient of the entropy without the entropy", f"{P}.tabular:Tabular._pull",
     "(_finite(log_prob) + self._entropy(view).unsqueeze(-1))", "_finite(log_prob)")  # fmt: skip
slip(204, "policies", "tables: norm of a score without its cross terms", f"{P}.tabular:Tabular.score_norm",
     "(table - table.sum(-1, keepdim=True) * prob).square()", "table.square()")  # fmt: skip
slip(205, "policies", "tables: every state reads the first row", f"{P}.tabular:Tabular._cells",
     "batch.action if self.rows == 1 else batch.state * self.actions + batch.action", "batch.action")  # fmt: skip
slip(206, "policies", "normal policy: score over the width, not over its square", f"{P}.gaussian:Gaussian.forward",
     "(1, 2, 3)) / self.width**2", "(1, 2, 3)) / self.width")  # fmt: skip
slip(207, "policies", "network: sum over samples forgotten in the biases", f"{P}._mlp_network:Network.pull",
     "bias += delta.sum(1)", "bias += delta.mean(1)")  # fmt: skip
slip(208, "policies", "network: gradient of log std without the -1", f"{P}._mlp_heads:Normal.pull",
     "(standard**2 - 1.0)", "standard**2")  # fmt: skip
slip(209, "policies", "language model: attends to tokens to come", f"{P}._transformer:Block.forward",
     "attn_mask=mask", "attn_mask=None")  # fmt: skip

slip(210, "tasks", "gaussian rewards: the deviation squared", f"{T}._tabular:TabularTask.earn",
     "self.deviation * draws", "self.deviation**2 * draws")  # fmt: skip
slip(211, "tasks", "token bandit: exactly the required share is no success", f"{T}.token_bandit:TokenBandit.score",
     "right >= self.success * self.horizon - 1e-9", "right > self.success * self.horizon + 1e-9")  # fmt: skip
slip(212, "tasks", "token bandit: the last word does not end the sequence", f"{T}.token_bandit:TokenBandit.step",
     "action != self.actions - 1 if self.ends", "action != self.actions if self.ends")  # fmt: skip
slip(213, "tasks", "bit chain: required bits rounded down", f"{T}.bit_chain:BitChain.needed",
     "math.ceil(", "math.floor(")  # fmt: skip
slip(214, "tasks", "gaussian bandit: half of the square forgotten", f"{T}.gaussian_bandit:GaussianBandit.earn",
     "-0.5 * ", "-1.0 * ")  # fmt: skip
slip(215, "tasks", "quadratic: noise on the loss, not on its gradient", f"{P}.quadratic:Quadratic.forward",
     "(weight * (curvature * iterate + batch.action))", "(weight * (curvature * iterate))")  # fmt: skip
slip(216, "tasks", "gridworld: rewards discounted one step too far", f"{T}._mdp:TabularMDP.step",
     "self.discount**token * ", "self.discount ** (token + 1) * ")  # fmt: skip
slip(217, "tasks", "gridworld: goes on behind a terminal state", f"{T}._mdp:TabularMDP._kernel",
     "torch.where(self.law.terminal, torch.zeros((), dtype=torch.float64), self.law.probability)",
     "self.law.probability")  # fmt: skip
slip(218, "tasks", "penalty of rewards read from the other log-probs", f"{T}._tabular:TabularTask._penalized",
     '{"behavior": batch.behavior, "current": outputs}',
     '{"behavior": outputs, "current": batch.behavior}')  # fmt: skip
slip(219, "tasks", "markov bandit: a token reads the row of the one before its own",
     f"{T}.token_bandit:TokenBandit.step",
     '"markov": action + 1', '"markov": action')  # fmt: skip

slip(220, "late rewards", "come back one batch late", "asyncsim.rewards.late:Late.arriving",
     "number >= self.by", "number > self.by")  # fmt: skip
slip(221, "late rewards", "shares of small and large rewards swapped", "asyncsim.rewards.late:Late._fates",
     "low, high = self.share", "high, low = self.share")  # fmt: skip
slip(222, "late rewards", "trained as a reward of 0", "asyncsim.rewards.late:Late.arriving",
     "torch.where(known > 0, reward, stand_in)",
     "torch.where(known > 0, reward, torch.zeros_like(reward))")  # fmt: skip

slip(223, "oracle", "the population is drawn from the current policy", f"{L}.oracle:_on_population",
     "policy.prepare(then)", "policy.prepare(now)")  # fmt: skip
slip(224, "oracle", "covariance without the mean subtracted", f"{L}.oracle:moments",
     "(second - torch.outer(first, first))", "second")  # fmt: skip
slip(225, "oracle", "chance of a reward forgotten in the list of outcomes", f"{L}.rollouts:enumerate_outcomes",
     "chance * torch.exp", "torch.exp")  # fmt: skip
slip(226, "oracle", "exact return summed over prompts, not averaged", f"{T}._tabular:TabularTask.exact",
     " * outcomes.chance / len(prompts)", " * outcomes.chance")  # fmt: skip
slip(227, "oracle", "counts: rewards of 1 and 0 swapped", f"{L}.rollouts:counts",
     "(drawn.reward != torch.gather", "(drawn.reward == torch.gather")  # fmt: skip
