"""Write the golden DOT files anew: ``python tests/viz/regenerate.py``; then read the diff."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.viz.fakes import GOLDEN, GRAPHS
from viz import draw


def main() -> None:
    for name, (graph, max_nodes) in GRAPHS.items():
        draw(graph(), max_nodes=max_nodes).save(GOLDEN / f"{name}.dot")


if __name__ == "__main__":
    main()
