"""Differentiate a 67-parameter network numerically, with steps of every size.

Question: how small should the step of a finite difference be, and how exact can it get?

The error of a central difference has two parts: truncation, which grows as h^2, and
rounding, which grows as eps / h, where eps is the spacing of the numbers at 1. Their sum
is least near h = eps^(1/3), and there it is about eps^(2/3). A complex step
(Squire and Trapp, 1998, SIAM Review 40), Im f(x + ih) / h, subtracts nothing, so it has
no rounding part and may be as small as one likes; but f must be analytic.

Each is compared with the gradient that this engine computes in float64, over all
parameters of a 4-8-3 tanh network with cross-entropy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from report import (
    RESULTS,
    STYLES,
    check_out,
    check_range,
    command,
    environment,
    figure,
    limit_threads,
    progress,
    rounded,
    save_figure,
    tagged,
    write_csv,
    write_json,
)

import tensor
from tensor import Generator, Tensor

SIZES = (4, 8, 3)
PARAMETERS = 4 * 8 + 8 + 8 * 3 + 3
DTYPES = ("float32", "float64")
# The negative powers of ten between which the steps lie.
DIFFERENCE_DECADES, COMPLEX_DECADES = (0, 13), (0, 20)


@dataclass
class Options:
    """Options of the sweep."""

    per_decade: int = 4
    """steps in each power of ten"""
    samples: int = 16
    """samples that the loss is the mean over"""
    seed: int = 0
    """of the weights and the samples"""
    tag: str = ""
    """added to the names of the results"""
    out: Path = RESULTS
    """the folder that the results go to"""


@dataclass
class Problem:
    """A loss as a function of the weights (67,), and where it is differentiated.

    ``weights`` are float64 numbers that float32 can hold too, so that both dtypes speak of
    one point; likewise the inputs ``x`` (N, 4). ``y`` are classes (N,).
    """

    weights: np.ndarray
    x: np.ndarray
    y: np.ndarray

    @classmethod
    def drawn(cls, seed: int, samples: int) -> Problem:
        """Return a random one."""
        generator = Generator(seed)
        weights = generator.normal(0, 0.5, PARAMETERS, np.float32).astype(np.float64)
        x = generator.normal(shape=(samples, SIZES[0]), dtype=np.float32).astype(np.float64)
        return cls(weights, x, generator.integers(0, SIZES[2], samples))

    def loss(self, weights: Tensor) -> Tensor:
        """Return the loss, computed by the engine in the dtype of ``weights``."""
        inputs, hidden, outputs = SIZES
        first = hidden * inputs
        second = first + hidden + outputs * hidden
        w1, b1 = weights[:first].reshape(hidden, inputs), weights[first : first + hidden]
        w2 = weights[first + hidden : second].reshape(outputs, hidden)
        x = tensor.from_numpy(self.x).to(weights.dtype)
        activations = tensor.linear(x, w1, b1, "tanh")
        logits = tensor.linear(activations, w2, weights[second:])
        return tensor.cross_entropy(logits, tensor.from_numpy(self.y))

    def complex_loss(self, weights: np.ndarray) -> complex:
        """Return the same of complex weights, in plain numpy."""
        inputs, hidden, outputs = SIZES
        w1, b1, w2, b2 = np.split(
            weights, np.cumsum([hidden * inputs, hidden, outputs * hidden]).tolist()
        )
        activations = np.tanh(self.x @ w1.reshape(hidden, inputs).T + b1)
        logits = activations @ w2.reshape(outputs, hidden).T + b2
        # log-sum-exp without a shift: a maximum is not analytic, and these logits are small
        losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(self.y)), self.y]
        return complex(losses.mean())

    def gradient(self, dtype: str = "float64") -> np.ndarray:
        """Return the engine's gradient (67,)."""
        weights = Tensor(self.weights, dtype=dtype, requires_grad=True)
        (found,) = tensor.grad(self.loss(weights), weights)
        assert found is not None
        return found.data

    def difference(self, step: float, dtype: str) -> np.ndarray:
        """Return the gradient (67,) by central differences, computed in ``dtype`` throughout."""
        base = self.weights.astype(dtype)
        h = base.dtype.type(step)
        found = np.empty_like(base)
        with tensor.no_grad():
            for i in range(PARAMETERS):
                values = []
                for shift in (h, -h):
                    moved = base.copy()
                    moved[i] += shift
                    values.append(self.loss(tensor.from_numpy(moved)).data)
                found[i] = (values[0] - values[1]) / (2 * h)
        return found

    def complex_step(self, step: float) -> np.ndarray:
        """Return the gradient (67,) by complex steps."""
        found = np.empty(PARAMETERS)
        for i in range(PARAMETERS):
            moved = self.weights.astype(np.complex128)
            moved[i] += 1j * step
            found[i] = self.complex_loss(moved).imag / step
        return found


def steps(decades: tuple[int, int], per_decade: int) -> np.ndarray:
    """Return steps from the largest to the smallest, evenly spaced in their logarithm."""
    first, last = decades
    return np.logspace(-first, -last, (last - first) * per_decade + 1)


