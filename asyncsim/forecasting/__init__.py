"""Calibration of a run from its log, and forecasts of staleness, speed and ratios at other settings, with bands."""

from asyncsim.forecasting.calibrating import Calibration, calibrate
from asyncsim.forecasting.forecasting import forecast

__all__ = ["Calibration", "calibrate", "forecast"]
