"""A run's own numbers from its log, and what staleness, pace and ratios would be at another setting, with bands."""

from asyncsim.forecasting.calibrating import Calibration, calibrate
from asyncsim.forecasting.forecasting import forecast

__all__ = ["Calibration", "calibrate", "forecast"]
