"""How a call of each op is drawn around an operand that is given: one line or function per op.

An elementwise op without attributes that must be given needs no line: its operands follow from
the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from micro.vocab import REQUIRED, VOCAB
from tests.crosscheck import (  # noqa: F401 - each enters its own
    draw_arrays,
    draw_composed,
    draw_indexing,
    draw_layers,
)
from tests.crosscheck.draw_table import DRAWS, Call, broadcast
from tests.crosscheck.programs import SPECIAL

if TYPE_CHECKING:
    from tests.crosscheck.generate import Draft

__all__ = ["DRAWS", "OPS", "drawable", "gives", "step", "takes"]

# Between which numbers the operands of each domain are kept, and those of some ops.
RANGES: Final = {
    "real": (-3.0, 3.0),
    "positive": (0.25, 4.0),
    "nonzero": (-4.0, 4.0),
    "unit": (-1.0, 1.0),
}

# Narrower ranges than the domain's, for what grows fast or is cut off.
NARROW: Final[Mapping[tuple[str, int], tuple[float, float]]] = {
    ("exp", 0): (-3.0, 2.5),
    ("sinh", 0): (-2.5, 2.5),
    ("cosh", 0): (-2.5, 2.5),
    ("tan", 0): (-1.25, 1.25),
    ("pow", 0): (0.25, 2.5),
    ("pow", 1): (-2.5, 2.5),
}

# Attributes of elementwise ops, besides their defaults.
ATTRS: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "clip": ({"min": -1.0, "max": 1.0}, {"min": 0.5}, {"max": 0.25}),
    "gelu": ({}, {"approximate": "tanh"}),
    "round": ({}, {"decimals": 1}),
    "softplus": ({}, {"beta": 0.5}),
    "leaky_relu": ({}, {"negative_slope": 0.25}),
    "elu": ({}, {"alpha": 0.5}),
}

# Operands with which an op that may round does not.
EXACT: Final[Mapping[tuple[str, int], Sequence[float]]] = {
    ("div", 1): (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0),
    ("pow", 1): (1.0, 2.0, 3.0),
}


def drawable() -> list[str]:
    """The ops that calls can be drawn of."""
    return [
        name
        for name, spec in VOCAB.items()
        if name in DRAWS
        or (spec.scope == "both" and (name in ATTRS or REQUIRED not in spec.attrs.values()))
    ]


def gives(name: str) -> Literal["f", "i", "b"]:
    """Whether an op's result holds real numbers, integers or truth values."""
    if name in SPECIAL or VOCAB[name].differentiable:
        return "f"
    return "i" if name in _INTEGERS else "b"


def takes(name: str) -> set[str]:
    """The kinds of operands that an op takes."""
    kinds = {"bool": "b", "index": "i"}
    return {"f"} if name in SPECIAL else {kinds.get(d, "f") for d in VOCAB[name].domain}


# What takes operands of any kind.
_ANY: Final = {"cast"}

_INTEGERS: Final = {
    *("argmax", "argmin", "one_hot", "max_pool2d_indices", "argsort", "topk_indices", "nonzero"),
}


def step(d: Draft, name: str, i: int) -> int | None:
    """Append a call of the op ``name`` that takes the value i; None if there is no fitting one."""
    if name in SPECIAL:
        return _special(d, name, i)
    call = DRAWS[name](d, i) if name in DRAWS else _elementwise(d, name, i)
    if call is None:
        return None
    operands, attrs = call
    spec = VOCAB[name]
    domains = spec.domain * len(operands) if spec.variadic else spec.domain
    kinds = {"bool": "b", "index": "i"}
    if any(
        j is not None and d.data[j].dtype.kind != kinds.get(domain, "f") and name not in _ANY
        for j, domain in zip(operands, domains, strict=True)
    ):
        return None
    fitted = tuple(
        None if j is None else _fitted(d, name, k, domain, j)
        for k, (j, domain) in enumerate(zip(operands, domains, strict=True))
    )
    return d.add(name, fitted, attrs)


def _special(d: Draft, name: str, i: int) -> int | None:
    """A step that is no op: what is cut off, hooked or changed in place."""
    if d.data[i].dtype.kind != "f":
        return None
    if name == "detach":
        return d.add(name, (i,), {})
    if name == "hook":
        return d.add(name, (i,), {"factor": 0.5}) if d.grads[i] else None
    attrs: dict[str, Any] = {"copy": not d.can_change(i) or d.chance(0.6)}
    if name == "fill_":
        return d.add(name, (i,), attrs | {"value": 0.5})
    shape = d.data[i].shape
    if name == "put_":
        if not math.prod(shape):
            return None
        attrs["index"] = d.choose([Ellipsis, *([slice(0, 1), 0, -1] if shape else [])])
        other = d.other(np.zeros(shape)[attrs["index"]].shape)
    else:
        other = d.other(tuple(n if d.chance(0.8) else 1 for n in shape))
    if name == "div_":
        if d.exact:
            values = d.rng.choice(EXACT["div", 1], d.data[other].shape)
            other = d.constant(np.asarray(values), grad=True)
        else:
            other = d.into(other, *RANGES["nonzero"], away=0.25)
    return d.add(name, (i, other), attrs)


def _fitted(d: Draft, name: str, place: int, domain: str, i: int) -> int:
    """The value i inside the domain of an operand."""
    if domain not in RANGES or d.data[i].dtype.kind != "f":
        return i
    if d.exact and name == "pow":
        return i
    low, high = NARROW.get((name, place), RANGES[domain])
    if domain == "real" and (name, place) not in NARROW:
        low, high = -12.0, 12.0
    return d.into(i, low, high, away=0.25 if domain == "nonzero" else 0.0)


def _elementwise(d: Draft, name: str, i: int) -> Call:
    """A call on operands that broadcast, the given one in any place."""
    spec = VOCAB[name]
    kind = d.data[i].dtype.kind
    places = [k for k, domain in enumerate(spec.domain) if (domain == "bool") == (kind == "b")]
    if not places or kind == "i":
        return None
    mine = d.choose([k for k in places if not (d.exact and (name, k) in EXACT)])
    operands = []
    for k, domain in enumerate(spec.domain):
        if k == mine:
            operands.append(i)
        elif d.exact and (name, k) in EXACT:
            values = d.rng.choice(EXACT[name, k], broadcast(d, i))
            operands.append(d.constant(np.asarray(values), grad=name != "pow"))
        elif domain == "bool":
            operands.append(d.constant(d.rng.random(broadcast(d, i)) < 0.5))
        else:
            same = d.chance(0.1) and kind == "f" and domain != "nonzero"
            operands.append(i if same else d.other(broadcast(d, i)))
    attrs = ATTRS.get(name, ({},))
    return tuple(operands), dict(attrs[-1] if d.exact else d.choose(attrs))


OPS: Final = [*drawable(), *SPECIAL]
