# %% [markdown]
# # 3. Backward: the order, and the sum
#
# - **Before:** lesson 2.
# - **Time:** 60 minutes, exercises included.
# - **Goals:** see why gradients add up where a Value is used twice; see why the order of the walk
#   matters; recognise four wrong backward passes by their results; write a right one.
# - **Next:** lesson 4, a neuron and a network.

# %%
from classroom import player, show

from micro import Value, record_sites
from viz import draw

# %% [markdown]
# ## Two ways from x to c
#
# In lesson 2 every Value was used once. Here y is used twice:

# %%


def diamond() -> tuple[Value, Value, Value]:
    """x, y = 3 x and c = 2 y + 5 y."""
    x = Value(2.0, label="x")
    y = 3 * x
    c = 2 * y + 5 * y
    y.label, c.label = "y", "c"
    return x, y, c


with record_sites():
    x, y, c = diamond()
c.backward()
show(draw(c, title="The diamond: y = 3 x, c = 2 y + 5 y"))

# %% [markdown]
# If y moves by 1, c moves by 2 on one way and by 5 on the other: by 7 in all. **Where a Value is
# used several times, its gradient is the sum over its uses.** Then x, whose gear ratio to y is 3,
# gets 3 * 7 = 21.
#
# Note the order: the 7 must be complete before it is multiplied by 3. A Value may pass its
# gradient on only when all its uses have sent theirs.
#
# Step through what the engine does (arrow keys, or the buttons):

# %%
show(player(c, title="The backward pass through the diamond"))

# %% [markdown]
# ## Four wrong versions
#
# Each of these is short, looks right, and passes on a chain. All start with d c / d c = 1.
#
# **Wrong 1: `=` for `+=`.** The second way overwrites the first.

# %%


def below(y: Value) -> list[Value]:
    """Everything that y was made of, as the engine orders it: y first."""
    from micro.value import topological

    return topological(y)


def overwriting(y: Value) -> None:
    """Wrong: the last use wins."""
    y.grad = 1.0
    for node in below(y):
        for value, local in zip(node.inputs, node.partials(), strict=True):
            if local is not None:  # a constant
                value.grad = local * node.grad


x, y, c = diamond()
overwriting(c)
show(f"wanted 21.0, got {x.grad}")
s = Value(3.0, label="s")
squared = s * s
overwriting(squared)
show(f"s * s at 3: wanted 6.0, got {s.grad}; both arrows come from the same s")

# %% [markdown]
# **Wrong 2: the wrong order.** This one adds, but hands a gradient on as soon as it meets a Value:
# y sends 3 times its first part, and when the second part arrives it has been dealt with.

# %%


def too_early(y: Value) -> None:
    """Wrong: nodes pass on what they have when they are met first."""
    y.grad = 1.0
    todo, seen = [y], {y}
    while todo:
        node = todo.pop()
        for value, local in zip(node.inputs, node.partials(), strict=True):
            if local is not None:
                value.grad += local * node.grad
                if value not in seen:
                    seen.add(value)
                    todo.append(value)


x, y, c = diamond()
too_early(c)
show(f"y: wanted 7.0, got {y.grad}; x: wanted 21.0, got {x.grad}")

# %% [markdown]
# y itself has the right sum in the end. x was told too early.
#
# **Wrong 3: recursion.** A function that calls itself for every input is right on small graphs.
# Python stops at about 1,000 calls within calls; a loop over a sequence of 5,000 steps is deeper.

# %%


def reachable(node: Value, seen: set[Value]) -> set[Value]:
    """Wrong for deep graphs: one call for every Value below the one before."""
    if node not in seen:
        seen.add(node)
        for value in node.inputs:
            reachable(value, seen)
    return seen


deep = Value(1.0)
for _ in range(5_000):
    deep = deep + 1
try:
    reachable(deep, set())
except RecursionError as error:
    show(f"RecursionError: {error}")

# %% [markdown]
# **Wrong 4: a stale gradient.** Adding is right within one pass. But what does the sum start
# from? If a Value in the middle still holds the last pass's gradient, it is passed on once more.
# Parameters are the exception: they collect from pass to pass on purpose, until `zero_grad()`.

# %%
x, y, c = diamond()
too_early(c)
first = y.grad
too_early(c)
show(f"y after one pass {first}, after two {y.grad}")
x, y, c = diamond()
c.backward()
c.backward()
show(f"the engine: y {y.grad} in each pass, and x, a leaf, collects 2 * 21 = {x.grad}")

# %% [markdown]
# ## A good order
#
# Any order will do in which every Value comes *before its inputs*, that is, after all its uses.
# There is one for every graph. A way to find it: count, for every Value, its uses in the graph.
# Start with the result. Whoever is listed crosses one use off each of its inputs (a Value used
# twice by the same op has two to cross off); whoever has none left can be listed.
#
# Both steps are linear in the size of the graph. That matters: `x = x + x`, sixty times, has 61
# Values and 2⁶⁰ ways from the end to the start. Whoever walks the ways does not come back.
#
# ## Exercises
#
# `make lesson N=3 NEW=mine.py`, then `make lesson N=3 FILE=mine.py`.
#
# 1. `order(y)`: list everything that y was made of, each Value before its inputs.
# 2. `backward(y)`: set the gradient of all of them.
# 3. `ways(y, x)`: how many ways lead from y down to x?
