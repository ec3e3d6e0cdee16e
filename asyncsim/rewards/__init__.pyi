"""Rewards: their time of arrival, and the treatment of samples with late rewards."""

from asyncsim.rewards.late import late as late
