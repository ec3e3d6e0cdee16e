"""The forty-two bugs."""

from __future__ import annotations

from tests.defects import _estimators, _ledgers, _numbers
from tests.defects.plants import PLANTS

MODULES = (_estimators, _ledgers, _numbers)
COUNT = len(PLANTS)
