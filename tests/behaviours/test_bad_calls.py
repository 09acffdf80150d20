"""Every bad call names what was wrong and changes nothing, and the next valid call works."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import micro
import tensor as st
from micro import Value
from tensor import (
    Generator,
    ShapeError,
    Tensor,
    default_generator,
    grad,
    is_anomaly_enabled,
    is_grad_enabled,
    nn,
    no_grad,
    optim,
)
from tensor.data import DataLoader, TensorDataset, random_split
from tensor.data.fetch import fetch
from tensor.nn import functional, utils
from tests.tensor.data.test_fetch import FILE


class World:
    """A model in the middle of its training, with all that a bad call could spoil."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(5)
        self.x = Tensor(rng.normal(size=(2, 3)), requires_grad=True)
        self.target = np.array([0, 1])
        self.model = nn.Linear(3, 2, dtype="float64")
        self.optimizer = optim.AdamW(self.model.parameters(), lr=0.1)
        self.schedule = optim.lr_scheduler.StepLR(self.optimizer, 2)
        self.generator = Generator(3)
        self.dataset = TensorDataset(np.arange(7))
        self.loader = DataLoader(self.dataset, 2, shuffle=True, generator=self.generator)
        self.folder = folder
        (folder / "set").mkdir()
        (folder / "set" / "values").write_bytes(b"not what it should be")
        self.step()

    def loss(self) -> Tensor:
        return functional.cross_entropy(self.model(self.x), self.target)

    def step(self) -> None:
        self.loss().backward()
        self.optimizer.step()
        self.schedule.step()

    def state(self) -> list[Any]:
        """All of it, to the bit."""
        found: list[Any] = []
        for t in (self.x, *self.model.parameters()):
            assert t.grad is not None
            found += [t.data.tobytes(), t.version, t.node, t.requires_grad]
            found += [id(t.grad), t.grad.data.tobytes(), t.grad.version]
        found += [*_flat(self.optimizer.state_dict()), *_flat(self.schedule.state_dict())]
        found += [default_generator.get_state(), self.generator.get_state()]
        found += [self.loader.state_dict()]
        found += [random.getstate(), np.random.get_state()[1].tobytes()]
        files = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        found += [(path, path.read_bytes()) for path in files]
        return [*found, is_grad_enabled(), is_anomaly_enabled()]


def _flat(thing: Any) -> Iterator[Any]:
    """The leaves of nested dicts and lists, arrays as their bytes."""
    if isinstance(thing, dict):
        for key, value in thing.items():
            yield key
            yield from _flat(value)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from _flat(value)
    else:
        yield np.asarray(thing).tobytes() if isinstance(thing, np.ndarray | Tensor) else thing


class Bad(NamedTuple):
    """A bad call, its error, what the message must say, and the same call made well."""

    call: Callable[[World], object]
    error: type[Exception]
    words: list[str]  # who speaks, about which argument, what it got, what it wanted
    well: Callable[[World], object]


