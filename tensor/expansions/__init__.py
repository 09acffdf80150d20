"""Every op that ``micro`` does not have, spelled out in the ops that it has, by family."""

from . import layers, planes  # noqa: F401 - each enters the expansions of its family
from .table import ADJOINTS, EXPANSIONS, MOVES

__all__ = ["ADJOINTS", "EXPANSIONS", "MOVES"]
