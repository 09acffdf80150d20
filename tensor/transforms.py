"""Functions of functions: products with Jacobians and Hessians, and these themselves.

Names, arguments and results are those of ``torch.autograd.functional``. Every
one of them calls the function on Tensors of its own, so that neither the
inputs nor their ``grad`` change, and is made of ``grad`` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .dispatch import recording
from .engine import grad
from .errors import ShapeError
from .modes import enable_grad
from .tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

# A Tensor, or a tuple of them; what comes back has the form of what went in.
Tensors: TypeAlias = Tensor | tuple[Tensor, ...]


def vjp(
    func: Callable[..., Tensors],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensors, Tensors]:
    """Return ``func(*inputs)`` and the product of ``v`` with its Jacobian, ``v @ J``.

    Args:
        func: takes the inputs and returns a Tensor or a tuple of them.
        inputs: a Tensor or a tuple of them, floating.
        v: for each output a Tensor of its shape; 1 for an output of one element.
        create_graph: record everything, so that both results can be differentiated, with respect
            to the inputs and ``v`` too.
        strict: raise where an output does not depend on an input, rather than give zeros.

    Returns:
        The outputs, and for each input a Tensor of its shape and dtype.

    Raises:
        TypeError: an input, ``v`` or an output is no Tensor nor a tuple of them.
        RuntimeError: an input is not floating; ``v`` does not fit the outputs, or is missing
            where there is more than one element; or, if ``strict``, independence.

    >>> outputs, product = vjp(lambda x: x * x, Tensor([1.0, 2.0]), Tensor([1.0, 10.0]))
    >>> product.tolist()
    [2.0, 40.0]
    """
    with enable_grad():
        call = _Call("vjp", func, inputs, create_graph, strict)
        what = "input" if isinstance(func, _Gradient) else "output"
        cotangents = _vectors(call.name, v, call.outputs, what, call.single_out, create_graph)
        if strict:
            _check_outputs(call.name, call.outputs)
        found = call.pulled(call.outputs, cotangents, create_graph)
        call.check_results(found)
        return call.results(call.outputs, call.single_out), call.results(found, call.single_in)


def jvp(
    func: Callable[..., Tensors],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensors, Tensors]:
    """Return ``func(*inputs)`` and the product of its Jacobian with ``v``, ``J @ v``.

    The Jacobian is never made: ``u @ J`` is linear in ``u``, and its derivative along ``v`` is
    what is looked for. That takes two backward passes.

    Args:
        func: as for ``vjp``.
        inputs: as for ``vjp``.
        v: for each input a Tensor of its shape; 1 for an input of one element.
        create_graph: as for ``vjp``.
        strict: as for ``vjp``.

    Returns:
        The outputs, and for each output a Tensor of its shape and dtype.

    Raises:
        TypeError: as for ``vjp``.
        RuntimeError: as for ``vjp``, with ``v`` fitting the inputs.

    >>> outputs, product = jvp(lambda x: x * x.sum(), Tensor([1.0, 2.0]), Tensor([1.0, 0.0]))
    >>> product.tolist()
    [4.0, 2.0]
    """
    with enable_grad():
        call = _Call("jvp", func, inputs, create_graph, strict)
        tangents = _vectors(call.name, v, call.inputs, "input", call.single_in, create_graph)
        if strict:
            _check_outputs(call.name, call.outputs)
        found = call.pushed(tangents)
        call.check_results(found)
        return call.results(call.outputs, call.single_out), call.results(found, call.single_out)


def jacobian(
    func: Callable[..., Tensors],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """Return the Jacobian of ``func``: by output and input, of shape ``output + input``.

    ``J[i, j] = d output[i] / d input[j]``, one backward pass for each element of the outputs.

    Args:
        func: as for ``vjp``.
        inputs: as for ``vjp``.
        create_graph: as for ``vjp``.
        strict: as for ``vjp``.

    Returns:
        A Tensor; for several inputs a tuple of them, one for each input; for several outputs a
        tuple of these. Each is of its input's dtype.

    Raises:
        TypeError: as for ``vjp``.
        RuntimeError: as for ``vjp``.

    >>> jacobian(lambda x: x * x, Tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    with enable_grad():
        call = _Call("jacobian", func, inputs, create_graph, strict)
        if strict:
            _check_outputs(call.name, call.outputs)
        rows = []
        for i, output in enumerate(call.outputs):
            blocks = call.block(i, output)
            call.check_results(blocks)
            rows.append(call.results(blocks, call.single_in))
        return rows[0] if call.single_out else tuple(rows)


def hessian(
    func: Callable[..., Tensor],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """Return the Hessian of ``func``, whose output has one element, of shape ``input + input``.

    Args:
        func: takes the inputs and returns a Tensor of one element.
        inputs: as for ``vjp``.
        create_graph: as for ``vjp``.
        strict: raise where the output, or its gradient, does not depend on an input.

    Returns:
        A Tensor; for several inputs a tuple of tuples of them, ``H[i][j]`` of the shapes of
        inputs i and j together.

    Raises:
        TypeError: as for ``vjp``.
        RuntimeError: as for ``vjp``; or the output is not one Tensor of one element.

    >>> hessian(lambda x: (x * x * x).sum(), Tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    gradient = _Gradient("hessian", func, isinstance(inputs, Tensor), strict)
    return jacobian(gradient, inputs, create_graph, strict)


def vhp(
    func: Callable[..., Tensor],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, Tensors]:
    """Return ``func(*inputs)`` and the product of ``v`` with its Hessian, ``v @ H``.

    Two backward passes. Of a function that is twice continuously differentiable the Hessian is
    symmetric: then this is ``H @ v``, for less than ``hvp`` takes.

    Args:
        func: as for ``hessian``.
        inputs: as for ``vjp``.
        v: for each input a Tensor of its shape; 1 for an input of one element.
        create_graph: as for ``vjp``.
        strict: as for ``hessian``.

    Returns:
        The output, and for each input a Tensor of its shape and dtype.

    Raises:
        TypeError: as for ``vjp``.
        RuntimeError: as for ``hessian``, or ``v`` does not fit the inputs.
    """
    gradient = _Gradient("vhp", func, isinstance(inputs, Tensor), strict)
    _, product = vjp(gradient, inputs, v, create_graph, strict)
    return gradient.value(create_graph), product


def hvp(
    func: Callable[..., Tensor],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, Tensors]:
    """Return ``func(*inputs)`` and the product of its Hessian with ``v``, ``H @ v``.

    Three backward passes; see ``vhp``.

    Args:
        func: as for ``hessian``.
        inputs: as for ``vjp``.
        v: for each input a Tensor of its shape; 1 for an input of one element.
        create_graph: as for ``vjp``.
        strict: as for ``hessian``.

    Returns:
        The output, and for each input a Tensor of its shape and dtype.

    Raises:
        TypeError: as for ``vjp``.
        RuntimeError: as for ``vhp``.
    """
    gradient = _Gradient("hvp", func, isinstance(inputs, Tensor), strict)
    _, product = jvp(gradient, inputs, v, create_graph, strict)
    return gradient.value(create_graph), product


class _Gradient:
    """The gradient of a function with one output, as a function; it remembers the last output."""

    def __init__(self, name: str, func: Callable[..., Any], single: bool, strict: bool) -> None:
        self.name = name
        self.func = func
        self.single = single
        self.strict = strict
        self.output: Tensor | None = None

    def __call__(self, *inputs: Tensor) -> Tensors:
        output = self.func(*inputs)
        if not isinstance(output, Tensor):
            raise TypeError(
                f"{self.name}: func must return one Tensor, got {type(output).__name__}; "
                "for several outputs use jacobian"
            )
        if output.numel() != 1:
            raise RuntimeError(
                f"{self.name}: func must return a Tensor of one element, got shape {output.shape}; "
                "reduce it, or use jacobian"
            )
        self.output = output
        if self.strict:
            _check_outputs(self.name, [output])
        ones = Tensor._wrap(np.ones(output.shape, output.dtype))
        found = _pulled(self.name, [output], inputs, [ones], True, self.strict)
        return found[0] if self.single else tuple(found)

    def value(self, create_graph: bool) -> Tensor:
        """Return the last output."""
        assert self.output is not None
        return self.output if create_graph else self.output.detach()


class _Call:
    """One call of a function, on Tensors of its own."""

    def __init__(
        self, name: str, func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool
    ) -> None:
        if isinstance(func, _Gradient):
            name = func.name
        self.name = name
        self.create_graph = create_graph
        self.strict = strict
        given = _listed(name, "inputs", inputs)
        self.single_in = isinstance(inputs, Tensor)
        for i, tensor in enumerate(given):
            if tensor.dtype.kind != "f":
                raise RuntimeError(
                    f"{name}: inputs[{i}] must be floating to be differentiated, got "
                    f"{tensor.dtype}; convert it with .float()"
                )
        # Each is another Tensor than the one it is made of, and so than any other input.
        self.inputs = [
            recording.clone(tensor)
            if create_graph and tensor.requires_grad
            else tensor.detach().requires_grad_()
            for tensor in given
        ]
        returned = func(*self.inputs)
        self.outputs = _listed(name, "the result of func", returned)
        self.single_out = isinstance(returned, Tensor)

    def pulled(
        self, outputs: list[Tensor], cotangents: list[Tensor], create_graph: bool, which: int = 0
    ) -> list[Tensor]:
        """Return the gradient of every input."""
        return _pulled(
            self.name, outputs, self.inputs, cotangents, create_graph, self.strict, which
        )

    def check_results(self, results: Sequence[Tensor]) -> None:
        """Raise if a result that is to be differentiated has no graph and that is not allowed."""
        if not (self.strict and self.create_graph):
            return
        for i, result in enumerate(results):
            if not result.requires_grad:
                raise RuntimeError(
                    f"{self.name}: result {i} is independent of the inputs, which is not allowed "
                    "with strict=True and create_graph=True"
                )

    def pushed(self, tangents: list[Tensor]) -> list[Tensor]:
        """Return the derivative of every output along ``tangents``."""
        duals = [_zeros(out).requires_grad_(out.dtype.kind == "f") for out in self.outputs]
        pulled = self.pulled(self.outputs, duals, create_graph=True)
        pairs = [(g, t) for g, t in zip(pulled, tangents, strict=True) if g.requires_grad]
        targets = [d for d, out in zip(duals, self.outputs, strict=True) if out.requires_grad]
        found: Sequence[Tensor | None] = ()
        if pairs and targets:
            able, seeds = zip(*pairs, strict=True)
            found = grad(able, targets, seeds, True, self.create_graph, allow_unused=True)
        of = {id(dual): g for dual, g in zip(targets, found, strict=bool(pairs))}
        results = [of.get(id(dual)) for dual in duals]
        independent = [i for i, g in enumerate(results) if g is None]
        if self.strict and independent:
            raise RuntimeError(
                f"{self.name}: output {independent[0]} of func is independent of the inputs, "
                "which is not allowed with strict=True"
            )
        return [
            _zeros(out) if g is None else g for out, g in zip(self.outputs, results, strict=True)
        ]

    def block(self, i: int, output: Tensor) -> list[Tensor]:
        """Return the Jacobian of one output by every input."""
        rows: list[list[Tensor]] = []
        for k in range(output.numel()):
            unit = np.zeros(output.shape, output.dtype)
            unit.reshape(-1)[k] = 1
            rows.append(self.pulled([output], [Tensor._wrap(unit)], self.create_graph, which=i))
        blocks = []
        for j, x in enumerate(self.inputs):
            shape = output.shape + x.shape
            if rows:
                blocks.append(recording.reshape(recording.stack([row[j] for row in rows]), shape))
            else:
                blocks.append(Tensor._wrap(np.zeros(shape, x.dtype)))
        return blocks

    def results(self, tensors: Sequence[Tensor], single: bool) -> Tensors:
        """Return what the caller gets: without history, unless that was asked for."""
        kept = tuple(t if self.create_graph else t.detach() for t in tensors)
        return kept[0] if single else kept


def _check_outputs(name: str, outputs: list[Tensor]) -> None:
    """Raise if an output depends on no input."""
    for i, output in enumerate(outputs):
        if not output.requires_grad:
            raise RuntimeError(
                f"{name}: output {i} of func does not require grad, so it is independent of the "
                "inputs, which is not allowed with strict=True"
            )


def _pulled(
    name: str,
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    cotangents: Sequence[Tensor],
    create_graph: bool,
    strict: bool,
    which: int = 0,
) -> list[Tensor]:
    """Return the gradient of every input; zeros, or an error if ``strict``, where there is none."""
    pairs = [(o, g) for o, g in zip(outputs, cotangents, strict=True) if o.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(inputs)
    if pairs:
        able, seeds = zip(*pairs, strict=True)
        found = grad(able, inputs, seeds, True, create_graph, allow_unused=True)
    independent = [i for i, g in enumerate(found) if g is None]
    if strict and independent:
        raise RuntimeError(
            f"{name}: output {which} of func is independent of input {independent[0]}, which is "
            "not allowed with strict=True"
        )
    return [_zeros(x) if g is None else g for x, g in zip(inputs, found, strict=True)]


def _zeros(like: Tensor) -> Tensor:
    return Tensor._wrap(np.zeros(like.shape, like.dtype))


def _listed(name: str, what: str, tensors: Any) -> list[Tensor]:
    if not isinstance(tensors, (Tensor, tuple)):
        raise TypeError(
            f"{name}: {what} must be a Tensor or a tuple of Tensors, got {type(tensors).__name__}"
        )
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for i, tensor in enumerate(listed):
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"{name}: {what} must be a Tensor or a tuple of Tensors, got "
                f"{type(tensor).__name__} in place {i}; wrap numbers and arrays in Tensor(...)"
            )
    return listed


def _vectors(
    name: str, v: Any, like: list[Tensor], what: str, single: bool, create_graph: bool
) -> list[Tensor]:
    """Return ``v`` as one Tensor for each of ``like``, of its shape and dtype."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            shapes = ", ".join(str(x.shape) for x in like)
            raise RuntimeError(
                f"{name}: v may be left out only for one {what} of one element, got {shapes}; "
                f"pass a Tensor of the shape of each {what}"
            )
        return [Tensor._wrap(np.ones(like[0].shape, like[0].dtype))]
    vectors = _listed(name, "v", v)
    if len(vectors) != len(like):
        raise RuntimeError(f"{name}: got {len(vectors)} Tensors in v for {len(like)} {what}s")
    for i, (vector, x) in enumerate(zip(vectors, like, strict=True)):
        if vector.shape != x.shape:
            place = "v" if single else f"v[{i}]"
            raise ShapeError(
                f"{name}: {place} has shape {vector.shape}, but {what} {i} has shape {x.shape}"
            )
    return [
        (vector if create_graph else vector.detach()).to(x.dtype)
        for vector, x in zip(vectors, like, strict=True)
    ]
