# %% [markdown]
# # 5. Broadcasting has an adjoint
#
# - **Before:** lesson 3; shapes of numpy arrays.
# - **Time:** 40 minutes, exercises included.
# - **Goals:** see an array op as many scalar ops; know that what forward repeats, backward sums;
#   undo any broadcast in a gradient.
# - **Next:** lesson 6, matmul, softmax and cross-entropy.

# %%
import numpy as np
from classroom import show

import tensor
from tensor import Tensor
from viz import draw

# %% [markdown]
# ## One array op, many numbers
#
# numpy adds a (3, 1) to a (1, 4) by repeating both to (3, 4). Nothing is copied, but each number
# of the column is *used* four times, and each of the row three times.

# %%
a = Tensor([[1.0], [2.0], [3.0]], requires_grad=True, label="a")
b = Tensor([[10.0, 20.0, 30.0, 40.0]], requires_grad=True, label="b")
y = a * b
y.label = "y"
show(str(y))

# %% [markdown]
# Lesson 3 said what becomes of a Value that is used several times: its gradients add up. So:
#
# **What broadcasting repeats on the way forward is summed on the way back.** Repeating and summing
# are each other's *adjoint*.

# %%
y.sum().backward(retain_graph=True)
show(f"a.grad {a.grad.tolist()}: every entry is 10 + 20 + 30 + 40")
show(f"b.grad {b.grad.tolist()}: every entry is 1 + 2 + 3")

# %% [markdown]
# A gradient always has the shape of its tensor: a.grad is (3, 1), like a.
#
# ## The same, number by number
#
# `tensor.scalarize` expands a graph of arrays into the graph of numbers that it stands for. Here
# is a (2, 1) times a (2,), summed with weights. Count the arrows that leave each input.

# %%
u = Tensor([[1.0], [2.0]], dtype="float64", requires_grad=True, label="u")
v = Tensor([3.0, 5.0], dtype="float64", requires_grad=True, label="v")
weights = Tensor([[1.0, 2.0], [3.0, 4.0]], dtype="float64")
loss = (u * v * weights).sum()
loss.label = "loss"
loss.backward(retain_graph=True)
show(draw(loss, title="Two arrays and a loss"))

# %%
numbers = tensor.scalarize(loss)
numbers.output.backward()
show(draw(numbers.output, title="The same, number by number"))
by_number = [value.grad for value in numbers.leaves[u].flat]
show(f"u.grad from arrays {u.grad.flatten().tolist()}, from numbers {by_number}")

# %% [markdown]
# The two engines know nothing of each other's rules and agree.
#
# ## Which dimensions are summed?
#
# numpy lines shapes up at the right. A dimension was repeated if the operand has no such
# dimension (it is shorter), or has size 1 there while the result has not:
#
# | operand | result | summed | gradient |
# |---|---|---|---|
# | (4,) | (3, 4) | dimension 0 | (4,) |
# | (3, 1) | (3, 4) | dimension 1, kept as size 1 | (3, 1) |
# | () | (3, 4) | both | () |
# | (1, 4) | (1, 4) | none | (1, 4) |
#
# Forget it, and the gradient has the result's shape. At best an error follows; at worst numpy
# broadcasts once more, and a bias of shape (4,) quietly becomes a (3, 4).
#
# ## Sums and means are the other way round
#
# A sum uses each number once and makes them one. Its adjoint repeats: every element gets the
# gradient of the sum. A mean over n does the same with one n-th of it.

# %%
x = Tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
(x.mean(dim=1) * Tensor([1.0, 10.0], dtype="float64")).sum().backward()
show(str(x.grad))

# %% [markdown]
# ## Exercises
#
# `make lesson N=5 NEW=mine.py`, then `make lesson N=5 FILE=mine.py`.
#
# 1. `unbroadcast(g, shape)`: from the gradient of the result to that of an operand.
# 2. `mul_backward(g, a, b)`: both gradients of a broadcast product.
# 3. `mean_backward(g, shape, dim)`: the gradient of a mean.
