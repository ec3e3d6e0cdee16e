"""Update links: parts of an optimizer step, such as clip-norm and adam, composed by `chain`."""

from typing import Literal

from asyncsim.base.knobs import Number
from asyncsim.updates._link import Link
from asyncsim.updates._link import Record as Record
from asyncsim.updates._link import State as State
from asyncsim.updates._link import Stateless as Stateless
from asyncsim.updates._link import link as link

def adam(lr: Number, beta1: Number = 0.9, beta2: Number = 0.999, eps: float = 1e-08) -> Link:
    """Adam: the bias-corrected first moment divided by the root of the second, times the learning rate."""

def adamw(
    lr: Number, weight_decay: Number = 0.01, beta1: Number = 0.9, beta2: Number = 0.999, eps: float = 1e-08
) -> Link:
    """Adam with decoupled weight decay, which shrinks the parameters in addition to Adam's step."""

def align(
    low: Number = 0.05,
    high: Number = 1.0,
    strength: Number = 1.0,
    reference: Literal["raw", "applied"] = "raw",
    refresh: bool = True,
    removal: Literal["project", "shrink"] = "project",
    max_skips: int | None = None,
) -> Link:
    """Gradient alignment control: project or skip the update when consecutive gradients align (a reconstruction)."""

def clip_norm(limit: Number = 1.0) -> Link:
    """Clip the Euclidean norm of the update direction."""

def ess_step(
    rule: Literal["sqrt", "linear"] = "sqrt",
    reference: Number = 1.0,
    floor: Number = 0.1,
    deadband: Number = 1.0,
    on_broken: Literal["floor", "skip"] = "floor",
) -> Link:
    """Scale the learning rate by the effective sample size of the batch (VCPO)."""

def lr_by_lag() -> Link:
    """Divide the learning rate by the maximum staleness in updates of the run so far."""

def lr_schedule(
    warmup: int = 0,
    decay: Literal["constant", "linear", "cosine"] = "constant",
    updates: int | None = None,
    floor: Number = 0.0,
) -> Link:
    """Warm-up and decay of the learning rate, by a factor that depends on the update number."""

def momentum(beta: Number) -> Link:
    """Heavy-ball momentum without dampening: the direction becomes a decaying sum of gradients."""

def scale(factor: Number = 1.0) -> Link:
    """Multiply the learning rate by a constant: a control for adaptive rules, with their mean scale as the constant."""

def sgd(lr: Number) -> Link:
    """Plain SGD: multiply the gradient by a learning rate."""

def skip_nonfinite() -> Link:
    """Skip the update of a replicate whose direction is not finite."""

def staleness_step() -> Link:
    """Divide the learning rate by the maximum staleness of the batch in updates."""
