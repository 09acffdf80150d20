# %% [markdown]
# # 4. A neuron, and a network on two moons
#
# - **Before:** lesson 3.
# - **Time:** 45 minutes, exercises included.
# - **Goals:** know what a neuron computes; turn "how wrong is the model?" into one number; follow
#   its gradient downhill; know why gradients are zeroed between steps.
# - **Next:** lesson 5, arrays, and the adjoint of broadcasting.

# %%
import math
import random

import numpy as np
from classroom import chart, show

from micro import Value, nn, optim, softplus, tanh
from viz import draw

# %% [markdown]
# ## A neuron
#
# Weigh each input, add, add a bias, and bend the result: tanh(w1 x1 + w2 x2 + b). The weights and
# the bias are the *parameters*; they are what training changes. After a backward pass every
# parameter knows in which direction the output goes when it grows.

# %%
w = [Value(-3.0, label="w1"), Value(1.0, label="w2")]
b = Value(6.5, label="b")
x = [Value(2.0, label="x1"), Value(0.5, label="x2")]
out = tanh(w[0] * x[0] + w[1] * x[1] + b)
out.label = "out"
out.backward()
show(draw(out, parameters=[*w, b], title="A neuron: out = tanh(w1 x1 + w2 x2 + b)"))

# %% [markdown]
# The parameters are drawn as such. Note the gradient of w2: it is that of the sum times x2. A
# weight whose input is 0 learns nothing from this example.
#
# ## Two moons
#
# A point belongs to the upper moon (target 1) or the lower one (target -1). No straight line
# separates them, so no single neuron can.

# %%
rng = random.Random(1)


def moon(upper: bool) -> tuple[float, float]:
    """A point on one of the moons, a little off."""
    angle = rng.uniform(0.0, math.pi)
    x, y = math.cos(angle), math.sin(angle)
    if not upper:
        x, y = 1.0 - x, 0.5 - y
    return x + rng.gauss(0.0, 0.1), y + rng.gauss(0.0, 0.1)


targets = [1.0, -1.0] * 30
points = [moon(target > 0) for target in targets]

# %% [markdown]
# ## A network, and a loss
#
# `nn.MLP(2, [8, 1])` has 8 such neurons side by side (with relu for tanh) and one that weighs
# *their* results: 33 parameters in all. Its score should be positive on the upper moon and
# negative on the lower.
#
# How wrong is it? A score that has the target's sign should cost little, one that has not should
# cost more the further off it is. softplus(-target * score) does that; the *loss* is its mean.

# %%
model = nn.MLP(2, [8, 1], rng=random.Random(3))


def mean_loss() -> Value:
    """How wrong the model is, over all points."""
    total = sum(
        softplus(-target * model(point)) for point, target in zip(points, targets, strict=True)
    )
    return total / len(points)


show(f"{len(model.parameters())} parameters, loss {mean_loss().data:.3f} before training")

# %% [markdown]
# ## Downhill
#
# The gradient points uphill. A step against it lowers the loss, if it is small enough:
#
# 1. build the loss;
# 2. forget the old gradients;
# 3. run backward;
# 4. move every parameter.
#
# Step 2 is needed because leaves collect (lesson 3, wrong 4). Without it each step is pushed by
# all the gradients of the past.

# %%
optimizer = optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
losses = []
for _ in range(60):
    loss = mean_loss()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.data)
right = sum((model(p).data > 0) == (t > 0) for p, t in zip(points, targets, strict=True))
show(f"loss {losses[-1]:.3f} after training, {right} of {len(points)} points right")

# %%


def draw_losses(axes: object) -> None:
    """The loss, step by step."""
    axes.plot(losses)
    axes.set(xlabel="step", ylabel="loss", ylim=(0, None))


def draw_moons(axes: object) -> None:
    """The points, and the sign of the score everywhere."""
    across, up = np.linspace(-1.5, 2.5, 33), np.linspace(-1.0, 1.5, 25)
    scores = [[model((x, y)).data for x in across] for y in up]
    axes.contourf(across, up, scores, levels=[-1e9, 0, 1e9], colors=["#f6d9c5", "#d3e0f2"])
    axes.contour(across, up, scores, levels=[0], colors="black")
    for sign, marker in ((1.0, "o"), (-1.0, "^")):
        chosen = [p for p, t in zip(points, targets, strict=True) if t == sign]
        axes.plot(*zip(*chosen, strict=True), marker, color="#333333")
    axes.set(xlabel="x1", ylabel="x2")


show(
    chart(
        "Left: the loss falls, step by step. Right: the two moons, dots above and triangles "
        "below, and the bent line on which the score is 0: it runs between them.",
        draw_losses,
        draw_moons,
    )
)

# %% [markdown]
# ## Exercises
#
# `make lesson N=4 NEW=mine.py`, then `make lesson N=4 FILE=mine.py`.
#
# 1. `neuron(w, b, x)`: tanh of the weighted sum, on Values.
# 2. `hinge_loss(scores, targets)`: another loss, the mean of max(0, 1 - target * score).
# 3. `step(parameters, lr)`: move every parameter downhill.
# 4. `descend(loss, w, lr, steps)`: the whole loop, for one parameter.
