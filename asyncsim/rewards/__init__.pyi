"""Rewards: when they are there, and what becomes of samples whose reward is late."""

from asyncsim.rewards.late import late as late
