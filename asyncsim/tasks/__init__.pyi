"""Tasks: what a policy is trained on: prompts, possible outcomes and their rewards."""

from asyncsim.tasks.bandits import bit_chain as bit_chain
from asyncsim.tasks.bandits import softmax_bandit as softmax_bandit
from asyncsim.tasks.bandits import token_bandit as token_bandit
from asyncsim.tasks.bandits import tool_bandit as tool_bandit
from asyncsim.tasks.continuous import gaussian_bandit as gaussian_bandit
from asyncsim.tasks.continuous import quadratic as quadratic
from asyncsim.tasks.gym import gym as gym
from asyncsim.tasks.processes import cliff_walking as cliff_walking
from asyncsim.tasks.processes import frozen_lake as frozen_lake
from asyncsim.tasks.processes import mdp as mdp
from asyncsim.tasks.text import text as text
from asyncsim.tasks.texts import arithmetic as arithmetic
from asyncsim.tasks.texts import calculator as calculator
