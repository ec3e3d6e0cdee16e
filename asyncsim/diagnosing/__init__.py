"""Diagnosing a training run: its telemetry read beside what claims predict, each question with a verdict."""

from asyncsim.diagnosing.diagnosis import Diagnosis, diagnose
from asyncsim.diagnosing.findings import Finding
from asyncsim.diagnosing.logged import log_law

__all__ = ["Diagnosis", "Finding", "diagnose", "log_law"]
