"""Predicting collapse: when a run has collapsed, which signal told so before, and how sure that is."""

from asyncsim.predicting.deciding import Alarm, Prediction, predict
from asyncsim.predicting.signals import Signal
from asyncsim.predicting.sizes import band, differ, runs_for_curve, runs_for_rates

__all__ = ["Alarm", "Prediction", "Signal", "band", "differ", "predict", "runs_for_curve", "runs_for_rates"]
