"""Policies: parameterized distributions of actions or tokens, with their gradients."""

from asyncsim.policies._engine import Engines
from asyncsim.policies._module import module as module
from asyncsim.policies.causal_lm import causal_lm as causal_lm
from asyncsim.policies.continuous import gaussian as gaussian
from asyncsim.policies.continuous import quadratic as quadratic
from asyncsim.policies.mlp import mlp as mlp
from asyncsim.policies.tabular import tabular as tabular

engines: Engines
