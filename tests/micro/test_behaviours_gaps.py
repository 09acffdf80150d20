"""Small inputs with their right answers that no test about one part of the engine holds."""

from __future__ import annotations

from micro import Value
from viz import draw


def test_sixty_doublings_of_a_value_are_drawn_with_both_edges() -> None:
    y = x = Value(1.0, label="x")
    for _ in range(60):
        y = y + y
    drawing = draw(y)
    assert drawing.graph.nodes_in_all == 61 and drawing.graph.folded == 0
    y.backward()
    assert x.grad == 2.0**60
