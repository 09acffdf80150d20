"""Every op on operands that lie in memory in unusual ways: the result depends on values alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from micro.vocab import VOCAB
from tensor import Tensor, grad
from tensor.tensor import from_numpy
from tests.tensor.ops.cases import CASES
from tests.tensor.ops.harness import call, leaves, requiring, weights_for
from tests.tensor.ops.table import Sample
from tests.tensor.tolerances import assert_close

Array = np.ndarray[Any, Any]


def strided(a: Array) -> Array:
    """Every second element of an array twice as long in each dimension."""
    base = np.full([2 * n for n in a.shape], 77, dtype=a.dtype)
    view = base[(..., *(slice(None, None, 2),) * a.ndim)]
    view[...] = a
    return view


def reversed_(a: Array) -> Array:
    backwards = (..., *(slice(None, None, -1),) * a.ndim)
    return np.ascontiguousarray(a[backwards]).reshape(a.shape)[backwards]


def transposed(a: Array) -> Array:
    return np.ascontiguousarray(a.T).reshape(a.shape[::-1]).T


def read_only(a: Array) -> Array:
    copy = a.copy()
    copy.setflags(write=False)
    return copy


def unaligned(a: Array) -> Array:
    raw = np.zeros(a.nbytes + 1, np.uint8)[1:]
    view = raw.view(a.dtype).reshape(a.shape)
    view[...] = a
    return view


LAYOUTS = {
    "strided": strided,
    "reversed": reversed_,
    "Fortran order": lambda a: np.array(a, order="F"),
    "transposed": transposed,
    "read-only": read_only,
    "unaligned": unaligned,
}

# Where memory is shared and not copied, these may differ in the last place.
ROUNDED = {
    # numpy has vectorised loops for some strides, and calls the C library for others.
    *("exp", "expm1", "log", "log1p", "pow", "sin", "cos", "tanh", "sigmoid", "erf", "gelu"),
    *("exp2", "log2", "log10", "tan", "atan", "sinh", "cosh"),
    *("logsigmoid", "softplus", "silu", "elu"),
    # The order of summation follows the memory.
    *(
        "prod",
        "std",
        "norm",
        "sum",
        "mean",
        "var",
        "logsumexp",
        "softmax",
        "log_softmax",
        "cross_entropy",
        "layer_norm",
    ),
    *("rms_norm", "group_norm", "batch_moments", "batch_norm"),
    # BLAS has other routines for other strides.
    *("matmul", "linear", "embedding", "embedding_adjoint"),
    *("conv2d", "conv2d_input_adjoint", "conv2d_weight_adjoint", "einsum", "outer"),
    "tensordot",
    *("attention_weights", "scaled_dot_product_attention"),
}


def run(name: str, sample: Sample, dtype: str, make: Any) -> tuple[Any, ...]:
    operands = leaves(name, sample, dtype, make)
    out = call(name, operands, sample.attrs)
    if not out.requires_grad:
        return (out.data,)
    found = grad(out, requiring(operands), Tensor(weights_for(out)))
    return (out.data, *(g.data for g in found if g is not None))


@pytest.mark.parametrize("name", VOCAB)
def test_the_layout_of_the_operands_changes_nothing(name: str) -> None:
    for sample, dtype in itertools.product(CASES[name].samples, ("float32", "float64")):
        plain = run(name, sample, dtype, Tensor)
        for layout, function in LAYOUTS.items():
            note = f"{dtype}, {layout}, {sample}"
            copied = run(name, sample, dtype, lambda a, f=function: Tensor(f(a)))
            assert_bit_equal(copied, plain, note)
            shared = run(name, sample, dtype, lambda a, f=function: from_numpy(f(a)))
            if name in ROUNDED:
                for result, expected in zip(shared, plain, strict=True):
                    assert_close(result, expected, name, note)
            else:
                assert_bit_equal(shared, plain, note)


@pytest.mark.parametrize("name", [name for name, spec in VOCAB.items() if not spec.view])
def test_an_op_that_is_no_view_shares_no_memory(name: str) -> None:
    for sample, layout in itertools.product(CASES[name].samples, (np.copy, *LAYOUTS.values())):
        operands = leaves(name, sample, "float64", lambda a, f=layout: from_numpy(f(a)))
        out = call(name, operands, sample.attrs)
        for x in operands:
            assert x is None or not np.shares_memory(out.data, x.data), str(sample)


def assert_bit_equal(results: tuple[Array, ...], expected: tuple[Array, ...], note: str) -> None:
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == wanted.dtype and result.shape == wanted.shape, note
        assert result.tobytes() == wanted.tobytes(), note


def test_a_layout_that_reads_the_wrong_elements_is_found() -> None:
    sample = CASES["square"].samples[0]
    plain = run("square", sample, "float64", Tensor)
    with pytest.raises(AssertionError):
        assert_bit_equal(run("square", sample, "float64", lambda a: Tensor(a[::-1])), plain, "")
    for layout, function in LAYOUTS.items():
        view = function(sample.operands[0])
        np.testing.assert_array_equal(view, sample.operands[0])
        plain_flags = view.flags.c_contiguous and view.flags.aligned and view.flags.writeable
        assert not plain_flags, layout
