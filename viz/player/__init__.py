"""The backward player: a page on which one steps through a graph, forward and backward."""

from .play import play

__all__ = ["play"]
