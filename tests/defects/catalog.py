"""All plants: the forty-two bugs of the field, and slips written anew in every component."""

from tests.defects import (
    _estimators,
    _ledgers,
    _numbers,
    _slips_advantages,
    _slips_heldout,
    _slips_methods,
    _slips_numbers,
    _slips_parts,
    _slips_systems,
    _slips_updates,
)
from tests.defects.plants import PLANTS

MODULES = (_estimators, _ledgers, _numbers, _slips_advantages, _slips_methods, _slips_numbers)
MODULES += (_slips_parts, _slips_systems, _slips_updates, _slips_heldout)
FIELD, COUNT = 42, len(PLANTS)
"""Bugs that trainers have shipped: numbers 1 to 42; and all plants."""
