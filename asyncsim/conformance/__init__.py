"""Checks for code outside this package: does an admission controller keep the rules that bound staleness?"""

from asyncsim.conformance.admission import check_admission
from asyncsim.conformance.controller import Controller
from asyncsim.conformance.reports import ConformanceError, Failure, Report

__all__ = ["ConformanceError", "Controller", "Failure", "Report", "check_admission"]
