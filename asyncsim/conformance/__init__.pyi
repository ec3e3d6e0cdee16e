"""Checks for code outside this package: admission controllers, and losses, metrics and advantages of trainers."""

from asyncsim.conformance import adapters as adapters
from asyncsim.conformance.admission import check_admission as check_admission
from asyncsim.conformance.advantages import check_advantage as check_advantage
from asyncsim.conformance.controller import Controller as Controller
from asyncsim.conformance.losses import check_loss as check_loss
from asyncsim.conformance.metrics import check_metric as check_metric
from asyncsim.conformance.reports import AdvantageReport as AdvantageReport
from asyncsim.conformance.reports import ConformanceError as ConformanceError
from asyncsim.conformance.reports import Failure as Failure
from asyncsim.conformance.reports import Finding as Finding
from asyncsim.conformance.reports import LossReport as LossReport
from asyncsim.conformance.reports import MetricReport as MetricReport
from asyncsim.conformance.reports import Report as Report

__all__ = [
    "AdvantageReport",
    "ConformanceError",
    "Controller",
    "Failure",
    "Finding",
    "LossReport",
    "MetricReport",
    "Report",
    "adapters",
    "check_admission",
    "check_advantage",
    "check_loss",
    "check_metric",
]
