"""Write the table of all ops into the README, from the vocabulary.

What stands between the table's marks is replaced, the rest is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro
from report import check_out, write_text

from micro.vocab import REQUIRED, VOCAB, OpSpec

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- op table: begin -->\n", "<!-- op table: end -->\n"


@dataclass
class Options:
    """Options of the table."""

    out: Path = README.parent
    """the folder of the README.md that the table goes into"""


def signature(spec: OpSpec) -> str:
    """Return how an op is called: its operands, then its attributes with their defaults."""
    operands = [f"{name}=None" if name in spec.optional else name for name in spec.inputs]
    attrs = [n if v is REQUIRED else f"{n}={v!r}" for n, v in spec.attrs.items()]
    return f"{spec.name}({', '.join(operands + attrs)})"


def table() -> str:
    """Return a row for every op: its signature, its engines, its gradient where there is a choice.

    An op whose gradient is zero or does not exist says so, and one that is made of other ops.
    """
    rows = ["| op | engines | gradient, where there is a choice |", "|---|---|---|"]
    for spec in VOCAB.values():
        engines = "micro, tensor" if spec.scope == "both" else "tensor"
        engines += ", of other ops" * spec.composite
        choice = spec.kinks or ("" if spec.differentiable else "none")
        rows.append(f"| `{signature(spec)}` | {engines} | {choice} |")
    return "\n".join(rows) + "\n"


def filled(text: str) -> str:
    """Return ``text`` with the table between its marks; leave if they are not there once each."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise SystemExit(f"README.md must have the line {BEGIN.strip()} once, before {END.strip()}")
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.partition(END)[2]


def main(options: Options) -> None:
    """Fill the table in."""
    check_out(options.out)
    path = options.out / "README.md"
    if not path.is_file():
        raise SystemExit(f"--out: there is no README.md in {options.out}")
    print(f"written: {write_text(path, filled(path.read_text('utf-8')))}")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
