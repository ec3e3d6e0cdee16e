"""Opening an environment of gymnasium by its id, and what its spaces require of a policy; imports gymnasium."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks, outside


class Surface(NamedTuple):
    """Observations and actions of an environment.

    `observation`: D; `onehot`: first code of a discrete observation, or None; `precision` of observations; `head`,
    "categorical" or "gaussian"; `actions`: choices, or coordinates; `first`: first code of a discrete action, or None;
    `low`, `high`: the box of continuous actions, one number per coordinate; `shape`, `kind`: shape and dtype of that
    box.
    """

    observation: int
    onehot: int | None
    precision: str
    head: str
    actions: int
    first: int | None
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    shape: tuple[int, ...] = ()
    kind: str = "float32"


def settings_of(settings: Any) -> tuple[tuple[str, Any], ...]:
    """Arguments of an environment as sorted pairs; refuses what a header could not repeat."""
    remedy = "give a dictionary of the environment's own arguments"
    checks.require(settings is None or isinstance(settings, Mapping), "settings", settings, "a dictionary", remedy)
    for name, value in (settings or {}).items():
        checks.require(isinstance(name, str), "settings", name, "named by text", remedy)
        bound, instead = "arguments of the environment, not of its time limit", "use steps"
        checks.require(name != "max_episode_steps", "settings", {name: value}, bound, instead)
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise checks.InputError(f"settings[{name}]", value, "finite numbers, text, lists or None", remedy) from None
    return tuple(sorted((settings or {}).items()))


def made(id: str, settings: dict[str, Any], limit: int | None = None) -> Any:
    """One environment; raises `InputError` for an unknown id, a missing package, or arguments that it does not take."""
    import gymnasium

    checks.require(isinstance(id, str), "id", id, "the id of an environment", "see gymnasium.pprint_registry()")
    for text in outside.texts([id, settings]):
        if re.match(r"[A-Za-z_][\w.]*:", text):  # gymnasium imports what stands before the colon
            outside.permit(text, "id")
    time_limit = {} if limit is None else {"max_episode_steps": limit}
    try:
        return gymnasium.make(id, disable_env_checker=True, **time_limit, **settings)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise checks.InputError("id", id, "an environment whose packages are installed", _missing(error)) from error
    except gymnasium.error.Error as error:
        raise checks.InputError("id", id, "a registered environment", " ".join(str(error).split())) from None
    except (TypeError, ValueError, LookupError, AssertionError, AttributeError) as error:
        remedy = f"mend them ({type(error).__name__}: {' '.join(str(error).split())})"
        raise checks.InputError("settings", settings, f"arguments that {id} takes", remedy) from error


def _missing(error: Exception) -> str:
    """Which extra or package to install."""
    text = " ".join(str(error).split())
    extra = re.search(r"gymnasium\[[\w-]+\]", text)
    if extra is None and getattr(error, "name", None) == "jax":
        return "pip install 'gymnasium[jax]'"
    if extra is None:
        return text
    swig = "pip install swig, then " if "swig" in text else ""
    return f"{swig}pip install '{extra.group()}'"


def surface(environment: Any) -> Surface:
    """Observations and actions of the environment; raises `InputError` for spaces that one head cannot serve."""
    from gymnasium.spaces import Box, Discrete

    observations, actions = environment.observation_space, environment.action_space
    usable = {"observation": (Box, Discrete), "action": (Box, Discrete)}
    for name, space in (("observation", observations), ("action", actions)):
        remedy = "wrap it in an environment with a Box or Discrete space" + (
            ", gymnasium.wrappers.FlattenObservation for example" if name == "observation" else ""
        )
        checks.require(isinstance(space, usable[name]), f"{name} space", space, "Box or Discrete", remedy)
    if isinstance(observations, Box):
        width, onehot, precision = (
            math.prod(observations.shape),
            None,
            "float64" if observations.dtype == np.float64 else "float32",
        )
    else:
        width, onehot, precision = int(observations.n), int(observations.start), "float32"
    if isinstance(actions, Discrete):
        checks.require(actions.n >= 2, "actions", int(actions.n), "at least 2", "a policy needs a choice")
        return Surface(width, onehot, precision, "categorical", int(actions.n), int(actions.start))
    low, high = (tuple(float(x) for x in np.ravel(bound)) for bound in (actions.low, actions.high))
    kind = str(actions.dtype)
    return Surface(width, onehot, precision, "gaussian", math.prod(actions.shape), None, low, high, actions.shape, kind)
