"""Calls of every op with random operands, at points where the op is smooth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from micro.vocab import VOCAB

from ..dispatch import recording
from ..graph import Array
from ..tensor import Tensor

__all__ = ["Call", "calls", "cotangent", "joined", "leaves", "run", "wanted"]

Draw: TypeAlias = Callable[[np.random.Generator], Array]


class Call(NamedTuple):
    """One call: an op, its operands as arrays of float64, integers or bool, and its attributes."""

    op: str
    operands: tuple[Array | None, ...]
    attrs: Mapping[str, Any]

    def __str__(self) -> str:
        shapes = ", ".join("None" if a is None else str(a.shape) for a in self.operands)
        attrs = "".join(f", {name}={value}" for name, value in self.attrs.items())
        return f"{self.op}({shapes}{attrs})"


def _signed(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    signs: Array = rng.choice([-1.0, 1.0], shape)
    return rng.uniform(0.3, 2.0, shape) * signs


_DOMAINS: Final[Mapping[str, Callable[[np.random.Generator, Sequence[int]], Array]]] = {
    "real": lambda rng, shape: np.asarray(rng.normal(size=shape)),
    "positive": lambda rng, shape: np.asarray(rng.uniform(0.3, 2.5, shape)),
    "nonzero": _signed,
    "unit": lambda rng, shape: np.asarray(rng.uniform(-0.95, 0.95, shape)),
    "bool": lambda rng, shape: np.asarray(rng.random(shape) < 0.5),
}


def _indices(below: int, *shape: int) -> Draw:
    return lambda rng: np.asarray(rng.integers(0, below, shape))


def _shares(*shape: int) -> Draw:
    return lambda rng: np.asarray(rng.uniform(0.1, 0.9, shape))


def _statistics(channels: int) -> Draw:
    return lambda rng: np.stack([rng.normal(size=channels), rng.uniform(0.5, 2, channels)])


# A shape, from whose domain the operand is drawn; a way to draw it; or None for one not given.
Operand: TypeAlias = tuple[int, ...] | Draw | None

# Attributes at which an elementwise op is called, where the defaults are not all there is.
_ATTRS: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "round": ({}, {"decimals": 1}),
    "softplus": ({}, {"beta": 2.0, "threshold": 1.0}),
    "leaky_relu": ({}, {"negative_slope": -0.5}),
    "elu": ({}, {"alpha": 0.5}),
    "gelu": ({}, {"approximate": "tanh"}),
    "clip": ({"min": -0.7, "max": 0.9},),
}

_ELEMENTWISE: Final[Mapping[int, Sequence[tuple[tuple[int, ...], ...]]]] = {
    1: [((3, 4),)],
    2: [((3, 4), (4,)), ((2, 1), (3,))],
    3: [((2, 3), (2, 3), (2, 3))],
}

_COLUMNS: Final = {"kernel_size": (2, 3), "padding": 1, "stride": 2}
_KERNEL: Final = {"stride": 2, "padding": 1}

_ARRAYS: Final[Mapping[str, Sequence[tuple[tuple[Operand, ...], Mapping[str, Any]]]]] = {
    # reductions
    **{
        name: [(((3, 4),), {}), (((2, 3, 4),), {"dim": (0, 2), "keepdim": True})]
        for name in ("sum", "mean", "var", "std", "norm", "amax", "amin")
    },
    **{
        name: [(((3, 4),), {}), (((2, 3, 4),), {"dim": 1})]
        for name in ("prod", "max", "min", "argmax", "argmin", "any", "all")
    },
    "logsumexp": [(((3, 4),), {"dim": 1})],
    "cumsum": [(((3, 4),), {"dim": 0})],
    "cumprod": [(((3, 4),), {"dim": 1})],
    # linear algebra
    "matmul": [(((3, 4), (4, 2)), {}), (((2, 3, 4), (2, 4, 2)), {}), (((4,), (4,)), {})],
    "linear": [(((3, 4), (2, 4), (2,)), {}), (((3, 4), (2, 4), None), {"activation": "tanh"})],
    "outer": [(((3,), (4,)), {})],
    "einsum": [(((3, 4), (4, 2)), {"equation": "ij,jk->ki"}), (((3, 3),), {"equation": "ii"})],
    # shape
    "reshape": [(((3, 4),), {"shape": (2, 6)})],
    "flatten": [(((2, 3, 2),), {"start_dim": 1})],
    "permute": [(((2, 3, 4),), {"dims": (2, 0, 1)})],
    "transpose": [(((2, 3),), {"dim0": 0, "dim1": 1})],
    "squeeze": [(((2, 1, 3),), {"dim": 1})],
    "unsqueeze": [(((2, 3),), {"dim": 1})],
    "expand": [(((2, 1),), {"shape": (3, 2, 4)})],
    "cat": [(((2, 3), (1, 3)), {"dim": 0})],
    "stack": [(((2, 3), (2, 3)), {"dim": 1})],
    "flip": [(((2, 3),), {"dims": (1,)})],
    "roll": [(((2, 3),), {"shifts": (1, 2), "dims": (0, 1)})],
    "repeat": [(((2, 3),), {"repeats": (2, 1, 2)})],
    "pad": [(((2, 3),), {"pad": (1, 2, 0, 1)})],
    "tril": [(((3, 4),), {"diagonal": 1})],
    "triu": [(((3, 4),), {"diagonal": -1})],
    "diagonal": [(((3, 4),), {"offset": 1})],
    "diagonal_adjoint": [(((3,),), {"shape": (3, 4), "offset": 1})],
    "unfold": [(((7,),), {"dim": 0, "size": 3, "step": 2})],
    "unfold_adjoint": [(((3, 3),), {"shape": (7,), "dim": 0, "size": 3, "step": 2})],
    # indexing
    "getitem": [
        (((4, 3),), {"index": (slice(1, None, 2), -1)}),
        (((4, 3),), {"index": [0, 2, 0]}),
    ],
    "getitem_adjoint": [(((3, 3),), {"index": [0, 2, 0], "shape": (4, 3)})],
    "setitem": [
        (((4, 3), (3,)), {"index": 1}),
        (((4, 3), (2, 3)), {"index": [1, 1], "accumulate": True}),
    ],
    "gather": [(((3, 4), _indices(4, 3, 2)), {"dim": 1})],
    "gather_adjoint": [(((3, 2), _indices(4, 3, 2)), {"dim": 1, "shape": (3, 4)})],
    "scatter": [(((3, 4), _indices(3, 2, 4), (2, 4)), {"dim": 0})],
    "index_select": [(((3, 4), _indices(3, 5)), {"dim": 0})],
    "index_select_adjoint": [(((5, 4), _indices(3, 5)), {"dim": 0, "length": 3})],
    "argsort": [(((3, 4),), {})],
    "topk_indices": [(((3, 4),), {"k": 2})],
    "nonzero": [(((3, 4),), {})],
    "embedding": [(((5, 3), _indices(5, 2, 4)), {})],
    "embedding_adjoint": [(((2, 4, 3), _indices(5, 2, 4)), {"rows": 5})],
    "one_hot": [((_indices(4, 3),), {"num_classes": 4})],
    # fused
    "softmax": [(((3, 4),), {"dim": 1})],
    "log_softmax": [(((3, 4),), {"dim": 0})],
    "cross_entropy": [
        (((4, 3), _indices(3, 4)), {}),
        (((4, 3), _indices(3, 4)), {"reduction": "sum", "label_smoothing": 0.1}),
    ],
    "binary_cross_entropy": [((_shares(3, 4), _shares(3, 4)), {})],
    "layer_norm": [(((3, 5), (5,), (5,)), {"normalized_shape": (5,)})],
    "rms_norm": [(((3, 5), (5,)), {"normalized_shape": (5,)})],
    "group_norm": [(((2, 4, 3), (4,), (4,)), {"num_groups": 2})],
    "batch_moments": [(((4, 3, 2),), {})],
    "batch_norm": [(((4, 3, 2), _statistics(3), (3,), (3,)), {})],
    "dropout": [(((3, 4), (3, 4)), {"p": 0.25})],
    "attention_weights": [(((2, 3, 4), (2, 5, 4), (3, 5)), {})],
    "scaled_dot_product_attention": [
        (((2, 3, 4), (2, 5, 4), (2, 5, 3), (3, 5)), {}),
        (((3, 4), (3, 4), (3, 2), None), {"is_causal": True}),
    ],
    # convolution and pooling
    "conv2d": [(((2, 2, 5, 4), (3, 2, 3, 2), (3,)), _KERNEL)],
    "conv2d_input_adjoint": [
        (((1, 3, 3, 3), (3, 2, 3, 2)), {"shape": (1, 2, 5, 4), **_KERNEL}),
    ],
    "conv2d_weight_adjoint": [
        (((1, 3, 3, 3), (1, 2, 5, 4)), {"shape": (3, 2, 3, 2), **_KERNEL}),
    ],
    "max_pool2d": [(((1, 2, 5, 4),), {"kernel_size": 2})],
    "max_pool2d_indices": [(((1, 2, 5, 4),), {"kernel_size": 2})],
    "avg_pool2d": [(((1, 2, 5, 4),), {"kernel_size": 2})],
    "avg_pool2d_adjoint": [(((1, 2, 2, 2),), {"shape": (1, 2, 5, 4), "kernel_size": 2})],
    "im2col": [(((1, 2, 5, 4),), _COLUMNS)],
    "col2im": [(((1, 12, 6),), {"output_size": (5, 4), **_COLUMNS})],
    # conversion
    "cast": [(((2, 3),), {"dtype": np.dtype(np.float64)})],
    "clone": [(((2, 3),), {})],
    # made of other ops
    "tensordot": [(((2, 3, 4), (3, 4, 2)), {}), (((2, 3), (4, 2)), {"dims": ((0,), (1,))})],
    "swapaxes": [(((2, 3, 4),), {"dim0": 0, "dim1": -1})],
    "moveaxis": [(((2, 3, 4),), {"source": 0, "destination": 2})],
    "split": [(((5, 2),), {"split_size": 2})],
    "chunk": [(((2, 5),), {"chunks": 2, "dim": 1})],
    "unbind": [(((3, 2),), {})],
    "tile": [(((2, 3),), {"dims": (2,)})],
    "take_along_dim": [(((3, 4), _indices(4, 1, 2)), {"dim": 1})],
    "scatter_add": [(((3, 4), _indices(3, 2, 4), (2, 4)), {"dim": 0})],
    "index_add": [(((3, 4), _indices(3, 5), (5, 4)), {"dim": 0, "alpha": 2})],
    "index_put": [(((4, 3), (3, 3)), {"indices": (np.array([0, 2, 0]),), "accumulate": True})],
    "masked_fill": [(((3, 4), (3, 1), ()), {})],
    "masked_select": [(((3, 4), (3, 4)), {})],
    "sort": [(((3, 4),), {"descending": True})],
    "topk": [(((3, 4),), {"k": 2})],
}


def calls(seed: int, every: bool = True) -> Iterator[Call]:
    """Yield calls of every op of the vocabulary; one of each if not ``every``."""
    for number, (name, spec) in enumerate(VOCAB.items()):
        rng = np.random.default_rng([seed, number])
        rows: Sequence[tuple[tuple[Operand, ...], Mapping[str, Any]]] = _ARRAYS.get(name) or [
            (shapes, attrs)
            for attrs in _ATTRS.get(name, ({},))
            for shapes in _ELEMENTWISE[len(spec.inputs)]
        ]
        for operands, attrs in rows if every else rows[:1]:
            domains = spec.domain * len(operands) if spec.variadic else spec.domain
            drawn = tuple(
                _drawn(operand, domain, rng)
                for operand, domain in zip(operands, domains, strict=True)
            )
            yield Call(name, drawn, attrs)


def _drawn(operand: Operand, domain: str, rng: np.random.Generator) -> Array | None:
    if operand is None or callable(operand):
        return None if operand is None else operand(rng)
    return _DOMAINS[domain](rng, operand)


def leaves(call: Call, dtype: Any = np.float64) -> list[Tensor | None]:
    """Return the operands as Tensors, of which the real ones require grad, if the op has rules."""
    made: list[Tensor | None] = []
    for a in call.operands:
        if a is None or a.dtype.kind != "f":
            made.append(None if a is None else Tensor(a))
        else:
            made.append(Tensor(a.astype(dtype), requires_grad=VOCAB[call.op].differentiable))
    return made


def wanted(operands: Sequence[Tensor | None]) -> list[Tensor]:
    """Return those that a gradient flows to."""
    return [x for x in operands if x is not None and x.requires_grad]


def run(call: Call, operands: Sequence[Tensor | None]) -> Tensor:
    """Call the op; one that says a dtype says that of the operands.

    Several results come in one row, ``joined``.
    """
    function = getattr(recording, call.op)
    attrs = dict(call.attrs)
    if "dtype" in attrs and operands[0] is not None:
        attrs["dtype"] = operands[0].dtype
    return joined(
        function(list(operands), **attrs)
        if VOCAB[call.op].variadic
        else function(*operands, **attrs)
    )


def joined(results: Any) -> Tensor:
    """Return an op's result; if there are several, all their elements in one row of one dtype."""
    if isinstance(results, Tensor):
        return results
    row: Tensor = recording.cat([x.reshape(-1).to(results[0].dtype) for x in results])
    return row


def cotangent(out: Tensor) -> Tensor:
    """Return a gradient for a result: random, none of it near 0, and no two elements alike."""
    rng = np.random.default_rng([len(out.shape), *out.shape])
    return Tensor(_signed(rng, out.shape).astype(out.dtype))
