"""Drawing computation graphs: of either engine, or of anything that records how it was made."""

from .drawing import Drawing, draw
from .errors import DrawingError
from .graph import Record
from .player import play

__all__ = ["Drawing", "DrawingError", "Record", "draw", "play"]
