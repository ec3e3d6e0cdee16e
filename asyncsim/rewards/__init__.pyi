"""Rewards: rewards that arrive late, and what happens to their samples."""

from asyncsim.rewards.late import late as late
