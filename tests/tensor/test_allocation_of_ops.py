"""Replays of every op of the vocabulary and of its gradient, which allocate no array.

An op that has no call here fails, and so does one that is excused without need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pytest

import tensor
from micro.vocab import VOCAB
from tensor import Tensor, optim
from tests.tensor.ops.cases import CASES
from tests.tensor.ops.elementwise_cases import ELEMENTWISE
from tests.tensor.ops.harness import leaves, results, weights_for
from tests.tensor.ops.table import SAMPLERS, Sample, boolean, positive, real
from tests.tensor.test_allocation import SMALL, allocated, small_buffers

__all__ = ["small_buffers"]

Attrs = Mapping[str, Any]

# A matrix of twice SMALL bytes in single precision.
N, C = 64, 128


def index(limit: int, *shape: int) -> Any:
    return np.random.default_rng(0).integers(0, limit, shape)


def each(*attrs: Attrs) -> tuple[Sample, ...]:
    return tuple(Sample((real(N, C),), given) for given in attrs)


_REDUCED: Final = ({}, {"dim": -1}, {"dim": 0}, {"dim": -1, "keepdim": True})
_PICTURES: Final = real(4, 4, 32, 32)
_WINDOW: Final = {"kernel_size": 2}
_QUERY: Final = tuple(real(2, 4, 32, 16) for _ in range(3))

CALLS: Final[dict[str, tuple[Sample, ...]]] = {
    **{
        name: each(*_REDUCED)
        for name in (
            "sum",
            "mean",
            "var",
            "std",
            "prod",
            "max",
            "min",
            "amax",
            "amin",
            "argmax",
            "argmin",
            "any",
            "all",
        )
    },
    "norm": each(*({**given, "p": p} for given in _REDUCED for p in (1, 2, 3, 0, np.inf))),
    "logsumexp": each({"dim": -1}, {"dim": 0}, {"dim": (0, 1)}),
    "cumsum": each({"dim": -1}, {"dim": 0}),
    "cumprod": each({"dim": -1}, {"dim": 0}),
    "matmul": (
        Sample((real(N, C), real(C, N))),
        Sample((real(4, N, C), real(C, N))),
        Sample((real(4, N, C), real(4, C, N))),
        Sample((real(C), real(C, C))),
        Sample((real(C, C), real(C))),
    ),
    "linear": tuple(
        Sample((real(N, C), real(C, C), bias), {"activation": activation})
        for bias in (None, real(C))
        for activation in (None, "relu", "tanh", "sigmoid")
    ),
    "outer": (Sample((real(N), real(C))),),
    "einsum": (
        Sample((real(N, C), real(C, N)), {"equation": "ij,jk->ik"}),
        Sample((real(4, N, C), real(4, N, C)), {"equation": "bij,bkj->bik"}),
        Sample((real(N, C), real(N, C)), {"equation": "ij,ij->"}),
        Sample((real(N, C),), {"equation": "ij->j"}),
        Sample((real(N, C),), {"equation": "ij->ji"}),
    ),
    "reshape": each({"shape": (C, N)}),
    "flatten": each({}),
    "permute": each({"dims": (1, 0)}),
    "transpose": each({"dim0": 0, "dim1": 1}),
    "squeeze": (Sample((real(N, 1, C),), {"dim": 1}),),
    "unsqueeze": each({"dim": 0}),
    "expand": (
        Sample((real(1, C),), {"shape": (N, C)}),
        Sample((real(N, C),), {"shape": (2, N, C)}),
    ),
    "cat": (Sample((real(N, C), real(N, C)), {"dim": 0}), Sample((real(N, C),) * 2, {"dim": 1})),
    "stack": (Sample((real(N, C), real(N, C)), {"dim": 0}), Sample((real(N, C),) * 2, {"dim": 2})),
    "flip": each({"dims": (0,)}, {"dims": (0, 1)}),
    "roll": each({"shifts": 3}, {"shifts": (3, 5), "dims": (0, 1)}),
    "repeat": each({"repeats": (2, 3)}),
    "pad": each({"pad": (1, 2)}, {"pad": (1, 2, 0, 3), "value": 1.0}),
    "tril": each({}),
    "triu": each({}),
    "diagonal": (Sample((real(N, N, C),), {}),),
    "diagonal_adjoint": (Sample((real(C, N),), {"shape": (N, N, C)}),),
    "unfold": each({"dim": 1, "size": 4, "step": 2}),
    "unfold_adjoint": (
        Sample((real(N, 63, 4),), {"shape": (N, C), "dim": 1, "size": 4, "step": 2}),
    ),
    "getitem": each(
        {"index": 3},
        {"index": slice(1, 60)},
        {"index": (slice(None), slice(0, 120, 2))},
        {"index": np.arange(50)},
        {"index": (np.arange(50), np.arange(50))},
        {"index": (slice(None), np.arange(50))},
    ),
    "getitem_adjoint": (
        Sample((real(59, C),), {"index": slice(1, 60), "shape": (N, C)}),
        Sample((real(50, C),), {"index": np.arange(50), "shape": (N, C)}),
    ),
    "setitem": (
        Sample((real(N, C), real(50, C)), {"index": slice(0, 50)}),
        Sample((real(N, C), real(50, C)), {"index": np.arange(50)}),
        Sample((real(N, C), real(50, C)), {"index": np.arange(50), "accumulate": True}),
    ),
    "gather": (Sample((real(N, C), index(C, N, C)), {"dim": 1}),),
    "gather_adjoint": (Sample((real(N, C), index(C, N, C)), {"dim": 1, "shape": (N, C)}),),
    "scatter": (Sample((real(N, C), np.tile(np.arange(C)[::-1], (N, 1)), real(N, C)), {"dim": 1}),),
    "index_select": (
        Sample((real(N, C), index(N, N)), {"dim": 0}),
        Sample((real(N, C), index(N, N)), {"dim": 1}),
    ),
    "index_select_adjoint": (
        Sample((real(N, C), index(N, N)), {"dim": 0, "length": N}),
        Sample((real(N, N), index(N, N)), {"dim": 1, "length": C}),
    ),
    "argsort": each({}, {"dim": 0}),
    "topk_indices": each({"k": 64}),
    "nonzero": each({}),
    "embedding": (
        Sample(
            (real(N, C), index(N, N)),
        ),
    ),
    "embedding_adjoint": (Sample((real(N, C), index(N, N)), {"rows": N}),),
    "one_hot": (Sample((index(N, C),), {"num_classes": N}),),
    "softmax": each({"dim": -1}, {"dim": 0}),
    "log_softmax": each({"dim": -1}, {"dim": 0}),
    "cross_entropy": tuple(
        Sample((real(N, C), index(C, N)), {**given, "reduction": reduction})
        for given in ({}, {"label_smoothing": 0.1}, {"ignore_index": 3})
        for reduction in ("mean", "sum", "none")
    ),
    "binary_cross_entropy": (Sample((positive(N, C) / 4, positive(N, C) / 4)),),
    "layer_norm": (
        Sample((real(N, C), real(C), real(C)), {"normalized_shape": C}),
        Sample((real(N, C), None, None), {"normalized_shape": C}),
    ),
    "rms_norm": (
        Sample((real(N, C), real(C)), {"normalized_shape": C}),
        Sample((real(N, C), None), {"normalized_shape": C}),
    ),
    "group_norm": (Sample((_PICTURES, real(4), real(4)), {"num_groups": 2}),),
    "batch_moments": (Sample((_PICTURES,)), *each({})),
    "batch_norm": (
        Sample((_PICTURES, positive(2, 4), real(4), real(4))),
        Sample((real(N, C), positive(2, C), None, None)),
    ),
    "dropout": (Sample((real(N, C), boolean(N, C)), {"p": 0.3}),),
    "attention_weights": (
        Sample((*_QUERY[:2], None)),
        Sample((*_QUERY[:2], None), {"is_causal": True}),
        Sample((*_QUERY[:2], real(32, 32))),
        Sample((*_QUERY[:2], real(2, 4, 32, 32))),
    ),
    "scaled_dot_product_attention": (
        Sample((*_QUERY, None)),
        Sample((*_QUERY, None), {"is_causal": True}),
        Sample((*_QUERY, real(32, 32))),
        Sample((*_QUERY, real(2, 4, 32, 32))),
    ),
    "conv2d": (
        Sample((_PICTURES, real(8, 4, 3, 3), real(8)), {"padding": 1}),
        Sample((_PICTURES, real(8, 2, 3, 3), None), {"stride": 2, "groups": 2}),
    ),
    "conv2d_input_adjoint": (
        Sample((real(4, 8, 30, 30), real(8, 4, 3, 3)), {"shape": _PICTURES.shape}),
    ),
    "conv2d_weight_adjoint": (Sample((real(4, 8, 30, 30), _PICTURES), {"shape": (8, 4, 3, 3)}),),
    "max_pool2d": (Sample((_PICTURES,), _WINDOW), Sample((_PICTURES,), {**_WINDOW, "stride": 1})),
    "max_pool2d_indices": (Sample((_PICTURES,), _WINDOW),),
    "avg_pool2d": (Sample((_PICTURES,), _WINDOW),),
    "avg_pool2d_adjoint": (Sample((real(4, 4, 16, 16),), {**_WINDOW, "shape": _PICTURES.shape}),),
    "im2col": (Sample((_PICTURES,), {"kernel_size": 3, "padding": 1}),),
    "col2im": (
        Sample((real(4, 36, 1024),), {"output_size": (32, 32), "kernel_size": 3, "padding": 1}),
    ),
    "cast": each({"dtype": np.dtype(np.float64)}),
    "clone": each({}),
    "clip": each({"min": -0.5}, {"max": 0.5}, {"min": -0.5, "max": 0.5}),
    "gelu": each({}, {"approximate": "tanh"}),
    "round": each({}, {"decimals": 2}),
}


def elementwise(name: str) -> tuple[Sample, ...]:
    """A call on matrices, and of several operands ones with a row, a column and a number."""
    domain = VOCAB[name].domain
    shapes = [(N, C)] * len(domain)
    others = [[(N, C), *[small] * (len(domain) - 1)] for small in ((C,), (N, 1), ())]
    rows = [shapes] if len(domain) == 1 else [shapes, *others]
    return tuple(
        Sample(tuple(SAMPLERS[kind](*shape) for kind, shape in zip(domain, row, strict=True)))
        for row in rows
    )


ALL: Final = {**{name: elementwise(name) for name in ELEMENTWISE if name not in CALLS}, **CALLS}
PRIMITIVE: Final = [name for name, spec in VOCAB.items() if not spec.composite]

# What may allocate, and why.
EXCUSED: Final = {
    "argsort": "numpy returns an order in an array of its own",
    "nonzero": "how much it returns depends on the elements",
    "topk_indices": "numpy returns an order in an array of its own",
}
# What numpy's kernels list anew: the elements of a block of 8,192 that another formula holds for.
LISTED: Final = {"erf": 80_000, "gelu": 80_000}


def step_of(name: str, sample: Sample, dtype: Any, backward: bool) -> Callable[[], Tensor]:
    """Return a function that calls an op; or a training step, which writes gradients in place."""
    count = len(sample.operands)
    kinds = VOCAB[name].domain * count if VOCAB[name].variadic else VOCAB[name].domain
    operands = [
        None if a is None else Tensor(np.array(a, None if kind in ("bool", "index") else dtype))
        for a, kind in zip(sample.operands, kinds, strict=True)
    ]
    if not backward:

        def call() -> Tensor:
            out = results(name, operands, sample.attrs)
            return out if out.dtype == bool else out.sum()

        return call
    moved = [x.requires_grad_() for x in operands if x is not None and x.dtype.kind == "f"]
    optimizer = optim.SGD(moved, lr=0.0)
    weights = Tensor(weights_for(results(name, operands, sample.attrs)))

    def step() -> Tensor:
        loss = (results(name, operands, sample.attrs) * weights).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_every_op_has_a_call() -> None:
    assert not set(PRIMITIVE) ^ set(ALL)


@pytest.mark.usefixtures("small_buffers")
@pytest.mark.parametrize("name", [name for name in PRIMITIVE if name not in EXCUSED])
def test_an_op_and_its_gradient_allocate_no_array_in_a_replay(name: str) -> None:
    listed = LISTED.get(name, 0) if tensor.kernels_in_use() == "numpy" else 0
    for sample in ALL[name]:
        for backward in (False, True) if VOCAB[name].differentiable else (False,):
            replay = tensor.compile(step_of(name, sample, np.float32, backward))
            peak, left = allocated(replay)
            assert peak < SMALL + listed, f"{sample}, gradient {backward}: {peak} bytes"
            assert left < SMALL, f"{sample}, gradient {backward}: {left} bytes stay"


@pytest.mark.usefixtures("small_buffers")
@pytest.mark.parametrize("name", EXCUSED)
def test_an_op_that_is_excused_needs_it(name: str) -> None:
    replay = tensor.compile(step_of(name, ALL[name][0], np.float32, False))
    assert allocated(replay)[0] > SMALL


# Of 0.0 and -0.0 they give either.
EITHER_ZERO: Final = {"maximum", "minimum"}


def same(found: Any, wanted: Any, what: str, signs_too: bool) -> None:
    """Assert that two arrays are equal to the bit, whatever a NaN's sign is."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), what
    np.testing.assert_array_equal(found, wanted, what)
    if found.dtype.kind == "f" and signs_too:
        signs = [np.signbit(a) & ~np.isnan(a) for a in (found, wanted)]
        np.testing.assert_array_equal(*signs, what)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PRIMITIVE)
def test_a_replay_gives_the_bits_of_the_op(name: str, dtype: str) -> None:
    for sample in (*CASES[name].samples, *CASES[name].points):
        for order in ("C", "F"):
            operands = [
                x if x is None else Tensor(np.array(x.data, order=order))
                for x in leaves(name, sample, np.dtype(dtype))
            ]
            wanted = results(name, operands, sample.attrs)
            replay = tensor.compile(lambda: results(name, operands, sample.attrs))  # noqa: B023
            replay()
            same(replay().data, wanted.data, str(sample), name not in EITHER_ZERO)
