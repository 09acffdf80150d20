"""Why those mutants survive that do."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from tests.mutation.mutants import Mutant
from tests.structure import ROOT

__all__ = ["REASONS", "Reason", "misfits", "reason"]


class Reason(NamedTuple):
    """Why mutants of a line survive: those that it becomes, in full, by a regular expression."""

    path: str
    line: str
    becomes: str
    why: str


_ELEMENTWISE: Final = "tensor/rules/elementwise.py"
_FUSED: Final = "tensor/rules/fused.py"
_INDEXING: Final = "tensor/rules/indexing.py"
_LINALG: Final = "tensor/rules/linalg.py"
_REDUCTION: Final = "tensor/rules/reduction.py"
_FLAT: Final = "tensor/optim/_flat.py"
_PLACEHOLDER: Final = "equivalent: the number stands where another one is chosen, and is finite too"
_TIE: Final = "equivalent: equal operands were dealt with before"
_NO_0D: Final = "equivalent: an operand of a product has a dimension"
_SLOWER: Final = "speed: the general way gives the same"
_TRUTH: Final = "equivalent: of truth values the product is the conjunction"
_ONE_OF: Final = "equivalent: the other words stand on the other side of this one"
_GROWS: Final = "equivalent: a version only grows"
_AT_LEAST_0: Final = "equivalent: no such option is negative"
_OPTIMIZER: Final = "tensor/optim/_optimizer.py"
_KERNELS: Final = "tensor/kernels/optimizers.py"
_PASSES: Final = "tensor/passes.py"
_OPS: Final = "micro/ops.py"

# Of these every file has some.
EVERYWHERE: Final = {
    r".*\bstrict=False.*": "equivalent: the lengths agree; strict would say so if they did not",
}

REASONS: Final = [
    Reason(
        "micro/optim.py",
        "if self.momentum == 0:",
        r"if self\.momentum <= 0:",
        "equivalent: momentum is at least 0",
    ),
    Reason(
        "micro/optim.py",
        'self.dampening: float = self._real("dampening", dampening, least=-fields.inf)',
        r".*least=not fields\.inf\)",
        "not wanted: a negative dampening is let through, as in PyTorch, but nobody relies on it",
    ),
    Reason(
        "tensor/rules/attention.py",
        "return xp.reshape(xp.sum(scores, repeated, True), shape) if repeated else scores",
        r".*repeated, False.*",
        "equivalent: the sum is reshaped",
    ),
    Reason(
        "tensor/rules/convolution.py",
        "bias=lambda xp, g: xp.sum(g, (0, -2, -1) if len(g.shape) == 4 else (-2, -1)),",
        r".*(\(0, \+?2, -1\)|(== 5|> 4|>= 4) else).*",
        "equivalent: of 4 dimensions -2 is 2; what is not summed here is summed by the engine",
    ),
    Reason(
        _ELEMENTWISE,
        "return g * xp.where(b == 0, 0.0, b * xp.pow(a, xp.where(b == 0, 1.0, b - 1)))",
        r".*b == 0, [02]\.0, b - 1.*",
        _PLACEHOLDER,
    ),
    Reason(
        _ELEMENTWISE,
        "flat = (a == 0) * (b >= 0)",
        r"flat = \(a == 0\) & \(b >= 0\)",
        "equivalent: of truth values the product is the conjunction",
    ),
    Reason(
        _ELEMENTWISE,
        "return g * xp.where(flat, 0.0, out * xp.log(xp.where(flat, 1.0, a)))",
        r".*xp\.where\(flat, 2\.0, a\).*",
        _PLACEHOLDER,
    ),
    Reason(
        _ELEMENTWISE,
        'vjp("relu", a=lambda xp, g, out: xp.where(out <= 0, 0.0, g))',
        r".*out == 0.*",
        "equivalent: no result of relu is below 0",
    ),
    Reason(
        _ELEMENTWISE,
        'if approximate == "tanh":',
        r'if approximate >= "tanh":',
        "equivalent: the other word is 'none'",
    ),
    Reason(
        _ELEMENTWISE,
        "near = xp.clip(a, -10.0, 10.0)  # beyond, t is -1 or 1, and powers of a might overflow",
        r"near = xp\.clip\(a, -( 11| 9|10)\.0, (9|10|11)\.0\).*",
        "equivalent: t is -1 or 1 to the last bit from 9 on",
    ),
    *(
        Reason(_ELEMENTWISE, line, r".*(<=|>=).*", _TIE)
        for line in (
            "a=lambda xp, g, a, b: xp.where(a == b, g / 2, xp.where(a < b, 0.0, g)),",
            "b=lambda xp, g, a, b: xp.where(a == b, g / 2, xp.where(b < a, 0.0, g)),",
            "a=lambda xp, g, a, b: xp.where(a == b, g / 2, xp.where(a > b, 0.0, g)),",
            "b=lambda xp, g, a, b: xp.where(a == b, g / 2, xp.where(b > a, 0.0, g)),",
        )
    ),
    Reason(
        _FUSED,
        "count = math.prod(a_shape) / a_shape[1] if a_shape[1] else 1",
        r".*(else [02]|//.*)",
        "equivalent: without channels there is no element; the product is a multiple of a factor",
    ),
    Reason(
        _INDEXING,
        "k for k, n in enumerate(g.shape) if k < extra or (shape[k - extra] == 1 and n != 1)",
        r".*n (!= 0|>= 1|> 1)\)",
        "equivalent: a sum over one element changes nothing",
    ),
    Reason(
        _INDEXING,
        "g = xp.sum(g, dims, True) if dims else g",
        r".*dims, False.*",
        "equivalent: the sum is reshaped",
    ),
    Reason(
        _INDEXING,
        "if tuple(g.shape) == tuple(src_shape):",
        r"if tuple\(g\.shape\) >=? tuple\(src_shape\):",
        _SLOWER,
    ),
    Reason(
        _LINALG,
        "if len(b_shape) == 1:  # (..., m, k) @ (k) or (k) @ (k)",
        r".*<= 1.*",
        _NO_0D,
    ),
    Reason(
        _LINALG,
        "return g * b if len(a_shape) == 1 else xp.unsqueeze(g, -1) * b",
        r".*(< 1|<= 1|== 0).*",
        "equivalent: where g is one number a dimension of length 1 changes nothing",
    ),
    Reason(
        _LINALG,
        "if len(a_shape) == 1:  # (k) @ (..., k, n) or (k) @ (k)",
        r".*<= 1.*",
        _NO_0D,
    ),
    Reason(
        _LINALG,
        "return g * a if len(b_shape) == 1 else xp.unsqueeze(a, -1) * xp.unsqueeze(g, -2)",
        r".*(<= 1|\(a, \+1\)|\(a, 1\)).*",
        "equivalent: an operand of a product has a dimension, and a row has one alone",
    ),
    Reason(_LINALG, "if len(b_shape) == 1:  # (..., m, k) @ (k)", r".*<= 1.*", _NO_0D),
    Reason(
        _LINALG,
        "if len(b_shape) == 2:  # one product for all batches, not one for each",
        r".*(== 1|< 2|<= 2).*",
        "speed: one product for each batch, summed by the engine, is the same",
    ),
    Reason(
        _LINALG,
        'return anchored(xp, g, out) if activation == "relu" else g',
        r".*[<>]=.*",
        "equivalent: what depends on out already may be tied to it once more",
    ),
    Reason(
        _REDUCTION,
        "return spread(xp, g / max(count(a_shape, dim), 1), a_shape, dim, keepdim)",
        r".*, 0\), a_shape.*",
        "equivalent: it matters where there is no element",
    ),
    Reason(_REDUCTION, "still = out == 0", r"still = out <= 0", "equivalent: none is negative"),
    Reason(
        _REDUCTION,
        "return xp.reshape(row * g, a_shape)",
        r".*row . g.*|.*row .. g.*",
        "equivalent: there is no element",
    ),
    Reason(
        _REDUCTION,
        "return xp.cat([filler, kept] if by > 0 else [kept, filler], dim)",
        r".*by (>= 0|> -1) .*",
        "equivalent: nothing is moved by 0 places",
    ),
    *(
        Reason(_REDUCTION, line, r".*-reach, -? ?1\.0\)", "equivalent: the other factor is 0 there")
        for line in (
            "s = s + factor * _shifted(xp, s, dim, -reach, 0.0)",
            "factor = factor * _shifted(xp, factor, dim, -reach, 0.0)",
        )
    ),
    Reason(_REDUCTION, "if p == 1:", r"if p == 0:|if p (<|<=) 1:", _SLOWER),
    Reason(_REDUCTION, "if p == 2:", r"if p (==|<=|<) 1:|if p < 2:", _SLOWER),
    Reason(
        _REDUCTION,
        "ratio = xp.where(size == 0, 0.0, a / xp.where(size == 0, 1.0, size))",
        r".*(size == -1, 0\.0|size < 0, 0\.0|size <= 0, 0\.0|size <= 0, 1\.0|size == 0, 2\.0).*",
        "equivalent: no norm is negative, and where it is 0 so is every element",
    ),
    Reason(
        _REDUCTION,
        "wins = xp.one_hot(arg(a, dim), a_shape[dim]) == 1  # the classes are the last dimension",
        r".*>= 1.*",
        "equivalent: it has 0 and 1 alone",
    ),
    Reason(
        _REDUCTION,
        "share = xp.exp(a - xp.where(total == -math.inf, 0.0, total))",
        r".*total <= .*",
        "equivalent: nothing is below -inf",
    ),
    Reason(
        _REDUCTION,
        "while reach < a_shape[dim]:",
        r".*<= a_shape.*",
        "speed: of one more round every factor is 0",
    ),
    Reason(
        _REDUCTION,
        "while row.shape[along] > 1:",
        r".*!= 1:",
        "equivalent: a length of 0 was dealt with before",
    ),
    Reason(
        _REDUCTION,
        "kept = xp.getitem(a, (*ahead, slice(length - gap) if by > 0 else slice(gap, None)))",
        r".*by (>= 0|> -1) .*",
        "equivalent: nothing is moved by 0 places",
    ),
    Reason(
        _REDUCTION,
        "share = xp.exp(a - xp.where(total == -math.inf, 0.0, total))",
        r".*, -?1\.0, total.*",
        "equivalent: -inf less any number is -inf",
    ),
    Reason(
        _FLAT,
        "self._idle = 0, 0",
        r"self\._idle = .*",
        "equivalent: ``rest`` is called before anything asks",
    ),
    Reason(
        _FLAT,
        "return self._references() == self._idle",
        r".*<=.*",
        "equivalent: fewer references than at rest there cannot be",
    ),
    Reason(
        _FLAT,
        "dtype = params[0].dtype",
        r"dtype = params\[ ?-?1\]\.dtype",
        "equivalent: all are of one dtype",
    ),
    Reason(
        _FLAT,
        "if tensor is None or tensor.data is place:",
        r".*None and .*",
        "equivalent: it has a gradient, and a place fits itself",
    ),
    Reason(
        "tensor/kernels/optimizers.py",
        "BLOCK: Final = 2**15",
        r"BLOCK: Final = .*",
        "speed: blocks of any size give the same",
    ),
    Reason(
        "tensor/kernels/optimizers.py",
        "if step == 1:",
        r"if step <= 1:",
        "equivalent: steps are counted from 1",
    ),
    Reason(
        "tensor/rules/table.py",
        "nowhere = xp.isnan(x) * False",
        r"nowhere = xp\.isnan\(x\) & False",
        _TRUTH,
    ),
    Reason(
        "tensor/rules/table.py",
        "return xp.where(xp.isnan(x) * False, x, value)",
        r".*isnan\(x\) & False.*",
        _TRUTH,
    ),
    Reason(
        "tensor/rules/table.py",
        'if not getattr(x, "requires_grad", False):',
        r".*True\):",
        "speed: what no gradient flows to is tied to in vain",
    ),
    Reason(
        "tensor/rules/table.py",
        "zero = xp.sum(xp.where(nowhere, x, 0.0))",
        r".*x, -?1\.0\)\)",
        "equivalent: whether it is a number is all that is asked",
    ),
    Reason(_FUSED, 'if reduction == "mean":', r'if reduction <= "mean":', _ONE_OF),
    Reason(_LINALG, "if len(a_shape) == 1:  # (k) @ (..., k, n)", r".*<= 1.*", _NO_0D),
    Reason(
        "tensor/rules/shape.py",
        "ahead = (slice(None),) * (dim % (len(shapes[0]) + 1))",
        r".*shapes\[ -1\].*",
        "equivalent: all have the same number of dimensions",
    ),
    Reason(
        _PASSES,
        "grads = self._pulled(op, node, 0, g, values)",
        r".*node, -1, g.*",
        "equivalent: an op of any number of operands has one rule for them",
    ),
    Reason(_PASSES, "if saved[name][1].count != saved[name][2]:", r".* > .*", _GROWS),
    Reason(_PASSES, "if kept[1].count != kept[2]:", r".* > .*", _GROWS),
    Reason(
        _FLAT,
        "flat.fill(0)",
        r"flat\.fill\( -?1\)",
        "equivalent: what a state begins with is written where a parameter's begins",
    ),
    Reason(
        "tensor/optim/_sgd.py",
        'return ("momentum_buffer",) if group["momentum"] != 0 else ()',
        r".*> 0 else.*",
        _AT_LEAST_0,
    ),
    Reason(
        "tensor/optim/_sgd.py",
        'if options["nesterov"] and (options["momentum"] <= 0 or options["dampening"] != 0):',
        r".*== 0 or.*",
        _AT_LEAST_0,
    ),
    Reason(
        "tensor/optim/_rmsprop.py",
        'optional = {"grad_avg": group["centered"], "momentum_buffer": group["momentum"] > 0}',
        r".*!= 0\}",
        _AT_LEAST_0,
    ),
    Reason(
        _OPTIMIZER,
        "if param._grad is None or param._grad._array is not gradient:",
        r"if (param\._grad is not None|not param\._grad is None) or .*",
        "speed: the same gradient may be handed over again",
    ),
    Reason(
        _OPTIMIZER,
        'if name != "_flats":',
        r'if name >=? "_flats":',
        "equivalent: no attribute's name comes before it, and a copy of it is replaced",
    ),
    Reason(
        _OPTIMIZER,
        "if step != value or step < 0:",
        r"if step < value or .*",
        "equivalent: numbers above 0 are rounded down, and those below are refused",
    ),
    Reason(
        _KERNELS,
        "if weight_decay != 0 and decoupled:",
        r"if weight_decay (>= 0|!= -1) and decoupled:",
        "speed: a decay of 0 changes nothing",
    ),
    Reason(_KERNELS, "elif weight_decay != 0:", r"elif weight_decay > 0:", _AT_LEAST_0),
    Reason(
        _KERNELS,
        "s, m = work[0], momentum_buffer",
        r".*work\[ (1|-1)\].*",
        "equivalent: either row of the scratch memory will do",
    ),
    Reason(
        _KERNELS,
        "np.multiply(s, 1 - keep, out=s)",
        r".*1 % keep.*",
        "equivalent: of a number from 1/2 to 1 the remainder is the difference",
    ),
    Reason(
        _OPS,
        "if decimals < 0:",
        r"if decimals (<= 0|< 1):",
        "equivalent: 0 was dealt with before",
    ),
    Reason(
        _OPS,
        "@op(da=lambda a, alpha: alpha * f.exp(a) if a < 0 else alpha if a <= 0 else 1)",
        r".*alpha if a == 0 else.*",
        _TIE,
    ),
    *(
        Reason(_OPS, line, becomes, "equivalent: at 0 both are 0")
        for line, becomes in (
            ("return f.like(a, 0) if a <= 0 else a", r".*a < 0 else.*"),
            ("return a if a > 0 else alpha * f.expm1(a)", r".*a >= 0 else.*"),
        )
    ),
    *(
        Reason(_OPS, line, r".*if a [<>]= b else.*", _TIE)
        for line in (
            "da=lambda a, b: 0 if a < b else _half(a) if a == b else 1,",
            "db=lambda a, b: 0 if b < a else _half(b) if a == b else 1,",
            "da=lambda a, b: 0 if a > b else _half(a) if a == b else 1,",
            "db=lambda a, b: 0 if b > a else _half(b) if a == b else 1,",
        )
    ),
    Reason(
        _OPS,
        "return a if a < b or a != a else b",
        r".*a <= b or.*",
        "equivalent: of two equal numbers either will do",
    ),
    Reason(
        _OPS,
        "return 0 if chosen == 0 else 1",
        r".*<= 0 else.*",
        "equivalent: no sigmoid is negative",
    ),
    Reason(_OPS, 'if approximate == "none":', r'if approximate <= "none":', _ONE_OF),
    Reason(
        "micro/optim.py",
        "if nesterov and (momentum == 0 or dampening != 0):",
        r".*momentum <= 0 or.*",
        _AT_LEAST_0,
    ),
    Reason(
        "micro/optim.py",
        "if p.inputs or p.op == CONSTANT:",
        r".*p\.op >= CONSTANT:",
        "equivalent: what has no inputs is of this op or of none",
    ),
    Reason(
        "micro/optim.py",
        "if len(set(self.params)) < len(self.params):",
        r".*!=.*",
        "equivalent: a set has no more elements than the list it is made of",
    ),
    Reason(
        "micro/optim.py",
        "if self.weight_decay != 0:",
        r"if self\.weight_decay > 0:",
        "equivalent: weight_decay is at least 0",
    ),
    Reason(
        "tensor/optim/_optimizer.py",
        "@functools.cache",
        r"def _parameters.*",
        "speed: what is remembered is the same each time",
    ),
    Reason(
        "tensor/optim/_optimizer.py",
        "first = last = age = -1",
        r"first = last = age = (- 2|~1)",
        "equivalent: any number below 0 says that there is none yet",
    ),
    Reason(
        "tensor/optim/_optimizer.py",
        "if first >= 0:",
        r"if first (>= ?-1|> ?-1|!= ?-1):",
        "equivalent: a run of no parameter moves nothing",
    ),
    Reason(
        "micro/ops.py",
        "return bool(a - a == 0)",
        r".*[<>]= 0\)",
        "equivalent: a - a is 0 or nan",
    ),
    Reason(
        "tensor/passes.py",
        'return f"{op.operands[0]}[{i}]" if op.variadic else op.operands[i]',
        r".*operands\[ -1\].*",
        "equivalent: an op of any number of operands has one name for them",
    ),
    Reason(
        "tensor/kernels/optimizers.py",
        "@accelerated",
        r"def sweep\(",
        "speed: the loops that numba compiles have tests of their own",
    ),
    Reason(
        "tensor/kernels/optimizers.py",
        "*,",
        r"/,",
        "equivalent: arrays are given by their places and options by their names",
    ),
    Reason(
        "tensor/kernels/optimizers.py",
        "decoupled: bool = False,",
        r"decoupled: bool = True,",
        "equivalent: every call says which",
    ),
    Reason(
        "tensor/kernels/optimizers.py",
        "if weight_decay != 0 and decoupled:",
        r"if weight_decay > 0 and decoupled:",
        "equivalent: weight_decay is at least 0",
    ),
    Reason(
        "tensor/optim/_optimizer.py",
        "if first < 0 or (last, age) != (i - 1, here):",
        r"if first < -1 or .*",
        "equivalent: where there is none, age is -1, and so differs",
    ),
    Reason(
        _REDUCTION,
        "before, s, factor = _exclusive(xp, a, dim), g, _shifted(xp, a, dim, -1, 0.0)",
        r".*-1, -?1\.0\)",
        "equivalent: the other factor is 0 there",
    ),
    Reason(
        _REDUCTION,
        "power = xp.pow(xp.where(flat_here, 1.0, xp.abs(ratio)), p - 1)",
        r".*flat_here, [02]\.0, .*",
        "equivalent: the number stands where another one is chosen",
    ),
    Reason(
        _REDUCTION,
        "g = xp.where(still, 0.0, g / (2 * xp.where(still, 1.0, out)))",
        r".*still, 2\.0, out.*",
        _PLACEHOLDER,
    ),
    Reason(
        "tensor/rules/shape.py",
        "inverse = [0] * len(dims)",
        r"inverse = \[ ?-?1\] \* len\(dims\)",
        "equivalent: every place is written to",
    ),
    Reason(
        "tensor/rules/shape.py",
        "axis = dim % len(shapes[0])",
        r"axis = dim % len\(shapes\[ -1\]\)",
        "equivalent: all have the same number of dimensions",
    ),
]


@cache
def _lines(path: str) -> list[str]:
    return [line.strip() for line in (ROOT / path).read_text("utf-8").splitlines()]


def reason(mutant: Mutant) -> str:
    """Why no test can notice a mutant, or "" if that is not known."""
    for becomes, why in EVERYWHERE.items():
        if re.fullmatch(becomes, mutant.text):
            return why
    line = _lines(mutant.path)[mutant.line - 1]
    for path, text, becomes, why in REASONS:
        if (path, text) == (mutant.path, line) and re.fullmatch(becomes, mutant.text):
            return why
    return ""


def misfits(reasons: list[Reason]) -> list[str]:
    """The reasons for lines that are not in the sources."""
    return [f"{r.path}: {r.line}" for r in reasons if r.line not in _lines(r.path)]
