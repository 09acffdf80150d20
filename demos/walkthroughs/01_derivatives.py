# %% [markdown]
# # 1. What a derivative is, and how small eps should be
#
# - **Before:** Python functions, and the slope of a line from school.
# - **Time:** 30 minutes, exercises included.
# - **Goals:** say what a derivative measures; compute one from two calls of a function; know why
#   a smaller step is not always a better one.
# - **Next:** lesson 2, one node and one local derivative.

# %%
import numpy as np
from classroom import chart, show

# %% [markdown]
# ## A question about a machine
#
# A machine turns a number x into a number f(x). You are at x = 3 and turn the knob by a little,
# eps. By how much does the output move? Divide that by eps, and you have the *derivative*: output
# per input, right here.


# %%
def f(x: float) -> float:
    """A machine."""
    return x**3 - 2 * x


for eps in (1.0, 0.1, 0.01, 0.001):
    show(f"eps = {eps:<6}  (f(3 + eps) - f(3)) / eps = {(f(3 + eps) - f(3)) / eps:.6f}")

# %% [markdown]
# The quotients settle at 25, which is what calculus says: f'(x) = 3 x² - 2. The number is a
# promise for small moves: from x = 3, a move of 0.01 changes the output by about 0.25.
#
# ## Look to both sides
#
# The quotient above looks ahead only. It is off by about f''(x) eps / 2, because the curve bends
# away. Looking as far back as ahead, the bends cancel, and what is left is about
# f'''(x) eps² / 6. Half the step, a quarter of the error. That is the *central difference*, and
# you will write it in exercise 1.
#
# ## Then let eps go to zero?
#
# A computer holds a number to some 16 digits (float64) or 7 (float32). f(x + eps) and f(x - eps)
# agree in most of them, the subtraction cancels those, and what is left are the last, rounded
# digits, divided by a tiny eps. So there are two errors: one falls with eps, one grows.

# %%
steps = 10.0 ** np.arange(-12, 0, 0.25)


def errors(dtype: type[np.floating], both_sides: bool) -> np.ndarray:
    """The relative error of the slope of sin at 1, for every step."""
    x, exact = dtype(1), np.cos(1.0)
    eps = steps.astype(dtype)
    back = eps if both_sides else dtype(0)
    slopes = (np.sin(x + eps) - np.sin(x - back)) / (eps + back)
    return np.abs(slopes.astype(np.float64) / exact - 1) + 1e-17


def draw_errors(axes: object) -> None:
    """The three curves."""
    styles = {
        "one side, float64": ((np.float64, False), "--"),
        "both sides, float64": ((np.float64, True), "-"),
        "both sides, float32": ((np.float32, True), ":"),
    }
    for name, (options, style) in styles.items():
        axes.loglog(steps, errors(*options), style, label=name)
    axes.set(xlabel="eps", ylabel="relative error", ylim=(1e-13, 10))
    axes.legend()


best = steps[errors(np.float64, True).argmin()]
show(
    chart(
        "Relative error of the slope of sin at 1 against eps: three curves like a V. From both "
        f"sides in float64 the lowest point is near eps = {best:.0e}; from one side it is near "
        "1e-8 and higher; in float32 it is near 1e-2 and much higher.",
        draw_errors,
        width=7,
    )
)

# %% [markdown]
# Read the curves from the right: eps shrinks, the bend's error falls, steeper for both sides.
# Then rounding takes over and the error climbs again. The bottom is where the two are equal:
#
# | | best eps | error there |
# |---|---|---|
# | one side, float64 | about 1e-8 | about 1e-8 |
# | both sides, float64 | about 1e-5 | about 1e-10 |
# | both sides, float32 | about 5e-3 | about 1e-5 |
#
# So: **both sides, float64, eps near 1e-6.** In float32 with eps = 1e-6 hardly a digit is right.
#
# Differences are good for checking. They are bad for training: a model with a million parameters
# needs two million calls for one gradient, and gets ten digits at best. The rest of the course
# finds all the derivatives in one walk, to full precision.
#
# ## Exercises
#
# `make lesson N=1 NEW=mine.py` begins a file, `make lesson N=1 FILE=mine.py` checks it.
#
# 1. `slope(f, x, eps)`: the central difference.
# 2. `gradient(f, xs, eps)`: the slope in each of several inputs, the others held fixed.
# 3. `relative_error(got, wanted)`: how far off, compared with the size of the numbers.
