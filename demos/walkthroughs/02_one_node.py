# %% [markdown]
# # 2. One node, one local derivative
#
# - **Before:** lesson 1.
# - **Time:** 30 minutes, exercises included.
# - **Goals:** read a computation as a graph; know what a node records; give the local derivative
#   of an op; multiply local derivatives along a chain.
# - **Next:** lesson 3, the backward pass through any graph.

# %%
from classroom import show

from micro import Value, tanh
from viz import draw

# %% [markdown]
# ## A number that remembers
#
# A `Value` holds one number. An op on Values makes a new Value, which records three things: the
# result, the *name* of the op, and the Values that went in. Nothing else.

# %%
a, b = Value(2.0, label="a"), Value(-3.0, label="b")
p = a * b
p.label = "p"
show(f"p.data = {p.data}, p.op = {p.op!r}, p.inputs = {p.inputs}")

# %% [markdown]
# Drawn, a Value is a box, and an arrow leads from each input to what was made of it.

# %%
y = tanh(p + 7)
y.label = "y"
show(draw(y, title="y = tanh(a * b + 7), before any backward pass"))

# %% [markdown]
# ## The local derivative
#
# Stand at one node and forget the rest. If its input moves by a little, by how much does its own
# number move? That needs the op and the numbers at its door, nothing from far away:
#
# | op | by a | by b |
# |---|---|---|
# | a + b | 1 | 1 |
# | a * b | b | a |
# | tanh(a) | 1 - tanh(a)² | |
#
# A node can tell you:

# %%
show(f"at {p.data} = {a.data} * {b.data}, the local derivatives are {p.partials()}")

# %% [markdown]
# Read it: b is -3, so a move of a by 0.01 moves p by -0.03. Lesson 1 can check that:

# %%
eps = 1e-6
show(((a.data + eps) * b.data - (a.data - eps) * b.data) / (2 * eps))

# %% [markdown]
# ## A chain multiplies
#
# Gears: if the second turns 3 times as fast as the first, and the third 2 times as fast as the
# second, then the third turns 6 times as fast as the first. Derivatives are gear ratios. Along
# a chain they multiply; that is the *chain rule*.

# %%
x = Value(0.5, label="x")
u = 3 * x
v = u**2
w = tanh(v / 4)
u.label, v.label, w.label = "u", "v", "w"
w.backward()
show(draw(w, title="w = tanh((3 x)² / 4): each arrow carries its local derivative"))

# %% [markdown]
# Multiply the numbers on the arrows from w back to x: that is the gradient in the box of x. No
# formula for the whole was needed, only one for each op. That is the entire calculus of this
# project; `micro/ops.py` has it on a few pages: for each op its value and, above it, its local
# derivatives.
#
# ## Exercises
#
# `make lesson N=2 NEW=mine.py`, then `make lesson N=2 FILE=mine.py`.
#
# 1. `partials(op, a, b)`: the two local derivatives of `add`, `sub`, `mul` and `div`.
# 2. `tanh_partial(out)`: the local derivative of tanh, from its *result* alone.
# 3. `along_chain(y)`: the derivative at the end of a chain of any length.
