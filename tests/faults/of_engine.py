"""Faults in tensor's engine, its records, its modes and its kernels."""

from __future__ import annotations

from typing import Final

from tests.faults.fault import Fault, array_op, elementwise_op, named

__all__ = ["FAULTS"]

_ENGINE: Final = "tensor/engine.py"
_PASSES: Final = "tensor/passes.py"
_DISPATCH: Final = "tensor/dispatch.py"
_INPLACE: Final = "tensor/inplace.py"
_REFERENCE: Final = "tensor/kernels/reference.py"
_SCATTER: Final = "tensor/kernels/scatter.py"
_NORMS: Final = "tensor/kernels/norms.py"
_ATTENTION: Final = "tensor/kernels/attention.py"

FAULTS: Final = [
    # the backward pass
    Fault(
        _PASSES,
        "quietly().run(np.add, before, gradient, before)\n",
        "np.copyto(before, gradient)\n",
        "= for +=: the third use of a Tensor replaces the first two",
        named("tensor/engine/test_gradients"),
    ),
    Fault(
        _PASSES,
        "grads[key] = np.asarray(quietly().run(np.add, before, gradient))",
        "grads[key] = gradient",
        "= for +=: the second use of a Tensor replaces the first",
        named("tensor/engine/test_gradients"),
    ),
    Fault(
        _PASSES,
        "self.grads[key] = recording.add(self.grads[key], gradient)",
        "self.grads[key] = gradient",
        "= for += in a recorded pass",
        named("tensor/engine/test_orders"),
    ),
    Fault(
        _PASSES,
        "    if gradient.base is not None or gradient is g:\n",
        "    if False:\n",
        "aliasing: what passed through is added to in place",
        named("tensor/engine/test_accumulation"),
    ),
    Fault(
        _PASSES,
        "        if kept[0] is gradient:\n",
        "        if False:\n",
        "aliasing: a saved array that a rule returns is added to in place",
        named("tensor/engine/test_ownership"),
    ),
    Fault(
        _PASSES,
        "tensor, self._copied_for(tensor, g) if key in lent else g",
        "tensor, g",
        "aliasing: leaves share a gradient, or the seed",
        named("tensor/engine/test_accumulation"),
    ),
    Fault(
        _PASSES,
        "seen = self._copied(g)",
        "seen = g",
        "aliasing: a hook can write into another leaf's gradient",
        named("tensor/engine/test_accumulation", "hook"),
    ),
    Fault(
        _PASSES,
        "if gradient.shape != own.shape or gradient.dtype is not own.dtype:",
        "if gradient.dtype is not own.dtype:",
        "missing un-broadcast",
        named("tensor/engine/test_gradients"),
    ),
    Fault(
        _PASSES,
        "if gradient.shape != own.shape or gradient.dtype is not own.dtype:",
        "if gradient.shape != own.shape:",
        "promoted dtype of a gradient",
        named("tensor/engine/test_gradients"),
    ),
    Fault(
        _PASSES,
        "k < extra or (wanted[k - extra] == 1 and n != 1)",
        "k < extra or (wanted[k - extra] == 1 and n != 1) or k == 0",
        "wrong axis summed when a broadcast is undone",
        named("tensor/engine/test_gradients"),
    ),
    Fault(
        _PASSES,
        "found.sort(key=_by_sequence, reverse=True)",
        "found.sort(key=_by_sequence)",
        "oldest nodes first: gradients are passed on before they are complete",
        named("tensor/engine/test_gradients"),
    ),
    Fault(
        _PASSES,
        "    array, version, expected = kept\n",
        "    return\n    array, version, expected = kept\n",
        "missing check: a change in place goes unnoticed",
        named("tensor/engine/test_versions"),
    ),
    Fault(
        _PASSES,
        "node.saved = node.recipe = None",
        "pass",
        "a graph is never freed",
        named("tensor/engine/test_failures", "freed or second_pass"),
    ),
    Fault(
        _ENGINE,
        "quietly().run(np.add, before.data, value, before.data)",
        "np.copyto(before.data, value)",
        "= for +=: a second pass replaces the gradient of the first",
        named("tensor/engine/test_accumulation", "add_up"),
    ),
    Fault(
        _ENGINE,
        "before._shared_version().count += 1",
        "pass",
        "missing version bump where a gradient is added to",
        named("tensor/engine/test_accumulation", "notices"),
    ),
    Fault(
        _PASSES,
        "            with modes.set_grad_enabled(self.graph):\n                replaced",
        "            with modes.enable_grad():\n                replaced",
        "what a hook does in an unrecorded pass is recorded",
        named("tensor/engine/test_intermediates", "mode_of_the_pass"),
    ),
    Fault(
        _PASSES,
        "if not gradient.requires_grad and not g.requires_grad:",
        "if False:",
        "a recorded gradient of relu has no history",
        named("tensor/engine/test_orders", "piecewise"),
    ),
    Fault(
        _ENGINE,
        "            if before is not None and before.shape != value.shape:\n",
        "            if False:\n",
        "a gradient that does not fit is found after others were collected",
        named("tensor/engine/test_failures", "another_shape"),
    ),
    # the record
    Fault(
        _DISPATCH,
        "version = operand._version or operand._shared_version()\n        else:",
        "version = Version()\n        else:",
        "stale saved value: changes of an operand go unnoticed",
        named("tensor/engine/test_versions"),
    ),
    Fault(
        _DISPATCH,
        "if needed and modes.is_grad_enabled():",
        "if needed:",
        "ops are recorded under no_grad",
        named("tensor/engine/test_modes", "nest"),
    ),
    Fault(
        _DISPATCH,
        "kept = tuple(i for i, name in enumerate(self.operands) if name in names)",
        "kept = tuple(range(len(self.operands)))",
        "every operand is kept alive",
        named("tensor/engine/test_lifetime", "no_rule_needs"),
    ),
    Fault(
        _DISPATCH,
        "attrs[name] = tuple(value)  # what",
        "attrs[name] = value  # what",
        "a list that the caller changes later changes the gradient",
        named("tensor/engine/test_versions", "list_given"),
    ),
    Fault(
        _DISPATCH,
        'if out.dtype.kind != "f":\n        return  # no',
        'if out.dtype.kind == "b":\n        return  # no',
        "integers are recorded as if gradients flowed through them",
        named("tensor/engine/test_dtypes", "through_an_integer"),
    ),
    # changes in place
    Fault(
        _INPLACE,
        "        self._shared_version().count += 1\n",
        "",
        "missing version bump",
        named("tensor/engine/test_versions"),
    ),
    Fault(
        _INPLACE,
        "kept = array.copy()",
        "kept = array",
        "stale saved value: an operand that is overwritten is saved as it will be",
        named("tensor/engine/test_inplace", "by_itself or value_and_gradients"),
    ),
    Fault(
        _INPLACE,
        "view._continue(node_of(op, (base,), attrs, view.data))",
        "pass",
        "a view keeps the record from before its base was changed",
        named("tensor/engine/test_inplace_views"),
    ),
    Fault(
        _INPLACE,
        "        return index.copy()\n    if isinstance(index, tuple):",
        "        return index\n    if isinstance(index, tuple):",
        "aliasing: an index that the caller changes later changes the gradient",
        named("tensor/engine/test_inplace", "copied"),
    ),
    Fault(
        _INPLACE,
        "if root._requires_grad and root.node is None:",
        "if False:",
        "a leaf is changed while gradients are recorded",
        named("tensor/engine/test_inplace", "not_changed"),
    ),
    Fault(
        _INPLACE,
        'node = node_of("setitem", (root, new), attrs, root.data)\n        root._continue(node)',
        'node = node_of("setitem", (root, new), attrs, root.data)',
        "what a view wrote is not in the record of its base",
        named("tensor/engine/test_inplace_views"),
    ),
    # modes
    Fault(
        "tensor/modes.py",
        "        ACTIVE.set(tuple(left) or None)\n",
        "",
        "a mode is not restored",
        named("tensor/engine/test_modes", "restored"),
    ),
    Fault(
        "tensor/modes.py",
        "if entry.frame is None or _on_stack(entry.frame):",
        "if True:",
        "a suspended generator's no_grad holds for its caller",
        named("tensor/engine/test_modes", "suspended"),
    ),
    # kernels
    Fault(
        _REFERENCE,
        "np.copyto(top, small, where=below)",
        "np.copyto(top, small, where=~below)",
        "swapped branches of sigmoid",
        elementwise_op("sigmoid"),
    ),
    Fault(
        _REFERENCE,
        "return masked(np.asarray(b), ~cond)",
        "return masked(np.asarray(b), cond)",
        "where with a zero takes the wrong side",
        named("tensor/ops/test_elementwise", "choice_of_zero"),
    ),
    Fault(
        _REFERENCE,
        "g = masked(g, ~(out <= 0))",
        "g = masked(g, ~(out < 0))",
        "< for <=: the slope of linear's relu at 0",
        named("tensor/ops/test_rules", "linear"),
    ),
    Fault(
        _REFERENCE,
        "np.subtract(1, slope, out=slope)\n",
        "pass\n",
        "a missing term: linear's tanh",
        named("tensor/ops/test_rules", "linear"),
    ),
    Fault(
        _REFERENCE,
        "product(rows, weight).reshape(a.shape) if needs[0] else None,",
        "product(rows, weight).reshape(a.shape) if needs[1] else None,",
        "off by one: linear looks at another operand's need",
        named("tensor/ops/test_rules", "linear"),
    ),
    Fault(
        _REFERENCE,
        "return total / a.dtype.type(max(_count(a, over) - correction, 0))",
        "return total / a.dtype.type(max(_count(a, over), 0))",
        "the correction of a variance",
        array_op("var"),
    ),
    Fault(
        _REFERENCE,
        "out[np.arange(len(classes)), classes] -= scale * (1 - label_smoothing)",
        "out[np.arange(len(classes)), classes] -= scale",
        "smoothing forgotten in the gradient of the cross-entropy",
        named("tensor/ops/test_rules", "cross_entropy"),
    ),
    Fault(
        _REFERENCE,
        "        g = g / g.dtype.type(np.count_nonzero(counted))\n",
        "        g = g / g.dtype.type(len(classes))\n",
        "ignored rows count in the mean of the cross-entropy",
        named("tensor/ops/test_rules", "cross_entropy"),
    ),
    Fault(
        "tensor/kernels/special.py",
        "out[large] = np.copysign(np.subtract(1, tail, out=tail), beyond, out=tail)",
        "out[large] = np.subtract(1, tail, out=tail)",
        "sign of erf far below 0",
        elementwise_op("erf"),
    ),
    Fault(
        _SCATTER,
        "np.add.at(out, places.reshape(-1), values.reshape(-1))",
        "out[places.reshape(-1)] = values.reshape(-1)",
        "= for +=: elements read twice count once",
        named("behaviours/test_shapes_and_indexing", "read_twice or twin"),
    ),
    Fault(
        _SCATTER,
        "np.add.reduceat(values[order], starts, axis=0)",
        "values[order][starts]",
        "= for +=: rows read twice count once",
        named("tensor/ops/test_indexing", "rows_are_added_up"),
    ),
    Fault(
        _SCATTER,
        "array[index] += value.astype(array.dtype, copy=False)",
        "array[index] = value.astype(array.dtype, copy=False)",
        "= for += where index_put_ accumulates",
        named("tensor/engine/test_inplace", "index_put or accumulate or setitem"),
    ),
    Fault(
        _NORMS,
        '            np.subtract(gradient, _row_means("mean", room, h), out=gradient)\n',
        "            pass\n",
        "a missing term: the mean in layer norm's gradient",
        array_op("layer_norm"),
    ),
    Fault(
        _NORMS,
        "slope, shift = for_variance * 2 / count, for_mean / count",
        "slope, shift = for_variance / count, for_mean / count",
        "the factor 2 of a variance's gradient",
        array_op("batch_moments"),
    ),
    Fault(
        _NORMS,
        'for_bias += np.einsum("ngcs->gc", block, out=each).reshape(affine)',
        'for_bias[...] = np.einsum("ngcs->gc", block, out=each).reshape(affine)',
        "= for +=: the last block alone gives the bias its gradient",
        named("tensor/nn/test_norm", "size_of_a_block"),
    ),
    Fault(
        _ATTENTION,
        "        np.divide(along, total, out=along)\n",
        "        pass\n",
        "attention's softmax is not divided by its sum",
        array_op("scaled_dot_product_attention"),
    ),
    Fault(
        _ATTENTION,
        "np.add(target, np.matmul(exponentials.swapaxes(-1, -2), h, out=product), out=target)",
        "np.matmul(exponentials.swapaxes(-1, -2), h, out=target)",
        "= for +=: the last tile alone gives the values their gradient",
        named("tensor/ops/test_attention", "tiles_changes"),
    ),
]
