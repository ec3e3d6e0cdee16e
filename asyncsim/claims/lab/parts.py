"""Parts of the product that claims name."""

import torch
from scipy.special import softmax as probabilities
from torch import Tensor

from asyncsim import updates
from asyncsim.base.uncertainty import between, ratio, slope
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Clip, NoRatio, Ratio, Weight
from asyncsim.methods.importance import PrefixRatio
from asyncsim.policies._engine import Engine
from asyncsim.running import running
from asyncsim.running.spec import Spec
from asyncsim.schedules.imposed import fixed
from asyncsim.step.batch import Batch
from asyncsim.step.step import Step, given
from asyncsim.systems._system import System
from asyncsim.updates._link import Chain as Links
from asyncsim.updates._link import Link, Record, State

adam, align = updates.adam, updates.align
Adam, Align = type(adam(1.0)), type(align())
