"""From a graph of arrays to a graph of numbers: the same computation, one ``Value`` per element.

``scalarize`` expands what ``tensor`` has recorded into what ``micro`` records. An op that both
engines have becomes that op on every element; any other is spelled out in such ops
(``expansions``, ``layers``, ``planes``). So a small network can be drawn number by number, and the
two engines, whose derivatives were written independently, can be held against each other.

This is the one part of ``tensor`` that knows ``micro``'s Values.
"""

from . import layers, planes  # noqa: F401 - each enters the expansions of its family
from .conversion import Scalarized, scalarize
from .scalars import TooManyValuesError

__all__ = ["Scalarized", "TooManyValuesError", "scalarize"]
