"""Draw what bench.py measured, and print its table in Markdown.

Question: at which sizes is this engine ahead, and what does it pay for where it is not?

Reads the JSON files of bench.py, by default all of them in results/, and puts the plots
beside each: times as a ratio to PyTorch's best, phases, the cost of an op, and how time
and memory grow. Times are minima.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from report import RESULTS, STYLES, check_out, figure, log_ticks, save_figure

Rows = Sequence[Mapping[str, Any]]

GREY = "#555555"
# One way to draw each contestant, in every plot; those who are not here stay in the table.
LOOKS: Mapping[str, Mapping[str, Any]] = {
    "smolgrad-eager": STYLES[0],
    "smolgrad-compiled": {"color": "#000000", "linestyle": "-", "marker": "*", "markersize": 8},
    "numpy-by-hand": STYLES[2],
    "torch": STYLES[1],
    "torch-fused": STYLES[1],
    "jax": STYLES[3],
    "autograd": {"color": "#8a6d1b", "linestyle": (0, (5, 1, 1, 1, 1, 1)), "marker": "v"},
}
# Bars are told apart by their hatching.
HATCHES = ("", "////", "....", "xxxx")
SHADES = ("#1b4f8a", "#e8a87c", "#c9dfc5", "#d9c7e0")


@dataclass
class Options:
    """Options of the plots."""

    files: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """files of bench.py; by default all bench_threads*.json in --out, or else in results/"""
    out: Path | None = None
    """the folder that the plots go to, instead of that of each file"""


def read(path: Path) -> dict[str, Any]:
    """Return the content of a file of bench.py; leave with a message if it is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path} cannot be read: {error}") from None
    if not isinstance(content, dict) or "threads" not in content or "rows" not in content:
        raise SystemExit(f"{path} was not written by bench.py: it has no threads or rows")
    return content


# The table


def cases(rows: Rows) -> list[tuple[str, int]]:
    """Return every model and batch, in the order of the rows."""
    return list(dict.fromkeys((row["model"], row["batch"]) for row in rows))


def best_of_torch(rows: Rows, case: tuple[str, int]) -> float | None:
    """Return PyTorch's shortest time for a model and batch."""
    times = [
        row["min_ms"]
        for row in rows
        if (row["model"], row["batch"]) == case and row["impl"].startswith("torch")
    ]
    return min(times) if times else None


