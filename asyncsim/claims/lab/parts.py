"""Parts of the product that claims name."""

from __future__ import annotations

import torch as torch
from torch import Tensor as Tensor

from asyncsim import updates
from asyncsim.advantages._advantage import Advantage as Advantage
from asyncsim.base.trace import Trace as Trace
from asyncsim.diagnostics._diagnostic import Metric as Metric
from asyncsim.methods._method import Method as Method
from asyncsim.methods._weights import Clip as Clip
from asyncsim.methods._weights import NoRatio as NoRatio
from asyncsim.methods._weights import Ratio as Ratio
from asyncsim.methods._weights import Weight as Weight
from asyncsim.methods._weights import zero_outside as zero_outside
from asyncsim.methods.actor_critic import Centered as Centered
from asyncsim.methods.importance import PrefixRatio as PrefixRatio
from asyncsim.policies._engine import Engine as Engine
from asyncsim.policies._policy import Forward as Forward
from asyncsim.running import running as running
from asyncsim.running.spec import Spec as Spec
from asyncsim.schedules.imposed import fixed as fixed
from asyncsim.step.batch import Batch as Batch
from asyncsim.step.batch import Draws as Draws
from asyncsim.step.step import Step as Step
from asyncsim.step.step import given as given
from asyncsim.step.versions import View as View
from asyncsim.step.versions import Weights as Weights
from asyncsim.systems._system import System as System
from asyncsim.updates._link import Chain as Links
from asyncsim.updates._link import Link as Link
from asyncsim.updates._link import Record as Record
from asyncsim.updates._link import State as State

adam, align = updates.adam, updates.align
Adam, Align = type(adam(1.0)), type(align())
