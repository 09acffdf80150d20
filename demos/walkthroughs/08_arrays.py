# %% [markdown]
# # 8. Who owns an array: aliasing, dtype, versions
#
# - **Before:** lesson 5; views in numpy.
# - **Time:** 45 minutes, exercises included.
# - **Goals:** find out whether two arrays share memory; add up gradients without spoiling
#   anybody's; keep float32 float32; notice a saved array that was changed.
# - **Next:** lesson 9, a real model.

# %%
import numpy as np
from classroom import show

import tensor
from tensor import Tensor
from viz import draw

# %% [markdown]
# ## Two names, one memory
#
# `b = a` copies nothing, and neither does a slice, a transposition or a reshape: these are *views*.
# Whoever writes through one changes the other.

# %%
a = np.zeros(3)
b = a[:2]
b += 1
show(f"a is {a} now: b is a view of it")

# %% [markdown]
# `b = b + 1` would have made a new array; `b += 1` writes into the old one. In a backward pass
# that difference decides between right and wrong:
#
# The rule of a sum passes g on to both operands, the *same array* to both. If the engine then adds
# to the gradient of one in place, the other's changes, too.

# %%
x = Tensor([1.0, 2.0], requires_grad=True, label="x")
y = Tensor([3.0, 4.0], requires_grad=True, label="y")
z = x + y
loss = (z * z).sum() + x.sum()
z.label, loss.label = "z", "loss"
loss.backward(retain_graph=True)
show(draw(loss, title="x gets two parts, y gets one"))
show(f"x.grad {x.grad.tolist()}, y.grad {y.grad.tolist()}")
show(f"do they share memory? {np.shares_memory(x.grad.numpy(), y.grad.numpy())}")

# %% [markdown]
# The engine adds in place only what it has made itself. What came from a rule unchanged, a view,
# or the caller's own array is copied first. Constructing a Tensor copies, too:

# %%
mine = np.ones(3)
copied, shared = Tensor(mine), tensor.from_numpy(mine)
mine[0] = 9.0
show(f"copied {copied.tolist()}, shared on request {shared.tolist()}")

# %% [markdown]
# ## Changed in between
#
# The rule of x * x needs x when the backward pass comes. If x has been changed by then, the
# gradient would be that of another computation. PyTorch and this engine count: every memory has a
# *version*, one up for each change in place, and a saved array is kept with the version that it
# had.

# %%
w = Tensor([1.0, 2.0], requires_grad=True)
u = w * 1
v = (u * u).sum()
u += 1
try:
    v.backward()
except RuntimeError as error:
    show(f"RuntimeError: {error}")
show(f"nothing was written: w.grad is {w.grad}")

# %% [markdown]
# An error is better than a wrong number. Silence is what you get from an engine without versions.
#
# ## float32 stays float32
#
# Half the memory, twice the speed: models are trained in float32. One float64 among the operands
# turns everything after it into float64, and numpy's own scalars are float64. So the engine lets
# numbers, numpy's too, take the dtype of the tensor:

# %%
t = Tensor([1.0, 2.0])
show(f"tensor: {(np.float64(0.1) * t).dtype}; numpy alone: {(np.float64(0.1) * t.numpy()).dtype}")

# %% [markdown]
# ## Exercises
#
# `make lesson N=8 NEW=mine.py`, then `make lesson N=8 FILE=mine.py`.
#
# 1. `total(gradients)`: their sum, without spoiling any of them.
# 2. `scaled(x, factor)`: a multiple, in the dtype of x.
# 3. `square_backward(g, box, version)`: a rule that notices a change.
