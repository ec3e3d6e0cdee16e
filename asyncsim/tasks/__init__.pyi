"""Tasks: what is asked, which outcomes exist and what they earn."""

from asyncsim.tasks.arithmetic import arithmetic as arithmetic
from asyncsim.tasks.bit_chain import bit_chain as bit_chain
from asyncsim.tasks.calculator import calculator as calculator
from asyncsim.tasks.cliff_walking import cliff_walking as cliff_walking
from asyncsim.tasks.frozen_lake import frozen_lake as frozen_lake
from asyncsim.tasks.gaussian_bandit import gaussian_bandit as gaussian_bandit
from asyncsim.tasks.gym import gym as gym
from asyncsim.tasks.lqr import lqr as lqr
from asyncsim.tasks.mdp import mdp as mdp
from asyncsim.tasks.quadratic import quadratic as quadratic
from asyncsim.tasks.reasoning import reasoning as reasoning
from asyncsim.tasks.softmax_bandit import softmax_bandit as softmax_bandit
from asyncsim.tasks.token_bandit import token_bandit as token_bandit
from asyncsim.tasks.tool_bandit import tool_bandit as tool_bandit
