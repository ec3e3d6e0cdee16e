"""A closed loop of K tickets whose trainer takes single groups in exponential time: how busy the trainer is.

Two routes to 1 - p0, p0 the share of time without work. One is the recursion of the product form. The other solves the
balance equations of a loop whose generation has two exponential phases.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim.base.declared import Draw, Integer, Real

_MOST = 24
"""Tickets up to which the balance equations have two phases of generation: states grow with their square."""


def drawn_tickets(draw: Draw) -> dict[str, Any]:
    """Few tickets or more than `_MOST`, a place for each and up to three more, exponential training."""
    tickets = draw(Integer(1, typical=(1, 9))) + 25 * draw(Integer(0, typical=(0, 1)))
    train = f"exponential:{draw(Real(typical=(0.05, 2.0)))!r}"
    return {"tickets": tickets, "places": tickets + draw(Integer(0, typical=(0, 3))), "train_time": train}


def busy(tickets: int, ratio: float) -> float:
    """1 - p0 with 1/p0 = sum_{n=0..K} K!/(K-n)! ratio^n, `ratio` the mean training over the mean generation of a group.

    >>> busy(1, 0.5)
    0.33333333333333337
    """
    total = 1.0
    for n in range(1, tickets + 1):
        total = 1.0 + n * ratio * total
    return 1.0 - 1.0 / total


def busy_by_balance(tickets: int, generation: float, train: float) -> float:
    """1 - p0 from states (in the first phase, in the second); the other groups are at the trainer, which serves them.

    >>> round(busy_by_balance(1, 2.0, 1.0), 12)
    0.333333333333
    """
    phases = 2 if tickets <= _MOST else 1
    leave = phases / generation
    states = [(a, b) for a in range(tickets + 1) for b in range(tickets + 1 - a) if phases == 2 or b == 0]
    place = {state: k for k, state in enumerate(states)}
    rates = np.zeros((len(states), len(states)))
    for (a, b), k in place.items():
        moves = {(a + 1, b): 1.0 / train if a + b < tickets else 0.0}
        moves[(a - 1, b + 1) if phases == 2 else (a - 1, b)] = a * leave
        moves[(a, b - 1)] = b * leave
        for state, rate in moves.items():
            if rate:
                rates[k, place[state]] += rate
                rates[k, k] -= rate
    equations = rates.T.copy()
    equations[-1] = 1.0
    stationary = np.linalg.solve(equations, np.eye(len(states))[-1])
    at_trainer = np.array([a + b < tickets for a, b in states])
    return float(stationary[at_trainer].sum())
