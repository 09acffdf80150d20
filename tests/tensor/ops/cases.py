"""One table: for every op, calls that are right, PyTorch's equivalent, and calls that are wrong.

To add an op, add its line to one of the families. An elementwise op gets its samples from the
vocabulary's ``domain``; every other op writes its own. The tests next door run over the whole
table, and fail where an op of the vocabulary is not in it.
"""

from __future__ import annotations

from typing import Final

from tests.tensor.ops.algebra_cases import ALGEBRA
from tests.tensor.ops.attention_cases import ATTENTION
from tests.tensor.ops.composed_cases import COMPOSED
from tests.tensor.ops.convolution_cases import CONVOLUTION
from tests.tensor.ops.elementwise_cases import ELEMENTWISE
from tests.tensor.ops.fused_cases import FUSED
from tests.tensor.ops.indexing_cases import INDEXING
from tests.tensor.ops.rearrangement_cases import REARRANGEMENT
from tests.tensor.ops.reduction_cases import REDUCTIONS
from tests.tensor.ops.selection_cases import SELECTION
from tests.tensor.ops.shape_cases import SHAPE
from tests.tensor.ops.table import Case

__all__ = ["CASES"]

CASES: Final[dict[str, Case]] = {
    **ELEMENTWISE,
    **REDUCTIONS,
    **ALGEBRA,
    **SHAPE,
    **REARRANGEMENT,
    **INDEXING,
    **SELECTION,
    **FUSED,
    **ATTENTION,
    **CONVOLUTION,
    **COMPOSED,
}
