"""All planted faults."""

from __future__ import annotations

from typing import Final

from tests.faults import of_engine, of_rules, of_training
from tests.faults.fault import Fault

__all__ = ["FAULTS"]

FAULTS: Final[list[Fault]] = [*of_rules.FAULTS, *of_engine.FAULTS, *of_training.FAULTS]
