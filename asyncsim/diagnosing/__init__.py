"""Diagnosing training runs: telemetry compared with theory, and signals that predict a collapse."""

import sys

from asyncsim.base import plugins
from asyncsim.diagnosing.alarms import Signal
from asyncsim.diagnosing.diagnosis import Diagnosis, diagnose, log_law
from asyncsim.diagnosing.findings import Finding
from asyncsim.diagnosing.judging import judge_runs
from asyncsim.diagnosing.predicting import predict

__all__ = ["Diagnosis", "Finding", "Signal", "diagnose", "judge_runs", "log_law", "predict"]
plugins.answering(sys.modules[__name__])
