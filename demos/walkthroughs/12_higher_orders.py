# %% [markdown]
# # 12. Gradients of gradients
#
# - **Before:** lessons 3 and 7.
# - **Time:** 45 minutes, exercises included.
# - **Goals:** see a derivative as a computation that can be differentiated again; find a minimum
#   with second derivatives; multiply by a Hessian that is never built.
# - **Next:** the sources: micro/value.py and tensor/engine.py fit into an afternoon.

# %%
from collections.abc import Callable

import numpy as np
from classroom import chart, show

import tensor
from micro import Value, exp, grad
from tensor import Tensor
from viz import draw

# %% [markdown]
# ## A backward pass is a computation
#
# It multiplies and adds numbers, like any other. If it works on Values instead of plain numbers,
# it records itself, and its result can be differentiated like any other result. That is what
# `create_graph=True` asks for.

# %%
x = Value(2.0, label="x")
y = x**3
y.label = "y"
first = grad(y, x, create_graph=True)
first.label = "dy/dx"
second = grad(first, x)
show(f"x³ at 2: value {y.data}, first derivative {first.data}, second {second.data}")
first.backward()
show(draw(first, title="The derivative of x³, as a graph of its own, after a backward pass"))

# %% [markdown]
# The gradient in the box of x is that of the derivative: the second derivative, 12.
#
# Without `create_graph`, the first derivative is a finished number: it has forgotten x. An engine
# could then answer 0, or give the first derivative once more; this one says what is missing:

# %%
try:
    grad(grad(x**3, x), x)
except RuntimeError as error:
    show(f"RuntimeError: {error}")

# %% [markdown]
# There is no second set of rules for second derivatives. The rules of lesson 2 are written with
# ops, and ops have rules. So every order is right if the first is.


# %%
def bump(x: Value) -> Value:
    """exp(-x²)."""
    return exp(-(x**2))


def orders(x: float) -> list[float]:
    """The value and three derivatives."""
    at = Value(x)
    now, found = bump(at), []
    for _ in range(4):
        found.append(now.data)
        now = grad(now, at, create_graph=True)
    return found


places = np.linspace(-3, 3, 121)
curves = np.array([orders(float(place)) for place in places])


def draw_orders(axes: object) -> None:
    """Value and derivatives."""
    styles = {"f": "-", "f'": "--", "f''": "-.", "f'''": ":"}
    for curve, (name, style) in zip(curves.T, styles.items(), strict=True):
        axes.plot(places, curve, style, label=name)
    axes.legend()
    axes.set(xlabel="x")


show(
    chart(
        "exp(-x²), a bump, and its first three derivatives: each crosses 0 once more often than "
        "the one before it.",
        draw_orders,
        width=7,
    )
)

# %% [markdown]
# ## What second derivatives are for
#
# The first derivative says which way is downhill, the second how far. Near a minimum a function
# is almost a parabola, and the bottom of that parabola lies at x - f'(x) / f''(x). Going there is
# *Newton's method*. Gradient descent (lesson 4) gets a few digits closer per dozen steps; Newton
# doubles the number of right digits with each.


# %%
def valley(x: Value) -> Value:
    """A curve with its minimum at ln 2."""
    return exp(x) - 2 * x


def slopes(x: float) -> tuple[float, float]:
    """The first and the second derivative of valley."""
    at = Value(x)
    once = grad(valley(at), at, create_graph=True)
    return once.data, grad(once, at).data


downhill, newton = 0.0, 0.0
for step in range(1, 6):
    downhill -= 0.3 * slopes(downhill)[0]
    once, twice = slopes(newton)
    newton -= once / twice
    show(
        f"step {step}: off by {abs(downhill - np.log(2)):.1e} downhill, "
        f"by {abs(newton - np.log(2)):.1e} with Newton"
    )

# %% [markdown]
# ## With many variables
#
# The second derivatives of f by x[i] and x[j] form a matrix, the *Hessian*. For a million
# parameters it has 10¹² entries, and nobody builds it. But H v, the Hessian times a vector, costs
# about two backward passes: it is the gradient of the *number* g · v, where g is the gradient.

# %%


def rosenbrock(x: Tensor) -> Tensor:
    """A curved valley with its lowest point at (1, 1)."""
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


point = Tensor([-1.0, 2.0], dtype="float64")
direction = Tensor([1.0, 10.0], dtype="float64")
hessian = tensor.hessian(rosenbrock, point)
_, product = tensor.hvp(rosenbrock, point, direction)
show(f"the Hessian {hessian.tolist()}")
show(f"times v {(hessian @ direction).tolist()}, without building it {product.tolist()}")

# %% [markdown]
# A gradient in a loss is the other use: to train a model not to change abruptly, punish the size
# of its own gradient. That loss contains a derivative, and its gradient is a second one.

# %%
w = Tensor([0.5, -1.0], dtype="float64", requires_grad=True, label="w")
inputs = Tensor([1.0, 2.0], dtype="float64", requires_grad=True, label="inputs")
out = tensor.tanh((w * inputs).sum())
(slope,) = tensor.grad(out, inputs, create_graph=True)
penalty = (slope**2).sum()
penalty.label = "penalty"
penalty.backward(retain_graph=True)
show(draw(penalty, title="A penalty on a gradient", direction="TB"))
show(f"the penalty's gradient by w: {w.grad.numpy().round(4)}")


# %%
def penalty_of(w: Tensor) -> Tensor:
    """The same, as a function."""
    at = inputs.detach().requires_grad_()
    (slope,) = tensor.grad(tensor.tanh((w * at).sum()), at, create_graph=True)
    return (slope**2).sum()


checker: Callable[..., bool] = tensor.gradcheck
show(f"checked by differences: {checker(penalty_of, w)}")

# %% [markdown]
# ## Exercises
#
# `make lesson N=12 NEW=mine.py`, then `make lesson N=12 FILE=mine.py`.
#
# 1. `derivative(f, x, n)`: the n-th derivative.
# 2. `newton(f, x, steps)`: to the minimum.
# 3. `hessian_times(f, xs, v)`: a product with a matrix that is never built.
