"""Points that several claims share: two policies on sequences of three tokens, and decision processes."""

from typing import Any

BEHAVIOR = ((0.3, -0.2, 0.5), (0.0, 0.7, -0.4), (-0.5, 0.2, 0.1), (0.9, 0.1, 0.0))
CURRENT = ((1.0, -0.6, 0.2), (0.4, 0.2, -0.8), (0.3, -0.3, 0.6), (0.2, 0.8, -0.5))


PAIR: dict[str, Any] = {"behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1)}
"""Two policies over three actions."""


def sequence_point(dependence: str, horizon: int, rows: int, **more: Any) -> dict[str, Any]:
    """Point with two policies on 3 actions, from logit tables of `rows` rows, plus the claim's other parameters."""
    return {
        "actions": 3,
        "horizon": horizon,
        "dependence": dependence,
        "behavior_logits": BEHAVIOR[:rows],
        "current_logits": CURRENT[:rows],
        **more,
    }


Table = tuple[tuple[float, ...], ...]
STAY: tuple[Table, ...] = (((1.0, 0.0), (0.0, 1.0)), ((1.0, 0.0), (0.0, 1.0)))
"""Two states; action a leads to state a."""
FORK: tuple[Table, ...] = (((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), ((0.0, 1.0, 0.0),) * 2, ((0.0, 0.0, 1.0),) * 2)
"""Three states: the choice in the first decides for ever."""


def process(transition: tuple[Table, ...], rewards: Table, discount: float, **logits: Table) -> dict[str, Any]:
    """Point with a decision process and logits per state."""
    return {"transition": transition, "rewards": rewards, "discount": discount, **logits}