def sweep(problem: Problem, per_decade: int) -> list[dict[str, Any]]:
    """Return a row for every method, dtype and step: the relative error of the gradient."""
    exact = problem.gradient()

    def error(found: np.ndarray) -> float:
        return rounded(np.linalg.norm(found - exact) / np.linalg.norm(exact))

    methods: Sequence[tuple[str, str, tuple[int, int], Callable[[float], np.ndarray]]] = (
        *(
            (
                "central difference",
                dtype,
                DIFFERENCE_DECADES,
                lambda h, d=dtype: problem.difference(h, d),
            )
            for dtype in DTYPES
        ),
        ("complex step", "complex128", COMPLEX_DECADES, problem.complex_step),
    )
    return [
        {"method": method, "dtype": dtype, "step": rounded(h), "error": error(gradient(h))}
        for method, dtype, decades, gradient in methods
        for h in progress(steps(decades, per_decade), desc=f"{method}, {dtype}", unit="step")
    ]


def theory(dtype: str) -> tuple[float, float]:
    """Return the best step of a central difference and its error, up to factors near 1."""
    eps = float(np.finfo(dtype).eps)
    return eps ** (1 / 3), eps ** (2 / 3)


def curve(rows: list[dict[str, Any]], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps and errors of one dtype."""
    chosen = [(row["step"], row["error"]) for row in rows if row["dtype"] == dtype]
    found = np.array(chosen)
    return found[:, 0], found[:, 1]


def summarise(rows: list[dict[str, Any]], problem: Problem) -> dict[str, Any]:
    """Return the best step and error of each dtype beside what theory says."""
    exact = problem.gradient()
    result: dict[str, Any] = {"parameters": PARAMETERS, "samples": len(problem.y)}
    for dtype in (*DTYPES, "complex128"):
        h, errors = curve(rows, dtype)
        best = int(errors.argmin())
        result[dtype] = {"best_step": float(h[best]), "best_error": float(errors[best])}
        if dtype in DTYPES:
            step, error = theory(dtype)
            result[dtype] |= {
                "theoretical_step": rounded(step),
                "theoretical_error": rounded(error),
                "error_at_1e-6": float(errors[np.abs(np.log10(h) + 6).argmin()]),
            }
    # The engine's own rounding, for scale.
    own = np.linalg.norm(problem.gradient("float32") - exact) / np.linalg.norm(exact)
    result["float32"]["error_of_the_engine"] = rounded(own)
    return result


def plot(rows: list[dict[str, Any]], stem: Path) -> list[Path]:
    """Draw error against step, with the minima of theory."""
    drawing, ax = figure(1, width=7.2, height=4.6)
    labels = ("central difference, float32", "central difference, float64", "complex step")
    for dtype, label, style in zip((*DTYPES, "complex128"), labels, STYLES, strict=False):
        h, errors = curve(rows, dtype)
        # An error of 0 has no place on this axis.
        ax.plot(h, np.maximum(errors, 1e-17), label=label, **style)
    for dtype, style in zip(DTYPES, STYLES, strict=False):
        step, error = theory(dtype)
        ax.plot([step, step], [1e-17, error], color=style["color"], linewidth=1.2, linestyle=":")
        ax.plot(step, error, color="black", marker="*", markersize=13, linestyle="none", zorder=3)
        ax.annotate(
            f"$\\varepsilon^{{1/3}}$ = {step:.0e}\n$\\varepsilon^{{2/3}}$ = {error:.0e}",
            (step, error),
            xytext=(10, -24),
            textcoords="offset points",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    ax.plot([], [], color="black", marker="*", markersize=11, linestyle="none", label="theory")
    ax.set(
        title=f"Error of a numerical gradient, {PARAMETERS} parameters",
        xlabel="step h",
        ylabel="relative error",
        xscale="log",
        yscale="log",
        xlim=(3e-21, 6),
        ylim=(3e-18, 1e3),
    )
    ax.legend(loc="center left", bbox_to_anchor=(0.01, 0.45))
    return save_figure(drawing, stem)


def main(options: Options) -> None:
    """Sweep, report, and write the results."""
    check_out(options.out)
    for name, value in (("per-decade", options.per_decade), ("samples", options.samples)):
        check_range(name, value, 1)
    check_range("seed", options.seed, 0)
    place = environment(limit_threads(1), ("numpy", "smolgrad"))
    problem = Problem.drawn(options.seed, options.samples)
    rows = sweep(problem, options.per_decade)
    summary = {"command": command(), "seed": options.seed, **summarise(rows, problem), **place}
    written = [
        write_csv(options.out / f"{tagged('eps_sweep', options.tag)}.csv", rows),
        write_json(options.out / f"{tagged('eps_sweep', options.tag)}.json", summary),
        *plot(rows, options.out / tagged("eps_sweep", options.tag)),
    ]
    for dtype in DTYPES:
        found = summary[dtype]
        print(
            f"{dtype}: a central difference is best at {found['best_step']:.1e} with an error of "
            f"{found['best_error']:.1e} (theory: {found['theoretical_step']:.1e} and "
            f"{found['theoretical_error']:.1e}); at 1e-6 its error is {found['error_at_1e-6']:.1e}"
        )
    print(f"a complex step gets to {summary['complex128']['best_error']:.1e}")
    print("written: " + ", ".join(str(path) for path in written))


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
