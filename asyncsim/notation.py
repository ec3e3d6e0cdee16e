"""The words of the project with their symbol, unit and meaning; axes, columns and docstrings take their labels here."""

from __future__ import annotations

from typing import NamedTuple


class Word(NamedTuple):
    """A term: LaTeX symbol, unit ("" for a pure number) and meaning in one line."""

    symbol: str
    unit: str
    meaning: str


WORDS: dict[str, Word] = {
    "version": Word(r"v", "versions", "count of publishes of weights to the generators"),
    "behavior_version": Word(r"v_\mu", "versions", "version whose weights generated a token"),
    "staleness": Word(
        r"s", "versions", "version trained at minus behavior version, per token; a trajectory's is its first token's"
    ),
    "update_staleness": Word(r"\tau", "updates", "optimizer updates applied since the token's weights were current"),
    "delay": Word(r"d", "s", "simulated seconds between two events; never versions"),
    "step_size": Word(r"\eta", "", "factor from gradient to parameter change"),
    "curvature": Word(r"\lambda", "", "eigenvalue of the Hessian of the loss"),
    "log_ratio": Word(
        r"\log w", "nats", "log-probability under the current policy minus that under the behavior policy"
    ),
    "ess": Word(r"\mathrm{ESS}/N", "", "effective sample size over the number of samples"),
    "chi_square": Word(r"\chi^2", "", "second moment of the importance ratio minus one"),
    "max_weight_share": Word(r"\max w/\sum w", "", "largest share of one sample in the total weight"),
    "tail_index": Word(r"\alpha", "", "Hill estimate of the tail exponent of the importance ratio"),
    "log_ratio_mean": Word(r"E\,\log w", "nats", "mean sequence log ratio of the batch"),
    "log_ratio_variance": Word(r"\mathrm{Var}\,\log w", "nats^2", "variance of the sequence log ratio in the batch"),
    "mean_weight": Word(r"E\,w", "", "mean sequence ratio, 1 when the logged probabilities are those sampled from"),
    "gradient_norm": Word(r"|g|", "", "Euclidean norm of the gradient before the update chain"),
    "gradient_cosine": Word(r"\kappa", "", "cosine between consecutive gradients"),
    "autocorrelation": Word(r"\rho_k", "", "correlation of gradients k updates apart"),
    "bias": Word(r"|b|", "", "norm of the expected gradient of the method minus the exact gradient"),
    "variance": Word(r"\mathrm{tr\,Var}\,g", "", "total variance of the gradient over batches"),
    "exact_cosine": Word(r"\cos", "", "cosine between the batch gradient and the exact gradient"),
    "exact_gradient_norm": Word(r"|\nabla J|", "", "norm of the exact gradient at the current parameters"),
    "batch_return": Word(r"\hat J", "", "mean reward of the batch under the behavior policy"),
    "exact_return": Word(r"J", "", "expected reward of the current policy"),
    "entropy": Word(r"H", "nats", "mean entropy of the current policy at the batch's states"),
    "kl": Word(
        r"\mathrm{KL}(\mu\|\pi)", "nats", "mean divergence of behavior from current policy, k3 estimate on the batch"
    ),
    "update": Word(r"u", "updates", "optimizer step"),
    "batch": Word(r"b", "batches", "groups dequeued together"),
    "return": Word(r"J", "", "expected reward"),
}


def label(name: str) -> str:
    """Axis label of a word: its name in plain words with symbol and unit.

    >>> label("update_staleness")
    'update staleness $\\\\tau$ (updates)'
    """
    word = WORDS.get(name)
    if word is None:
        return name.replace("_", " ")
    unit = f" ({word.unit})" if word.unit else ""
    return f"{name.replace('_', ' ')} ${word.symbol}${unit}"
