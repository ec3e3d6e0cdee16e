"""Rewards: when they arrive, and what happens to samples whose reward is late."""

from asyncsim.rewards.late import late as late
