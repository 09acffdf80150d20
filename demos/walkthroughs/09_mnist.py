# %% [markdown]
# # 9. Handwritten digits, and a twin
#
# - **Before:** lessons 6 and 7.
# - **Time:** 50 minutes, exercises included.
# - **Goals:** train a network on images; know what batches, epochs and accuracy are; prove a whole
#   training run by a twin, step by step.
# - **Next:** lesson 10, embeddings and a model of text.

# %%
import json
import os
from pathlib import Path

from classroom import chart, show

import tensor
from tensor import Tensor, nn, optim
from tensor.data import DataLoader, TensorDataset, generated_digits, mnist
from viz import draw

# %% [markdown]
# ## The data
#
# MNIST has 60,000 images of handwritten digits, 28 by 28 pixels. Where no folder `SMOLGRAD_DATA`
# names them, this lesson makes digits out of fonts: easier, but of the same form.

# %%
rng = tensor.Generator().manual_seed(0)
if os.environ.get("SMOLGRAD_DATA"):
    images, labels = (part[:6000] for part in mnist("train"))
    test_images, test_labels = (part[:1000] for part in mnist("test"))
    source = "MNIST"
else:
    images, labels = generated_digits(2000, rng)
    test_images, test_labels = generated_digits(500, rng)
    source = "digits made out of fonts"
show(f"{source}: {len(labels)} images to learn from, {len(test_labels)} to be tested on")


def draw_digits(axes: object) -> None:
    """Some of the images."""
    rows = images[:24].numpy().reshape(2, 12, 28, 28)
    axes.imshow(rows.transpose(0, 2, 1, 3).reshape(56, 336), cmap="gray_r")
    axes.set_axis_off()


show(chart(f"Twenty-four of the images: {labels[:24].tolist()}.", draw_digits, width=8, height=1.5))

# %% [markdown]
# ## The model
#
# Each image is a row of 784 numbers. Two layers with a relu between them, ten scores at the end,
# cross-entropy (lesson 6) as the loss.

# %%
tensor.manual_seed(1)
model = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
batch, wanted = images[:128], labels[:128]
batch.label, wanted.label = "images", "labels"


def loss_of(images: Tensor, labels: Tensor) -> Tensor:
    """How wrong the model is."""
    loss = tensor.cross_entropy(model(images), labels)
    loss.label = "loss"
    return loss


look = {"parameters": model, "depth": 1, "direction": "TB", "title": "The loss of one batch"}
show(draw(loss_of, batch, wanted, **look))

# %% [markdown]
# Each of the two folded boxes is a layer, with its weights and its bias inside; 0 and 2 are their
# places in the model, and the relu between them is computed with the first. One walk back gives
# the gradients of all 50,890 parameters. In scalars the drawing would have millions of nodes.
#
# ## Batches and epochs
#
# A gradient over a hundred images points nearly where the gradient over all of them does, for a
# fraction of the work. So the images are shuffled and cut into *batches*; once through all of
# them is an *epoch*. AdamW scales each parameter's step by how large its gradients have been.


# %%
def accuracy_of(model: nn.Module) -> float:
    """The part of the test images whose digit is found."""
    with tensor.no_grad():
        return (model(test_images).argmax(dim=1) == test_labels).float().mean().item()


optimizer = optim.AdamW(model.parameters(), lr=0.002)
loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True, generator=rng)
show(f"before: {accuracy_of(model):.1%} of the test images")
losses = []
for epoch in range(4):
    for x, y in loader:
        loss = loss_of(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    show(f"after epoch {epoch + 1}: {accuracy_of(model):.1%}")

# %%


def draw_losses(axes: object) -> None:
    """The loss of every batch."""
    axes.plot(losses, linewidth=0.8)
    axes.set(xlabel="step", ylabel="loss of the batch", ylim=(0, None))


show(chart("The loss of every batch: it falls fast, then slowly, and is noisy.", draw_losses))

# %% [markdown]
# The test images were never used for a step. Accuracy on the training images says only how well
# the model remembers.
#
# ## A twin
#
# A falling loss proves little (lesson 7). A *twin* proves a lot: the same model in another
# framework, the same initial weights, the same batches, the same optimizer, in float64. If the
# weights still agree after a thousand steps, then every gradient and every update was right.
# `demos/train_mnist.py --torch-twin` does that with PyTorch, for the full model. Its record:

# %%
project = Path(tensor.__file__).parent.parent
record = json.loads((project / "results" / "mnist_summary_twin.json").read_text())
show(
    f"{record['parameters']:,} parameters, {record['steps']:,} steps: the largest difference of "
    f"any weight is {record['max_weight_difference']:.1e}; test accuracy "
    f"{record['test_accuracy_final']:.2%} and {record['torch_test_accuracy_final']:.2%}"
)

# %% [markdown]
# Why float64? In float32, sums taken in another order differ in the seventh digit; sooner or
# later that tips a relu to the other side of 0, and twins part. That is rounding, not a fault,
# but a fault could hide behind it.
#
# You can be the twin of an optimizer yourself. Here are three steps of AdamW on one number;
# exercise 3 asks you to reproduce such steps to the last digits.

# %%
p = Tensor([1.0], dtype="float64", requires_grad=True)
adamw = optim.AdamW([p], lr=0.1)
for g in (1.0, 0.5, -2.0):
    p.grad = Tensor([g], dtype="float64")
    adamw.step()
    show(f"gradient {g:4}: p = {p.item():.12f}")

# %% [markdown]
# ## Exercises
#
# `make lesson N=9 NEW=mine.py`, then `make lesson N=9 FILE=mine.py`.
#
# 1. `minibatches(n, size)`: cut n examples into batches.
# 2. `accuracy(logits, labels)`: the part that is right.
# 3. `adamw(p, g, m, v, t, lr, weight_decay)`: one step, as the engine takes it.
