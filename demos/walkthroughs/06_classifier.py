# %% [markdown]
# # 6. Matmul, softmax and cross-entropy
#
# - **Before:** lesson 5; products of matrices.
# - **Time:** 50 minutes, exercises included.
# - **Goals:** derive the gradient of a matrix product from shapes alone; turn scores into
#   probabilities without overflow; know the gradient of cross-entropy by heart.
# - **Next:** lesson 7, how to prove that a gradient is right.

# %%
import numpy as np
from classroom import chart, show

import tensor
from tensor import Tensor
from viz import draw

# %% [markdown]
# ## A matrix product
#
# A layer with weights W, given a batch of inputs X, one per row, computes X @ W. Every entry of
# the result is a row times a column:

# %%
x = Tensor([[1.0, 2.0]], dtype="float64", requires_grad=True, label="x")
w = Tensor([[3.0, 4.0], [5.0, 6.0]], dtype="float64", requires_grad=True, label="w")
y = x @ w
y.label = "y"
weights = Tensor([[1.0, 10.0]], dtype="float64")
loss = (y * weights).sum()
loss.label = "loss"
loss.backward(retain_graph=True)
show(draw(loss, title="A matrix product and a loss"))
numbers = tensor.scalarize(loss)
numbers.output.backward()
show(draw(numbers.output, title="The product, number by number"))

# %% [markdown]
# In the second picture each weight is used once, and each input once per column. So the gradient
# of w[i, j] is x[i] times the gradient of y[j], and the gradient of x[i] is the sum over j.
# As matrices, with g the gradient of the product:
#
# | | shape |
# |---|---|
# | a | (m, k) |
# | b | (k, n) |
# | g | (m, n) |
# | gradient of a | (m, k): g and b make it in one way only |
# | gradient of b | (k, n): likewise from a and g |
#
# The shapes tell you which factor has to be transposed, and in which order they stand. Where
# m = k = n they tell nothing; that is where transposes get lost. Test with shapes that differ.

# %%
show(f"w.grad {w.grad.tolist()}")
show(f"x.grad {x.grad.tolist()}")

# %% [markdown]
# ## From scores to probabilities
#
# A classifier gives a score, a *logit*, to each class. Softmax makes probabilities of them:
# exp of each, over the sum of all exps. Only differences count: adding 100 to all the scores
# changes nothing, on paper. In the machine, exp(1000) is inf and inf / inf is nan.

# %%
scores = np.array([1000.0, 1001.0, 999.0])
with np.errstate(over="ignore", invalid="ignore"):
    show(f"as on paper: {np.exp(scores) / np.exp(scores).sum()}")
show(f"the engine:  {tensor.softmax(Tensor(scores), dim=0).numpy().round(4)}")

# %% [markdown]
# What could you subtract from all the scores so that no exp is larger than 1? The engine's own
# softmax, opened into numbers, shows what it does:

# %%
three = Tensor([[2.0, 1.0, 0.0]], dtype="float64", requires_grad=True, label="scores")
first = draw(lambda scores: tensor.softmax(scores, dim=1)[0, 0], three, zoom=True)
show(first.zoom("softmax"))

# %% [markdown]
#
# ## The loss of a classifier
#
# *Cross-entropy* is -log of the probability that the model gives to the right class, averaged
# over the batch. Certain and right costs 0. Certain and wrong costs as much as you like.

# %%
probability = np.linspace(0.005, 1.0, 200)


def draw_cost(axes: object) -> None:
    """The cost of one example."""
    axes.plot(probability, -np.log(probability))
    axes.set(xlabel="probability of the right class", ylabel="cross-entropy", ylim=(0, None))


show(
    chart(
        "-log p against p: it falls steeply from above 5 near 0, crosses 0.69 at p = 1/2, and "
        "reaches 0 at p = 1.",
        draw_cost,
    )
)

# %% [markdown]
# Its gradient is the simplest in all of deep learning: for each example, the probabilities, less
# 1 at the right class, over the number of examples.

# %%
logits = Tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 3.0]], dtype="float64", requires_grad=True)
logits.label = "logits"
target = Tensor([0, 1])
cost = tensor.cross_entropy(logits, target)
cost.label = "cost"
cost.backward()
show(draw(cost, title="The cross-entropy of two examples"))
show(f"probabilities\n{tensor.softmax(logits, dim=1).detach().numpy().round(3)}")
show(f"gradient\n{logits.grad.numpy().round(3)}")

# %% [markdown]
# Each row sums to 0: what is taken from the right class's score is given to the others. The first
# example is nearly right and is pushed little; the second is wrong and is pushed hard.
#
# ## Exercises
#
# `make lesson N=6 NEW=mine.py`, then `make lesson N=6 FILE=mine.py`.
#
# 1. `matmul_backward(g, a, b)`: both gradients of a @ b.
# 2. `softmax(x)`: probabilities, row by row, for scores of any size.
# 3. `cross_entropy(logits, target)`: the loss, for scores of any size.
# 4. `cross_entropy_backward(logits, target)`: its gradient.