def table(content: Mapping[str, Any]) -> str:
    """Return minima in milliseconds, a line for each contestant, and ratios to PyTorch's best."""
    rows: Rows = content["rows"]
    columns = cases(rows)
    heads = [f"{model} {batch}" for model, batch in columns]
    threads, load = content["threads"], content["load_average"]
    lines = [
        f"Milliseconds a step (ratio to PyTorch's best); threads {threads}, load average {load}",
        "",
        "| | " + " | ".join(heads) + " |",
        "|---" * (len(heads) + 1) + "|",
    ]
    for impl in dict.fromkeys(row["impl"] for row in rows):
        times = {(r["model"], r["batch"]): r["min_ms"] for r in rows if r["impl"] == impl}
        cells = []
        for case in columns:
            best = best_of_torch(rows, case)
            if case not in times:
                cells.append("")
            elif best is None or impl.startswith("torch"):
                cells.append(f"{times[case]:.3g}")
            else:
                cells.append(f"{times[case]:.3g} ({times[case] / best:.2f})")
        lines.append(f"| {impl} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


# Plots


def plot_steps(content: Mapping[str, Any], stem: Path) -> list[Path]:
    """Draw the time of a step over PyTorch's best, by model and batch."""
    rows: Rows = content["rows"]
    drawing, ax = figure(1, width=6.8, height=4.2)
    best = {case: time for case in cases(rows) if (time := best_of_torch(rows, case))}
    columns, top = list(best), 1.0
    for impl, look in LOOKS.items():
        if impl == "torch-fused":  # mostly the best itself
            continue
        label = "torch, default AdamW" if impl == "torch" else impl
        times = {(r["model"], r["batch"]): r["min_ms"] for r in rows if r["impl"] == impl}
        for model in dict.fromkeys(model for model, _ in columns):  # a line for each
            places = [i for i, c in enumerate(columns) if c in times and c[0] == model]
            heights = [times[columns[i]] / best[columns[i]] for i in places]
            if places:
                ax.plot(places, heights, label=label, **look)
                label = None
                top = max(top, *heights)
    ax.axhline(1, color=GREY, linewidth=1.2)
    ax.set_xticks(range(len(columns)), [f"{model}\n{batch}" for model, batch in columns])
    ax.set(
        title=f"A training step, threads {content['threads']}",
        xlabel="model and batch",
        ylabel="time / PyTorch's best (lower is faster)",
        ylim=(0, 1.25 * top),
    )
    ax.legend(fontsize=9, ncols=2, loc="upper center")
    return save_figure(drawing, stem)


def plot_phases(content: Mapping[str, Any], stem: Path) -> list[Path]:
    """Draw forward, backward and optimizer, one on the other, for every contestant."""
    rows: Rows = content["phases"]
    impls = list(dict.fromkeys(row["impl"] for row in rows))
    drawing, ax = figure(1, width=7.0, height=1.2 + 0.42 * len(impls))
    left = np.zeros(len(impls))
    for phase, hatch, shade in zip(
        dict.fromkeys(row["phase"] for row in rows), HATCHES, SHADES, strict=False
    ):
        times = {row["impl"]: row["min_ms"] for row in rows if row["phase"] == phase}
        widths = np.array([times[impl] for impl in impls])
        bars = ax.barh(
            impls, widths, left=left, color=shade, hatch=hatch, edgecolor="white", label=phase
        )
        ax.bar_label(
            bars,
            [f"{w:.2g}" for w in widths],
            label_type="center",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
        )
        left += widths
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.set_axisbelow(True)
    ax.set(
        title=f"A step of the MNIST network, batch {rows[0]['batch']}",
        xlabel="milliseconds",
        xlim=(0, 1.28 * left.max()),
    )
    ax.legend(loc="center right", fontsize=9)
    return save_figure(drawing, stem)


def plot_overhead(content: Mapping[str, Any], stem: Path) -> list[Path]:
    """Draw the cost of ops on one element, as bars in groups."""
    rows: Rows = content["overhead"]
    groups = list(dict.fromkeys((row["op"], row["what"]) for row in rows))
    impls = list(dict.fromkeys(row["impl"] for row in rows))
    drawing, ax = figure(1, width=8.4, height=4.0)
    width = 0.8 / len(impls)
    for i, (impl, hatch, shade) in enumerate(zip(impls, HATCHES, SHADES, strict=False)):
        times = {(r["op"], r["what"]): r["min_us"] for r in rows if r["impl"] == impl}
        places = np.arange(len(groups)) + (i - (len(impls) - 1) / 2) * width
        heights = [times.get(group, np.nan) for group in groups]
        bars = ax.bar(
            places, heights, width, color=shade, hatch=hatch, edgecolor="black", label=impl
        )
        ax.bar_label(
            bars, [f"{h:.2g}" if h < 99.5 else f"{h:.0f}" for h in heights], fontsize=8, padding=2
        )
    names = [f"{op}\n" + what.replace(" and ", " and\n") for op, what in groups]
    ax.set_xticks(range(len(groups)), names)
    ax.tick_params(axis="x", labelsize=8)
    ax.grid(axis="x", visible=False)
    ax.set_axisbelow(True)
    ax.set(title="Ops on one element", ylabel="microseconds", yscale="log")
    ax.margins(y=0.12)
    ax.legend(fontsize=9)
    return save_figure(drawing, stem)


def plot_scaling(content: Mapping[str, Any], stem: Path) -> list[Path]:
    """Draw time and peak memory by batch, width and depth."""
    rows: Rows = content["scaling"]
    sweeps = list(dict.fromkeys(row["sweep"] for row in rows))
    written: list[Path] = []
    for field, unit, name in (
        ("min_ms", "milliseconds a step", "time"),
        ("peak_mb", "peak megabytes", "memory"),
    ):
        if any(row[field] is None for row in rows):  # a system that does not say
            continue
        drawing, axes = figure(len(sweeps), width=3.8, height=3.6)
        for ax, sweep in zip(np.atleast_1d(axes), sweeps, strict=True):
            for impl, look in LOOKS.items():
                mine = [
                    (r["value"], r[field]) for r in rows if (r["sweep"], r["impl"]) == (sweep, impl)
                ]
                if mine:
                    ax.plot(*zip(*mine, strict=True), label=impl, **look)
            values = sorted({row["value"] for row in rows if row["sweep"] == sweep})
            ax.set(title=f"by {sweep}", xlabel=sweep, xscale="log", yscale="log")
            ax.set_xticks(values, [str(value) for value in values], minor=False)
            ax.xaxis.set_minor_formatter("")
            log_ticks(ax)
        first = np.atleast_1d(axes)[0]
        first.set_ylabel(unit)
        first.legend(fontsize=8)
        written += save_figure(drawing, stem.with_name(f"{stem.name}_{name}"))
    return written


PLOTS: Mapping[str, Callable[[Mapping[str, Any], Path], list[Path]]] = {
    "rows": plot_steps,
    "phases": plot_phases,
    "overhead": plot_overhead,
    "scaling": plot_scaling,
}


def main(options: Options) -> None:
    """Draw every section of every file."""
    if options.out is not None:
        check_out(options.out)
    folder = options.out or RESULTS
    files = options.files or tuple(sorted(folder.glob("bench_threads*.json")))
    if not files:
        raise SystemExit(f"there is no bench_threads*.json in {folder}: run demos/bench.py first")
    contents = {path: read(path) for path in files}
    for path, content in contents.items():
        folder = path.parent if options.out is None else options.out
        written: list[Path] = []
        for section, plot in PLOTS.items():
            if content.get(section):
                name = f"{path.stem}_{'steps' if section == 'rows' else section}"
                written += plot(content, folder / name)
        if content["rows"]:
            print(table(content) + "\n")
        print("written: " + ", ".join(str(path) for path in written))


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
