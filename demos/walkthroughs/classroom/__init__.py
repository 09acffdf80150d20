"""The classroom: what the lessons show, and the kit that checks what students write."""

import threadpoolctl

from .exercise import Case, Exercise, Mistake, case
from .pictures import Picture, Player, chart, player
from .showing import show

# The matrices of the lessons are so small that threads only wait for each other.
threadpoolctl.threadpool_limits(1)

__all__ = ["Case", "Exercise", "Mistake", "Picture", "Player", "case", "chart", "player", "show"]
