"""The classroom: what the lessons show, and the kit that checks what students write."""

from .exercise import Case, Exercise, Mistake, case
from .pictures import Picture, Player, chart, player
from .showing import show

__all__ = ["Case", "Exercise", "Mistake", "Picture", "Player", "case", "chart", "player", "show"]
