"""What the experiments have in common: where they run, how they wait, what they write."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import platform
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import threadpoolctl
from tqdm import tqdm

import tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "RESULTS",
    "STYLES",
    "check_out",
    "check_range",
    "command",
    "environment",
    "figure",
    "import_torch",
    "limit_threads",
    "log_ticks",
    "progress",
    "save_figure",
    "tagged",
    "wait_for_quiet",
    "write_bytes",
    "write_csv",
    "write_json",
    "write_text",
]

RESULTS = Path(__file__).resolve().parent.parent / "results"

# Lines that can be told apart without colour: each has its own dashes and marker.
STYLES: Sequence[Mapping[str, Any]] = (
    {"color": "#1b4f8a", "linestyle": "-", "marker": "o"},
    {"color": "#c4500c", "linestyle": "--", "marker": "s"},
    {"color": "#3d7d35", "linestyle": "-.", "marker": "^"},
    {"color": "#7a3f8f", "linestyle": ":", "marker": "D"},
)


def check_range(name: str, value: float | None, low: float, high: float | None = None) -> None:
    """Leave with a message that names the option unless ``low <= value <= high``, or no value."""
    if value is None or (low <= value and (high is None or value <= high)):
        return
    bounds = f"be at least {low}" if high is None else f"lie in [{low}, {high}]"
    raise SystemExit(f"--{name} must {bounds}, got {value}")


def check_out(out: Path) -> None:
    """Leave with a message if ``out`` cannot become a folder, before any work is done."""
    for path in (out, *out.parents):
        if path.exists():
            if not path.is_dir():
                raise SystemExit(f"--out must be a folder, but {path} is none")
            return


def command() -> str:
    """Return the command that this program was started with, as it is typed in a shell."""
    return shlex.join(["python", f"demos/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def import_torch(threads: int, purpose: str) -> Any:
    """Return PyTorch, held to ``threads`` threads; leave with a message where there is none."""
    try:
        import torch
    except ImportError:
        raise SystemExit(f"{purpose} needs torch: pip install torch") from None
    torch.set_num_threads(threads)
    return torch


def limit_threads(threads: int | None) -> int:
    """Let the libraries below numpy use ``threads`` threads, or all cores; return how many."""
    count = len(os.sched_getaffinity(0)) if threads is None else threads
    if count < 1:
        raise SystemExit(f"--threads must be at least 1, got {threads}")
    threadpoolctl.threadpool_limits(count)
    return count


def environment(threads: int, packages: Iterable[str] = ("numpy",)) -> dict[str, Any]:
    """Return what a figure may depend on: processor, threads, load average, kernels, versions."""
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "absent"
    blas = [
        f"{pool['internal_api']} {pool['version']} ({pool.get('architecture', 'unknown')})"
        for pool in threadpoolctl.threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return {
        "threads": threads,
        "load_average": round(os.getloadavg()[0], 2),
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "blas": blas[0] if blas else "unknown",
        "kernels": tensor.kernels_in_use(),
        "versions": versions,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def wait_for_quiet(load: float | None, patience: float = 1800.0) -> None:
    """Wait until the load average of the last minute is below ``load``, at most half an hour."""
    if load is None:
        return
    start = time.monotonic()
    while os.getloadavg()[0] >= load:
        if time.monotonic() - start > patience:
            raise SystemExit(f"the load average did not fall below {load} in {patience / 60:g} min")
        time.sleep(5)


def progress(iterable: Iterable[Any], **options: Any) -> Any:
    """Show progress through ``iterable`` on a terminal, and nothing elsewhere."""
    return tqdm(
        iterable, disable=not sys.stderr.isatty(), dynamic_ncols=True, leave=False, **options
    )


def tagged(name: str, tag: str) -> str:
    """Return a file's stem with the run's tag, if it has one."""
    return f"{name}_{tag}" if tag else name


def write_bytes(path: Path, content: bytes) -> Path:
    """Write ``content`` whole or not at all; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    part.replace(path)
    return path


def write_text(path: Path, text: str) -> Path:
    """Write ``text`` in UTF-8, whole or not at all; return the path."""
    return write_bytes(path, text.encode())


def write_json(path: Path, content: Mapping[str, Any]) -> Path:
    """Write ``content`` whole or not at all; return the path."""
    return write_text(path, json.dumps(content, indent=2) + "\n")


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows with the same keys, whole or not at all; return the path."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return write_text(path, text.getvalue())


def figure(columns: int = 1, width: float = 5.2, height: float = 3.6) -> tuple[Figure, Any]:
    """Return a figure with one row of axes, drawn without a display."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    # Fixed ids, so that the same numbers give the same bytes.
    mpl.rcParams.update(
        {
            "svg.hashsalt": "smolgrad",
            "axes.grid": True,
            "grid.alpha": 0.3,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "lines.markersize": 4,
        }
    )
    return pyplot.subplots(1, columns, figsize=(width * columns, height), layout="constrained")


def log_ticks(ax: Any) -> None:
    """Label the logarithmic y axis of ``ax`` with plain numbers: 1, 2, 5, 10, 20 and so on."""
    low, high = ax.get_ylim()
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    ax.set_yticks([tick for tick in ticks if low <= tick <= high], minor=False)
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("")


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as SVG and PNG; return the paths."""
    from matplotlib import pyplot

    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(stem.name + suffix) for suffix in (".svg", ".png")]
    for path in paths:
        figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
    return paths


def rounded(value: float | np.floating[Any], digits: int = 6) -> float:
    """Return ``value`` as a Python float with ``digits`` significant digits."""
    return float(f"{float(value):.{digits}g}")
