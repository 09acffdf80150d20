"""Faults in optimizers and layers, and in the scalar engine."""

from __future__ import annotations

from typing import Final

from tests.faults.fault import Fault, elementwise_op, named

__all__ = ["FAULTS"]

_KERNELS: Final = "tensor/kernels/optimizers.py"
_COMPILED: Final = "tensor/kernels/steps.py"
_TRAJECTORIES: Final = named("tensor/optim/test_trajectories")
_OPS: Final = "micro/ops.py"
_VALUE: Final = "micro/value.py"
_AGAINST_TORCH: Final = named("micro/test_against_torch")

FAULTS: Final = [
    # optimizers
    Fault(
        _KERNELS,
        "np.divide(s, (1 - beta2**step) ** 0.5, out=s)\n",
        "np.divide(s, (1 - beta2) ** 0.5, out=s)\n",
        "the second bias correction is that of the first step for ever",
        _TRAJECTORIES,
    ),
    Fault(
        _KERNELS,
        "-(lr / (1 - beta1**step))",
        "-lr",
        "no first bias correction",
        _TRAJECTORIES,
    ),
    Fault(
        _KERNELS,
        "np.multiply(p, 1 - lr * weight_decay, out=p)",
        "np.multiply(p, 1 - weight_decay, out=p)",
        "a decoupled decay that is not scaled by the rate",
        _TRAJECTORIES,
    ),
    Fault(
        "tensor/optim/_adam.py",
        "    _decoupled = True\n",
        "    _decoupled = False\n",
        "AdamW's decay is not decoupled",
        _TRAJECTORIES,
    ),
    Fault(
        _KERNELS,
        "np.multiply(g, 1 - dampening, out=s)",
        "np.multiply(g, 1, out=s)",
        "dampening is forgotten",
        _TRAJECTORIES,
    ),
    Fault(
        _KERNELS,
        "        if step == 1:\n",
        "        if step == 0:\n",
        "off by one: momentum does not start from the gradient",
        _TRAJECTORIES,
    ),
    Fault(
        _KERNELS,
        "            g = np.add(g, s, out=s)\n        else:",
        "            g = np.add(m, s, out=s)\n        else:",
        "Nesterov's step adds the wrong vector",
        _TRAJECTORIES,
    ),
    Fault(
        _KERNELS,
        "np.subtract(square_avg, s, out=s)",
        "np.add(square_avg, s, out=s)",
        "sign within a centred root mean square",
        _TRAJECTORIES,
    ),
    Fault(
        _KERNELS,
        "(step - 1) * lr_decay",
        "step * lr_decay",
        "off by one: the decay of Adagrad's rate",
        _TRAJECTORIES,
    ),
    Fault(
        _KERNELS,
        "v = np.maximum(max_exp_avg_sq, v, out=max_exp_avg_sq)",
        "v = np.minimum(max_exp_avg_sq, v, out=max_exp_avg_sq)",
        "the smallest denominator for the largest",
        _TRAJECTORIES,
    ),
    Fault(
        _KERNELS,
        "            g = np.negative(g, out=changed)\n",
        "            pass\n",
        "maximize climbs down",
        _TRAJECTORIES,
    ),
    Fault(
        "tensor/optim/_optimizer.py",
        "            param._shared_version().count += 1\n",
        "",
        "missing version bump: a graph does not notice a step",
        named("tensor/optim/test_flat"),
    ),
    Fault(
        "tensor/optim/_flat.py",
        "        if not self.is_idle():\n            return gradient\n",
        "",
        "aliasing: a gradient that was kept is overwritten by the next pass",
        named("tensor/optim/test_flat"),
    ),
    Fault(
        _COMPILED,
        "rates = number(momentum), number(1 - dampening), number(-lr)",
        "rates = number(momentum), number(1), number(-lr)",
        "dampening is forgotten in the compiled kernel",
        _TRAJECTORIES,
    ),
    Fault(
        _COMPILED,
        "number(-(lr / (1 - beta1**step))),",
        "number(-lr),",
        "no first bias correction in the compiled kernel",
        _TRAJECTORIES,
    ),
    Fault(
        _COMPILED,
        "kind = 0 if weight_decay == 0 else 2 if decoupled else 1",
        "kind = 0 if weight_decay == 0 else 1",
        "a decay that is not decoupled in the compiled kernel",
        _TRAJECTORIES,
    ),
    # layers
    Fault(
        "tensor/nn/_dropout.py",
        "functional.dropout(input, self.p, self.training, self.generator)",
        "functional.dropout(input, self.p, True, self.generator)",
        "dropout in evaluation",
        named("tensor/nn/test_module", "dropout"),
    ),
    Fault(
        "tensor/nn/_module.py",
        "        for module in self.modules():\n            module.training = mode\n",
        "        self.training = mode\n",
        "the mode does not reach the children",
        named("tensor/nn/test_module", "train_and_eval"),
    ),
    Fault(
        "tensor/nn/_layer_functions.py",
        "running.copy_(running * (1 - momentum) + value * momentum)",
        "running.copy_(running * momentum + value * (1 - momentum))",
        "swapped weights of a running average",
        named("tensor/nn/test_norm", "running_averages"),
    ),
    Fault(
        "tensor/nn/_layer_functions.py",
        "(running_var, new[1] * unbiased)",
        "(running_var, new[1])",
        "a running variance that is biased",
        named("tensor/nn/test_norm", "running_averages"),
    ),
    Fault(
        "tensor/nn/utils.py",
        "if not factor >= 1:  # NaN too",
        "if factor >= 1:",
        "small gradients are enlarged, and large ones left",
        named("tensor/nn/test_utils", "clip"),
    ),
    Fault(
        "tensor/nn/_loss_functions.py",
        "return losses.mean() if count is None else losses.sum() / count",
        "return losses.mean()",
        "a weighted mean is divided by the count of rows",
        named("tensor/nn/test_losses", "is_pytorchs"),
    ),
    # the scalar engine: derivatives
    Fault(
        _OPS,
        "db=lambda a, b: -f.div(f.div(a, b), b))",
        "db=lambda a, b: f.div(f.div(a, b), b))",
        "sign of the denominator's derivative",
        _AGAINST_TORCH,
    ),
    Fault(
        _OPS,
        "@op(da=lambda _, b: b, db=lambda a, _: a)",
        "@op(da=lambda a, _: a, db=lambda _, b: b)",
        "swapped inputs of a product",
        _AGAINST_TORCH,
    ),
    Fault(
        _OPS,
        "0 if b == 0 else b * f.pow(a, b - 1)",
        "0 if b == 0 else b * f.pow(a, b)",
        "an exponent off by one",
        _AGAINST_TORCH,
    ),
    Fault(
        _OPS,
        "4 * f.sigmoid(2 * a) * f.sigmoid(-2 * a)",
        "2 * f.sigmoid(2 * a) * f.sigmoid(-2 * a)",
        "a factor of the derivative of tanh",
        _AGAINST_TORCH,
    ),
    Fault(
        _OPS,
        "@op(da=lambda a: 0 if a <= 0 else 1)",
        "@op(da=lambda a: 0 if a < 0 else 1)",
        "< for <=: the slope of relu at 0",
        _AGAINST_TORCH,
    ),
    Fault(
        _OPS,
        "return _normal_cdf(a) + a * _normal_pdf(a)",
        "return _normal_cdf(a)",
        "a missing term of the derivative of gelu",
        _AGAINST_TORCH,
    ),
    Fault(
        _OPS,
        "db=lambda a, b: 0 if b < a else _half(b) if a == b else 1,",
        "db=lambda a, b: 0 if b < a else 1,",
        "a tie counted one and a half times",
        named("micro/test_fields", "share or ties"),
    ),
    Fault(
        _OPS,
        "f.sigmoid(a) + a * (f.sigmoid(a) * f.sigmoid(-a))",
        "f.sigmoid(a) + a * (f.sigmoid(a) * f.sigmoid(a))",
        "sign within the derivative of silu",
        elementwise_op("silu"),
    ),
    # the scalar engine: the pass
    Fault(
        _VALUE,
        "gradients[x] = d if old is None else old + d",
        "gradients[x] = d",
        "= for +=: the last use of a Value replaces the others",
        (*named("micro/test_value"), "tests/behaviours/test_graph.py"),
    ),
    Fault(
        _VALUE,
        "{x: x.grad + g for x, g in gradients.items() if not x.inputs}",
        "{x: g for x, g in gradients.items() if not x.inputs}",
        "= for +=: a second pass replaces the gradients of the first",
        named("micro/test_value", "second_backward or share"),
    ),
    Fault(
        _VALUE,
        "        d = g if d == 1 else g * d\n",
        "        d = g\n",
        "the sign of an exact derivative is lost",
        _AGAINST_TORCH,
    ),
    Fault(
        _VALUE,
        "d = _anchored(d, values, partial)",
        "pass",
        "the second derivative of a piecewise linear op does not exist",
        named("micro/test_value", "compares"),
    ),
    Fault(
        _VALUE,
        "            stack.append((node,))\n",
        "            order.append(node)\n",
        "another order than the topological one",
        (*named("micro/test_value"), "tests/behaviours/test_graph.py"),
    ),
    # the scalar engine: optimizers
    Fault(
        "micro/optim.py",
        "fields.sqrt(fields.div(v, 1 - beta2**t)) + self.eps",
        "fields.sqrt(v) + self.eps",
        "no second bias correction",
        named("micro/test_optim"),
    ),
    Fault(
        "micro/optim.py",
        "fields.sqrt(fields.div(v, 1 - beta2**t)) + self.eps",
        "fields.sqrt(fields.div(v, 1 - beta2**t) + self.eps)",
        "eps under the root",
        named("micro/test_optim"),
    ),
    Fault(
        "micro/optim.py",
        "self.momentum * state + (1 - self.dampening) * g",
        "self.momentum * state + g",
        "dampening is forgotten",
        named("micro/test_optim"),
    ),
    Fault(
        "micro/optim.py",
        "                g = g + self.weight_decay * p.data\n",
        "                g = g - self.weight_decay * p.data\n",
        "sign of the weight decay",
        named("micro/test_optim"),
    ),
    Fault(
        "micro/optim.py",
        "        for p, data, state in moves:\n            p.data, self._state[p] = data, state\n",
        "        for p, data, _ in moves:\n            p.data = data\n",
        "nothing is remembered from step to step",
        named("micro/test_optim"),
    ),
]
