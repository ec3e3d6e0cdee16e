"""Predicting collapse: when a run has collapsed, which signal told so before, and how sure that is."""

from asyncsim.predicting.deciding import Alarm, Prediction, predict
from asyncsim.predicting.signals import Signal
from asyncsim.predicting.sizes import band

__all__ = ["Alarm", "Prediction", "Signal", "band", "predict"]
