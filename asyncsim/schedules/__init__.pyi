"""Schedules: which version generated each training token: imposed, or taken from a system or a log."""

from asyncsim.schedules.coupled import coupled as coupled
from asyncsim.schedules.imposed import delays as delays
from asyncsim.schedules.imposed import fixed as fixed
from asyncsim.schedules.imposed import frozen as frozen
from asyncsim.schedules.imposed import random as random
from asyncsim.schedules.imposed import sawtooth as sawtooth
from asyncsim.schedules.replay import replay as replay
