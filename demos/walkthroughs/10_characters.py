# %% [markdown]
# # 10. Embeddings, and a model of characters
#
# - **Before:** lesson 9.
# - **Time:** 50 minutes, exercises included.
# - **Goals:** see that looking up a row is a matrix product; add up the gradients of repeated
#   indices; train a model that predicts the next character, and sample from it.
# - **Next:** lesson 11, computations as data.

# %%
import numpy as np
from classroom import chart, show

import tensor
from tensor import Tensor, nn, optim
from tensor.data import pydoc_corpus
from viz import draw

# %% [markdown]
# ## A row for every character
#
# A model computes with numbers; text consists of characters. So each of the C characters gets a
# row of D numbers of its own, its *embedding*, and looking one up is indexing: `table[indices]`.
# The rows are parameters. At first they are random; training moves characters that are used
# alike to similar rows.

# %%
table = Tensor(
    [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], dtype="float64", requires_grad=True, label="table"
)
chosen = tensor.embedding(table, Tensor([2, 0, 2]))
chosen.label = "chosen"
weights = Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype="float64")
total = (chosen * weights).sum()
total.label = "total"
total.backward(retain_graph=True)
show(draw(total, title="Rows 2, 0 and 2 of a table"))
show(f"{chosen.tolist()}\nthe table's gradient: {table.grad.tolist()}")

# %% [markdown]
# Row 2 was looked up twice: it gets both gradients, [1, 2] + [5, 6]. Row 1 was not looked up and
# gets 0. It is lesson 3's sum again. In numpy, `gradient[indices] += g` looks right and is not:

# %%
indices, g = np.array([2, 0, 2]), weights.numpy()
wrong = np.zeros((3, 2))
wrong[indices] += g
show(f"with +=: {wrong.tolist()}")

# %% [markdown]
# numpy reads `wrong[indices]`, adds, and writes back; of the two results for row 2 the last one
# stays. A lookup is also a product with a matrix of zeros and ones, and then its gradient is a
# product, too; the engine picks whichever is faster.
#
# ## Predict the next character
#
# From the last 8 characters, the next. The examples are cut out of the documentation that comes
# with Python, which every machine has.

# %%
text = pydoc_corpus()[:60_000]
letters = sorted(set(text))
number = {letter: i for i, letter in enumerate(letters)}
codes = np.array([number[letter] for letter in text])
context = 8
windows = np.lib.stride_tricks.sliding_window_view(codes, context + 1)
x, y = windows[:, :context], windows[:, context]
show(f"{len(text):,} characters, {len(letters)} different ones")
show(f"for example {text[:context]!r} -> {text[context]!r}")

# %%
tensor.manual_seed(0)
model = nn.Sequential(
    nn.Embedding(len(letters), 16),
    nn.Flatten(),
    nn.Linear(context * 16, 96),
    nn.Tanh(),
    nn.Linear(96, len(letters)),
)


def loss_of(windows: Tensor, followers: Tensor) -> Tensor:
    """How badly the model predicts."""
    loss = tensor.cross_entropy(model(windows), followers)
    loss.label = "loss"
    return loss


four = Tensor(x[:4], label="windows"), Tensor(y[:4], label="followers")
look = {"parameters": model, "depth": 1, "direction": "TB", "title": "The loss for four examples"}
show(draw(loss_of, *four, **look))

# %% [markdown]
# Two baselines tell what the loss means. Guessing evenly costs log C. Knowing how frequent each
# character is costs less. A model that looks at the last 8 characters should beat both.

# %%
frequency = np.bincount(codes, minlength=len(letters)) / len(codes)
even = np.log(len(letters))
unigram = -(frequency * np.log(np.maximum(frequency, 1e-12))).sum()
rng = np.random.default_rng(0)
optimizer = optim.AdamW(model.parameters(), lr=0.005)
losses = []
for _ in range(400):
    rows = rng.integers(0, len(x), 128)
    loss = loss_of(Tensor(x[rows]), Tensor(y[rows]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
show(f"evenly {even:.2f}, by frequency {unigram:.2f}, model {np.mean(losses[-50:]):.2f} (training)")

# %%


def draw_losses(axes: object) -> None:
    """The loss, and the two baselines."""
    axes.plot(losses, linewidth=0.8, label="model")
    axes.axhline(even, linestyle=":", color="black", label="evenly")
    axes.axhline(unigram, linestyle="--", color="black", label="by frequency")
    axes.set(xlabel="step", ylabel="nats per character")
    axes.legend()


show(
    chart(
        "The loss starts at that of even guessing and falls below that of guessing by frequency.",
        draw_losses,
    )
)

# %% [markdown]
# ## Let it write
#
# Predict, draw a character from the probabilities, append it, predict again. The *temperature*
# divides the scores before softmax: below 1 the model becomes careful, above 1 daring.

# %%


def write(temperature: float, length: int = 100) -> str:
    """What the model writes."""
    line = list(codes[:context])
    for _ in range(length):
        with tensor.no_grad():
            scores = model(Tensor(np.array([line[-context:]]))).numpy()[0].astype(np.float64)
        odds = tensor.softmax(Tensor(scores / temperature), dim=0).numpy()
        line.append(int(rng.choice(len(letters), p=odds / odds.sum())))
    return "".join(letters[i] for i in line[context:])


for temperature in (0.4, 0.8, 1.5):
    show(f"temperature {temperature}: {write(temperature)!r}")

# %% [markdown]
# After a few seconds of training: hardly words yet. `demos/train_char.py` trains a larger one on
# Shakespeare for a minute.
#
# ## Exercises
#
# `make lesson N=10 NEW=mine.py`, then `make lesson N=10 FILE=mine.py`.
#
# 1. `embedding_backward(g, indices, rows)`: the gradient of a table.
# 2. `examples(codes, context)`: all windows, and what follows each.
# 3. `odds(scores, temperature)`: probabilities to draw from.
