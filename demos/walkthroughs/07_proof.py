# %% [markdown]
# # 7. Proving it right
#
# - **Before:** lessons 1 and 6.
# - **Time:** 45 minutes, exercises included.
# - **Goals:** check any gradient against differences; know three ways in which a check is fooled;
#   distrust a check that you have not seen fail.
# - **Next:** lesson 8, who owns an array.

# %%
import textwrap

import numpy as np
from classroom import chart, show

import tensor
from tensor import GradcheckError, Tensor, gradcheck
from viz import draw

# %% [markdown]
# ## A wrong gradient trains
#
# A gradient that is off by a factor, or missing a term, often still points downhill. The loss
# falls, a little worse than it could, and nobody notices. So gradients are *proved*, one op at a
# time, against lesson 1: differences, to both sides, in float64.

# %%
x = Tensor([0.5, -1.0, 2.0], dtype="float64", requires_grad=True, label="x")
show(f"gradcheck of tanh: {gradcheck(tensor.tanh, x)}")

# %% [markdown]
# ## See it fail
#
# A check that has never failed has proved nothing: perhaps it cannot. Plant a fault. This op of
# our own squares its input, and its rule says 1.9 a where 2 a is right.

# %%


@tensor.custom_op(symbol="a² (wrong rule)", rules={"a": lambda xp, g, a: g * 1.9 * a})
def planted(a: np.ndarray) -> np.ndarray:
    """The square of a."""
    return a * a


y = planted(x).sum()
y.label = "y"
y.backward(retain_graph=True)
show(draw(y, title="An op with a planted fault"))
try:
    gradcheck(planted, x)
except GradcheckError as error:
    show(textwrap.fill(str(error), 96))

# %% [markdown]
# ## Three ways to be fooled
#
# **A tolerance that is too wide.** 1.9 for 2 is an error of 5 %. A check in float32 that allows
# 10 % lets it pass. A right gradient in float64 agrees to about 1e-10; whatever is worse than
# 1e-6 is a fault.

# %%
slopes = np.linspace(1.8, 2.2, 401)
error = np.maximum(np.abs(slopes - 2) / 2, 1e-10)


def draw_tolerances(axes: object) -> None:
    """The error of wrong slopes, and what two tolerances let pass."""
    axes.semilogy(slopes, error, color="black")
    for tolerance, style in ((1e-1, "--"), (1e-6, ":")):
        axes.axhline(tolerance, linestyle=style, color="#c4500c", label=f"tolerance {tolerance:g}")
    axes.set(xlabel="slope that a rule gives where 2 is right", ylabel="relative error")
    axes.legend()


show(
    chart(
        "The relative error of slopes around 2. A tolerance of 0.1 lets all from 1.8 to 2.2 pass; "
        "one of 1e-6 lets none pass but 2 itself.",
        draw_tolerances,
    )
)

# %% [markdown]
# **A sum that hides faults.** To check an op with many results, people sum the results and check
# one number. But softmax sums to 1 whatever its input is: the gradient of the sum is 0, and a
# rule that always returns 0 passes. With *random weights* no fault cancels.

# %%
logits = Tensor([0.5, -1.0, 2.0], dtype="float64", requires_grad=True)
weights = Tensor([0.3, -1.1, 0.7], dtype="float64")
(plain,) = tensor.grad(tensor.softmax(logits, dim=0).sum(), logits)
(weighted,) = tensor.grad((tensor.softmax(logits, dim=0) * weights).sum(), logits)
show(f"gradient of the sum          {plain.numpy().round(12)}")
show(f"gradient of the weighted sum {weighted.numpy().round(4)}")

# %% [markdown]
# **Inputs that are too nice.** At 0, at ties, for ones and for square matrices, many wrong rules
# are right. Take random numbers, and shapes in which no two sizes are alike. Where a function has
# a kink, as relu has at 0, a difference across the kink is neither slope: stay away from it.
#
# ## Other witnesses
#
# Differences see ten digits. Two more witnesses, each independent of the rule under test:
#
# - the other engine: `tensor.scalarize` expands a graph into scalars, whose derivatives were
#   written by themselves;
# - a known framework, run on the same numbers in the tests.
#
# That two derivations agree is evidence. That a formula agrees with itself is none.

# %%
tensor.remove_op(planted)

# %% [markdown]
# ## Exercises
#
# `make lesson N=7 NEW=mine.py`, then `make lesson N=7 FILE=mine.py`.
#
# 1. `numeric(f, x, w, eps)`: the gradient of the weighted sum of f(x), by differences.
# 2. `accepts(f, rule, x)`: a checker. It is tried on right rules and on planted faults.
