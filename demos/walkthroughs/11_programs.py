# %% [markdown]
# # 11. Records, programs, fusion: making it fast
#
# - **Before:** lessons 8 and 9.
# - **Time:** 45 minutes, exercises included.
# - **Goals:** read a training step as a list of instructions; know where the time goes; see what
#   can be done to a computation because it is data.
# - **Next:** lesson 12, gradients of gradients.

# %%
import time
from collections.abc import Callable

import numpy as np
from classroom import chart, show

import tensor
from tensor import Tensor, nn, optim
from viz import draw

# %% [markdown]
# ## A computation as data
#
# An op is recorded as its name, its inputs and its attributes (lesson 2). That was enough to walk
# back. It is also enough to print, draw, rewrite and *replay* a computation. `tensor.trace` runs a
# function once and returns all that it did, a `Program`.

# %%


def bend(x: Tensor, y: Tensor) -> Tensor:
    """A few ops on arrays."""
    return ((2 * x + y) * x - y) * 0.5


x, y = Tensor([0.0, 1.0, 2.0], label="x"), Tensor([1.0, 1.0, 1.0], label="y")
program = tensor.trace(bend)(x, y)
show(str(program))
show(draw(program, x, y, direction="TB", title="The program of bend, replayed on x and y"))

# %% [markdown]
# One op, one line. The program can be run again on other arrays:

# %%
other = Tensor([3.0, -1.0, 0.5])
show(f"replayed: {program(other, y).tolist()}")
show(f"called:   {bend(other, y).tolist()}")

# %% [markdown]
# ## A whole training step
#
# Rules are made of ops, so a backward pass writes itself into the program, and so does the
# optimizer's step:

# %%
tensor.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = optim.SGD(model.parameters(), lr=0.05)


def step(points: Tensor, wanted: Tensor) -> Tensor:
    """Forward, backward, update."""
    loss = ((model(points) - wanted) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


points = tensor.randn(32, 2)
points.label = "points"
wanted = points[:, :1] * points[:, 1:]
wanted.label = "wanted"
training = tensor.trace(step)(points, wanted)
show(str(training))

# %%
losses = [training(points, wanted).item() for _ in range(200)]
show(f"replayed 200 times: loss {losses[0]:.3f} to {losses[-1]:.3f}")

# %% [markdown]
# ## Where does the time go?
#
# For small arrays, into Python: looking up the op, checking, recording cost some microseconds for
# each, whatever the size. For large arrays, into memory: each op reads its operands from memory
# and writes its result back. bend has five ops, so the array passes by five times.
#
# *Fusion* makes one pass of them: take a block that fits into the processor's cache, do all the
# ops on it, go on to the next block. The arithmetic is the same, the traffic is a fraction. By
# hand:

# %%
size = 2_000_000
big_x, big_y = np.linspace(-1, 1, size, dtype=np.float32), np.ones(size, dtype=np.float32)


def in_passes() -> np.ndarray:
    """Each op over the whole array."""
    return ((np.float32(2) * big_x + big_y) * big_x - big_y) * np.float32(0.5)


def in_blocks(block: int = 16_384) -> np.ndarray:
    """All ops over one block, then the next."""
    out = np.empty_like(big_x)
    for start in range(0, size, block):
        part = slice(start, start + block)
        piece = out[part]
        np.multiply(big_x[part], np.float32(2), out=piece)
        np.add(piece, big_y[part], out=piece)
        np.multiply(piece, big_x[part], out=piece)
        np.subtract(piece, big_y[part], out=piece)
        np.multiply(piece, np.float32(0.5), out=piece)
    return out


show(f"equal to the last bit: {np.array_equal(in_passes(), in_blocks())}")

# %% [markdown]
# Fusion changes the order of the work, not of the arithmetic.
#
# ## Compiled
#
# `tensor.compile` does that and more to a function: traces it once, leaves out what is not needed,
# makes loops of elementwise ops, plans which results can share memory, and replays it. Of the five
# ops of bend it makes one loop:

# %%
fast_bend = tensor.compile(bend)
fast_bend(x, y)  # the first call traces
show(draw(fast_bend.programs[-1], x, y, title="The program of bend, fused"))
show(fast_bend.source)

# %%
large = tensor.from_numpy(big_x), tensor.from_numpy(big_y)
same = all(np.array_equal(fast_bend(*large).numpy(), in_passes()) for _ in range(2))
show(f"equal to the last bit: {same}")


def shortest(function: Callable[[], object]) -> float:
    """The best of five runs, in milliseconds."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


durations = {
    "five passes": shortest(in_passes),
    "blocks, by hand": shortest(in_blocks),
    "compiled": shortest(lambda: fast_bend(*large)),
}
told = ", ".join(f"{name}: {milliseconds:.1f} ms" for name, milliseconds in durations.items())


def draw_durations(axes: object) -> None:
    """A bar for each."""
    axes.barh(list(durations), list(durations.values()), color=["#c4500c", "#3d7d35", "#1b4f8a"])
    axes.invert_yaxis()
    axes.set(xlabel="milliseconds for five ops on two million numbers")


show(told)
show(chart(f"Bars for the times: {told}.", draw_durations, width=7, height=1.8))

# %% [markdown]
# Where numba is installed, the loop is compiled to machine code, and that is where fusion pays.
# Where it is not, numpy runs the loop block by block, with some work of its own for each block.
#
# And the training step, on arrays so small that all of the time is Python's:

# %%
fast = tensor.compile(step)
fast(points, wanted)
fast(points, wanted)
show(f"{len(training)} instructions as traced, {len(fast.programs[-1])} as compiled")
speeds = {"step by step": lambda: step(points, wanted), "compiled": lambda: fast(points, wanted)}
show(", ".join(f"{name}: {shortest(function):.2f} ms" for name, function in speeds.items()))

# %% [markdown]
# ## What may be rewritten?
#
# A program tells what each result is used for. Three questions can be read off it, without
# running anything:
#
# - *Is it needed?* An instruction whose result reaches no output can be left out.
# - *Until when?* After its last use the memory of a result can serve another one.
# - *By whom?* A result with one use alone can be fused with its user: nobody else wants to see it.
#
# The exercises answer the first two, after a small interpreter.
#
# ## Exercises
#
# `make lesson N=11 NEW=mine.py`, then `make lesson N=11 FILE=mine.py`.
#
# 1. `run(program, arguments)`: replay a program.
# 2. `needed(program, outputs)`: leave out what reaches no output.
# 3. `last_uses(program, outputs)`: when can each result's memory be given away?
