"""Functions by PyTorch's names, called with PyTorch's order of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import torch

from tensor import Generator, Tensor
from tensor.nn import functional
from tests.tensor.tolerances import assert_close

RNG: Final = np.random.default_rng(4)
X, W, B, V = (RNG.normal(size=shape) for shape in ((4, 5), (3, 5), (3,), (5,)))
I = RNG.integers(0, 4, (2, 3))  # noqa: E741 - indices
P = RNG.uniform(0.1, 0.9, (4, 5))
PLANES, KERNELS = RNG.normal(size=(2, 4, 5, 6)), RNG.normal(size=(3, 4, 3, 3))

# The positional arguments as both libraries take them: arrays become tensors.
CALLS: Final[dict[str, tuple[str, tuple[Any, ...]]]] = {
    "linear": ("linear", (X, W, B)),
    "linear without bias": ("linear", (X, W)),
    "relu": ("relu", (X,)),
    "tanh": ("tanh", (X,)),
    "sigmoid": ("sigmoid", (X,)),
    "gelu": ("gelu", (X,)),
    "softmax": ("softmax", (X, 1)),
    "log_softmax": ("log_softmax", (X, 0)),
    "layer_norm": ("layer_norm", (X, (5,), V, V, 1e-3)),
    "layer_norm, short": ("layer_norm", (X, (4, 5))),
    "embedding": ("embedding", (I, X)),
    "embedding with padding": ("embedding", (I, X, 1)),
    "one_hot": ("one_hot", (I, 6)),
    "cross_entropy": ("cross_entropy", (X, np.array([0, 4, 2, 1]))),
    "mse_loss": ("mse_loss", (X, X[::-1].copy())),
    "l1_loss": ("l1_loss", (X, X[::-1].copy())),
    "smooth_l1_loss": ("smooth_l1_loss", (X, X[::-1].copy())),
    "huber_loss": ("huber_loss", (X, X[::-1].copy(), "sum", 0.3)),
    "nll_loss": ("nll_loss", (X, np.array([0, 4, 2, 1]))),
    "kl_div": ("kl_div", (X, X[::-1] ** 2)),
    "binary_cross_entropy": ("binary_cross_entropy", (P, P[::-1].copy())),
    "binary_cross_entropy_with_logits": ("binary_cross_entropy_with_logits", (X, P)),
    "dropout": ("dropout", (X, 0.3, False)),
    "dropout2d": ("dropout2d", (PLANES, 0.3, False)),
    "leaky_relu": ("leaky_relu", (X, 0.3)),
    "elu": ("elu", (X, 0.3)),
    "silu": ("silu", (X,)),
    "softplus": ("softplus", (X, 2.0, 3.0)),
    "logsigmoid": ("logsigmoid", (X,)),
    "rms_norm": ("rms_norm", (X, (5,), V, 1e-3)),
    "group_norm": ("group_norm", (PLANES, 2, W[0, :4], W[1, :4], 1e-3)),
    "batch_norm": ("batch_norm", (X, None, None, V, V, True, 0.3, 1e-3)),
    "conv1d": ("conv1d", (PLANES[:, :, 0], KERNELS[:, :, 0], B, 2, 1, 1, 1)),
    "conv2d": ("conv2d", (PLANES, KERNELS, B, 2, 1, 2, 1)),
    "conv_transpose2d": ("conv_transpose2d", (PLANES[:, :3], KERNELS, None, 3, 1, 2, 1, 2)),
    "max_pool2d": ("max_pool2d", (PLANES, 2, 1, 1, 2, True)),
    "avg_pool2d": ("avg_pool2d", (PLANES, 2, 1, 1, True, False, 3)),
    "adaptive_avg_pool2d": ("adaptive_avg_pool2d", (PLANES, (3, 2))),
    "scaled_dot_product_attention": (
        "scaled_dot_product_attention",
        (PLANES, PLANES, PLANES, PLANES[:, :, :, :5], 0.0, False),
    ),
    "unfold": ("unfold", (PLANES, (2, 3), 2, 1, (1, 2))),
    "fold": ("fold", (PLANES[:, :, 0].repeat(3, 1)[:, :, :4], (3, 3), 2)),
    "pad": ("pad", (PLANES, (1, -2, 0, 3), "constant", 0.5)),
    "pad, reflect": ("pad", (PLANES, (4, 3, 0, 2), "reflect")),
    "pad, replicate": ("pad", (PLANES, (6, 1, 2, 0), "replicate")),
    "pad, circular": ("pad", (PLANES, (0, 6, 1, 5), "circular")),
    "pad by nothing": ("pad", (PLANES, (0, 0, 0, 0), "reflect")),
}


@pytest.mark.parametrize(("name", "arguments"), CALLS.values(), ids=CALLS)
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
def test_a_function_takes_its_arguments_in_pytorchs_order(
    name: str, arguments: tuple[Any, ...]
) -> None:
    def run(lib: Any, make: Callable[[np.ndarray], Any]) -> list[np.ndarray]:
        given = [make(a) if isinstance(a, np.ndarray) else a for a in arguments]
        y = getattr(lib, name)(*given)
        if not y.requires_grad:
            return [np.asarray(y.detach())]
        y = y * make(np.linspace(0.5, 2.0, y.numel() if callable(y.numel) else 0)).reshape(y.shape)
        y.sum().backward()
        grads = [g.grad for g in given if getattr(g, "requires_grad", False)]
        return [np.asarray(y.detach()), *(np.asarray(grad) for grad in grads)]

    ours = run(functional, lambda a: Tensor(a, requires_grad=a.dtype.kind == "f"))
    theirs = run(torch.nn.functional, lambda a: torch.tensor(a, requires_grad=a.dtype.kind == "f"))
    assert len(ours) == len(theirs)
    for actual, expected in zip(ours, theirs, strict=True):
        assert_close(actual, expected)


def test_every_function_is_compared() -> None:
    assert {name for name, _ in CALLS.values()} == set(functional.__all__)


def test_an_activation_can_be_part_of_linear() -> None:
    fused = functional.linear(Tensor(X), Tensor(W), Tensor(B), "relu")
    assert np.array_equal(
        fused.data, functional.relu(functional.linear(Tensor(X), Tensor(W), Tensor(B))).data
    )


def test_dropout_takes_a_generator() -> None:
    one, other = (functional.dropout(Tensor(X), 0.5, generator=Generator(3)).data for _ in range(2))
    assert np.array_equal(one, other) and (one == 0).any()


@pytest.mark.parametrize("padding", [4, -5])
def test_a_padding_row_outside_the_table_is_refused(padding: int) -> None:
    with pytest.raises(IndexError, match=r"embedding: padding_idx must lie in \[-4, 4\)"):
        functional.embedding(I, Tensor(X), padding)
