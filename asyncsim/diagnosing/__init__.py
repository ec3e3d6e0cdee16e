"""Diagnosing training runs: telemetry beside what claims predict, and whether a signal told of a collapse before."""

from asyncsim.diagnosing.alarms import Signal
from asyncsim.diagnosing.diagnosis import Diagnosis, diagnose, log_law
from asyncsim.diagnosing.findings import Finding
from asyncsim.diagnosing.predicting import predict

__all__ = ["Diagnosis", "Finding", "Signal", "diagnose", "log_law", "predict"]