BAD: Final[dict[str, Bad]] = {
    "op: shapes": Bad(
        lambda w: w.x + np.ones(2), ShapeError, ["add: ", "broadcast", "(2, 3)", "(2,)"],
        lambda w: w.x + np.ones(3)),
    "op: product": Bad(
        lambda w: w.x @ w.x, ShapeError, ["matmul: ", "inner lengths", "equal", "3 and 2"],
        lambda w: w.x @ w.x.T),
    "op: operand": Bad(
        lambda w: st.maximum(w.x, "a"), TypeError, ["maximum: b ", "a Tensor", "got str"],
        lambda w: st.maximum(w.x, 1)),
    "op: dim": Bad(
        lambda w: w.x.softmax(5), IndexError, ["softmax: dim 5", "[-2, 1]"],
        lambda w: w.x.softmax(1)),
    "op: kind of dim": Bad(
        lambda w: w.x.sum(1.0), TypeError, ["sum: dim ", "an integer", "got 1.0"],
        lambda w: w.x.sum(1)),
    "op: attribute": Bad(
        lambda w: w.x.clip("low", 1), TypeError, ["clip: min ", "a number", "got str"],
        lambda w: w.x.clip(0, 1)),
    "op: argument twice": Bad(
        lambda w: w.x.sum(1, dim=1), TypeError, ["sum", "dim", "twice"],
        lambda w: w.x.sum(dim=1)),
    "op: unknown argument": Bad(
        lambda w: w.x.sum(axes=1), TypeError, ["sum", "axes"],
        lambda w: w.x.sum(dim=1)),
    "reshape": Bad(
        lambda w: w.x.reshape(5), ShapeError, ["reshape: ", "6 elements", "(2, 3)", "(5,)"],
        lambda w: w.x.reshape(6)),
    "index": Bad(
        lambda w: w.x[0, 3], IndexError, ["getitem: index 3", "size 3"],
        lambda w: w.x[0, 2]),
    "kind of index": Bad(
        lambda w: w.x[1.5], IndexError, ["getitem: ", "got 1.5", "integers"],
        lambda w: w.x[1]),
    "change in place": Bad(
        lambda w: w.x.add_(1), RuntimeError, ["add_: a leaf Tensor that requires grad", "no_grad"],
        lambda w: (w.x * 1).add_(1)),
    "backward": Bad(
        lambda w: (w.x * 2).backward(), RuntimeError, ["backward: ", "scalar", "(2, 3)"],
        lambda w: (w.x * 2).sum().backward()),
    "gradient": Bad(
        lambda w: (w.x * 2).backward(np.ones(2)), ShapeError,
        ["backward: ", "gradient 0", "(2,)", "(2, 3)"],
        lambda w: (w.x * 2).backward(np.ones((2, 3)))),
    "grad": Bad(
        lambda w: grad(w.loss(), Tensor(1.0)), RuntimeError, ["grad: inputs[0]", "require grad"],
        lambda w: grad(w.loss(), w.x)),
    "target": Bad(
        lambda w: functional.cross_entropy(w.x, np.array([0, 3])), IndexError,
        ["cross_entropy: target 3", "[0, 3)"],
        lambda w: functional.cross_entropy(w.x, np.array([0, 2]))),
    "layer": Bad(
        lambda w: w.model(np.ones((2, 4))), ShapeError, ["linear: a ", "(2, 4)", "equal in"],
        lambda w: w.model(np.ones((2, 3)))),
    "state of a model": Bad(
        lambda w: w.model.load_state_dict({"weight": np.ones((3, 2)), "bias": np.ones(2)}),
        RuntimeError, ["loading state_dict for Linear", "size mismatch for weight", "(3, 2)"],
        lambda w: w.model.load_state_dict(w.model.state_dict())),
    "state of an optimizer": Bad(
        lambda w: w.optimizer.load_state_dict({"state": {}}), TypeError,
        ["load_state_dict: ", "'param_groups'", "got dict"],
        lambda w: w.optimizer.load_state_dict(w.optimizer.state_dict())),
    "group": Bad(
        lambda w: w.optimizer.add_param_group({"params": [w.model.weight]}), ValueError,
        ["parameter 0 of group 1", "more than once", "parameter 0 of group 0"],
        lambda w: w.optimizer.add_param_group({"params": [nn.Parameter(np.ones(2))]})),
    "option": Bad(
        lambda w: optim.Adam(w.model.parameters(), betas=(0.9, 1.0)), ValueError,
        ["beta parameter at index 1: 1.0", "Adam", "0 <= beta < 1"],
        lambda w: optim.Adam(w.model.parameters(), betas=(0.9, 0.99))),
    "schedule": Bad(
        lambda w: optim.lr_scheduler.StepLR(w.optimizer, 0), ValueError,
        ["StepLR: ", "positive integer step_size", "got 0"],
        lambda w: optim.lr_scheduler.StepLR(w.optimizer, 1)),
    "norm": Bad(
        lambda w: utils.clip_grad_norm_(w.model.parameters(), -1.0), ValueError,
        ["clip_grad_norm_: max_norm", "0 or more", "-1"],
        lambda w: utils.clip_grad_norm_(w.model.parameters(), 1.0)),
    "random draw": Bad(
        lambda w: st.randn(2, -1), ShapeError, ["randn: ", "(2, -1)", "at least 0"],
        lambda w: st.randn(2, 1)),
    "generator": Bad(
        lambda w: w.generator.manual_seed("a"), TypeError, ["seed is 'a'", "an integer"],  # type: ignore[arg-type]
        lambda w: w.generator.manual_seed(1)),
    "dropout": Bad(
        lambda w: functional.dropout(w.x, 1.5), ValueError, ["dropout: p ", "[0, 1]", "1.5"],
        lambda w: functional.dropout(w.x, 0.5)),
    "split": Bad(
        lambda w: random_split(w.dataset, [3, 3], w.generator), ValueError,
        ["random_split: lengths", "6", "7"],
        lambda w: random_split(w.dataset, [3, 4], w.generator)),
    "state of a loader": Bad(
        lambda w: w.loader.load_state_dict({**w.loader.state_dict(), "batch_size": 3}), ValueError,
        ["load_state_dict: ", "batch_size", "3", "2"],
        lambda w: w.loader.load_state_dict(w.loader.state_dict())),
    "file": Bad(
        lambda w: fetch(FILE, root=w.folder), ValueError,
        ["set/values", "expected content of SHA-256", "found", "Replace the file"],
        lambda w: w.loss()),
    "arange": Bad(
        lambda w: st.arange(0, 5, 0), RuntimeError, ["arange: step ", "not be 0"],
        lambda w: st.arange(0, 5, 1)),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_bad_call_says_what_is_wrong_and_changes_nothing(what: str, tmp_path: Path) -> None:
    bad, world = BAD[what], World(tmp_path)
    before = world.state()
    with pytest.raises(bad.error) as caught:
        bad.call(world)
    assert [word for word in bad.words if word not in str(caught.value)] == []
    assert world.state() == before
    bad.well(world)
    world.step()


# All but what is no bad call there.
@pytest.mark.parametrize("what", sorted(set(BAD) - {"change in place"}))
def test_a_bad_call_within_no_grad_leaves_that_mode_on_and_changes_nothing(
    what: str, tmp_path: Path
) -> None:
    world = World(tmp_path)
    with no_grad():
        before = world.state()
        with pytest.raises((RuntimeError, ValueError, TypeError, IndexError)):
            BAD[what].call(world)
        assert world.state() == before
    BAD[what].well(world)
    world.step()


@pytest.mark.parametrize("base", [RuntimeError, ValueError])
@pytest.mark.parametrize("what", [what for what in BAD if BAD[what].error is ShapeError])
def test_an_error_about_shapes_is_caught_in_either_habit(
    what: str, base: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(base):
        BAD[what].call(World(tmp_path))


class BadValue(NamedTuple):
    """The same for the scalar engine."""

    call: Callable[[Value], object]
    error: type[Exception]
    words: list[str]
    well: Callable[[Value], object]


BAD_VALUES: Final[dict[str, BadValue]] = {
    "number": BadValue(
        lambda x: Value("a"), TypeError, ["Value: data ", "a number", "got str"],
        lambda x: Value(1)),
    "operand": BadValue(
        lambda x: micro.maximum(x, "a"), TypeError, ["maximum: ", "operand", "a number", "got str"],
        lambda x: micro.maximum(x, 1)),
    "attribute": BadValue(
        lambda x: x.clip("low", 1), TypeError, ["clip: min ", "a number", "got str"],
        lambda x: x.clip(0, 1)),
    "unknown argument": BadValue(
        lambda x: micro.exp(x, base=2), TypeError, ["exp", "base"],  # type: ignore[call-arg]
        micro.exp),
    "backward": BadValue(
        lambda x: micro.exp(2.0).backward(), RuntimeError, ["backward: ", "constants alone"],
        lambda x: micro.exp(x).backward()),
    "grad": BadValue(
        lambda x: micro.grad(x * x, [x, Value(1.0)]), RuntimeError,
        ["grad: ", "depend on xs[1]", "allow_unused=True"],
        lambda x: micro.grad(x * x, [x])),
    "option": BadValue(
        lambda x: micro.optim.SGD([x], lr=-1), ValueError, ["SGD: lr ", "at least 0", "got -1"],
        lambda x: micro.optim.SGD([x], lr=1)),
    "layer": BadValue(
        lambda x: micro.nn.MLP(0, [1]), ValueError, ["nin", "positive", "got 0"],
        lambda x: micro.nn.MLP(1, [1], random.Random(0))),
    "inputs": BadValue(
        lambda x: micro.nn.Neuron(2, rng=random.Random(0))([x]), ValueError, ["2", "1"],
        lambda x: micro.nn.Neuron(1, rng=random.Random(0))([x])),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_VALUES)
def test_a_bad_call_of_the_scalar_engine_says_what_is_wrong_and_changes_nothing(
    what: str,
) -> None:
    bad, x = BAD_VALUES[what], Value(2.0)
    (x * x).backward()
    before = random.getstate()
    with pytest.raises(bad.error) as caught:
        bad.call(x)
    assert [word for word in bad.words if word not in str(caught.value)] == []
    assert (x.data, x.grad, x.inputs) == (2.0, 4.0, ())
    assert random.getstate() == before
    bad.well(x)
    x.grad = 0
    (x * x).backward()
    assert x.grad == 4.0
