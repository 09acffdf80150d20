"""What all optimizers share: parameter groups, state, and the walk over flat buffers."""

from __future__ import annotations

import copy
import functools
import inspect
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np

from ..dispatch import quietly
from ..dtypes import as_array
from ..gradients import clear_grad
from ..graph import Array
from ..kernels.optimizers import sweep
from ..modes import enable_grad
from ..tensor import Tensor
from ..tracing import TRACER, Tracer, pausing
from ._checks import Check
from ._flat import Flat, flatten

__all__ = ["Group", "Optimizer", "Params"]

Group: TypeAlias = dict[str, Any]
Params: TypeAlias = Iterable[Tensor] | Iterable[Group] | Tensor


class _Run(NamedTuple):
    """Neighbouring parameters, ``first`` to ``last``, that have taken the same steps."""

    first: int
    last: int
    age: int


_NO_STATE: Mapping[str, Any] = MappingProxyType({})


class TakenStep:
    """What a replay calls in the place of an optimizer's step."""

    def __init__(self, optimizer: Optimizer, params: Sequence[Tensor]) -> None:
        self.optimizer = optimizer
        self.params = params

    def __call__(self, *gradients: Array) -> None:
        """Take a step with these gradients of the parameters."""
        for param, gradient in zip(self.params, gradients, strict=True):
            if param._grad is None or param._grad._array is not gradient:
                param.grad = Tensor._wrap(gradient)
        self.optimizer._step()


class Optimizer:
    """Base of the optimizers.

    The parameters of a group live in one flat buffer for each dtype: their
    ``data`` become views of it, values unchanged, when they are handed over.
    Gradients and state live in such buffers too; a ``grad`` that was kept is
    never overwritten, the next one then lies elsewhere. So a step is one pass
    over few long arrays and allocates none. A parameter
    that has no gradient is left out of a step, and its state with it. Where
    ``data`` is given another array later, the next step copies that into the
    buffer and goes on.

    A step counts as a change in place of every parameter that it moves: a graph
    that was recorded before can no longer be differentiated.

    Attributes:
        param_groups: one dict for each group, with "params" and the group's options. An
            option may be changed between steps.
        state: what is remembered of each parameter; its arrays are views of flat buffers too.
        defaults: the options of groups that do not give their own.
    """

    def __init__(self, params: Params, defaults: Mapping[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.param_groups: list[Group] = []
        self.state: dict[Tensor, dict[str, Any]] = {}
        self._flats: list[list[Flat]] = []
        self._check_options(self.defaults)
        groups = _grouped(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        known: dict[int, str] = {}
        self.param_groups = [self._checked(group, i, known) for i, group in enumerate(groups)]
        self._flats = [flatten(group["params"]) for group in self.param_groups]

    def add_param_group(self, param_group: Group) -> None:
        """Add a group: a dict with "params" and any options of its own.

        Raises:
            TypeError: not a dict, or something in it is of the wrong type.
            ValueError: a parameter that is not a leaf or is there already, or an option
                out of range. Nothing has changed then.
        """
        known = {
            id(param): _place(i, k)
            for i, group in enumerate(self.param_groups)
            for k, param in enumerate(group["params"])
        }
        group = self._checked(param_group, len(self.param_groups), known)
        self._flats.append(flatten(group["params"]))
        self.param_groups.append(group)

    def _checked(self, given: Any, number: int, known: dict[int, str]) -> Group:
        """Return a complete group, the one of that number; note its parameters in ``known``."""
        if not isinstance(given, dict):
            raise TypeError(f"param_group must be a dict, but got {type(given).__name__}")
        if "params" not in given:
            raise ValueError(f"param_group has no 'params', only {sorted(map(str, given))}")
        params = given["params"]
        if isinstance(params, set | frozenset):
            raise TypeError(
                "optimizer parameters need an order, and a set has none; use a list instead"
            )
        group = {"params": [params] if isinstance(params, Tensor) else list(params)}
        group |= self.defaults | {k: v for k, v in given.items() if k != "params"}
        self._check_options(group)
        if not group["params"]:
            raise ValueError("optimizer got a parameter group without parameters")
        for k, param in enumerate(group["params"]):
            if not isinstance(param, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, "
                    f"but one of the params is {type(param).__name__}"
                )
            if not param.is_leaf:
                raise ValueError(
                    f"can't optimize a non-leaf Tensor (made by {param.op}); "
                    "give the leaves that it was computed from"
                )
            if param.dtype.kind != "f":
                raise ValueError(f"can't optimize a Tensor of dtype {param.dtype}")
            if id(param) in known:
                name = f", {param.label!r}," if param.label else ""
                raise ValueError(
                    f"some parameters appear more than once: {_place(number, k)}{name} of shape "
                    f"{param.shape} is also {known[id(param)]}; give each one once, as "
                    "model.parameters() lists them, and leave it out of every other group"
                )
            known[id(param)] = _place(number, k)
        return group

    # What a subclass says.

    # The options, and how each is checked.
    _checks: ClassVar[Mapping[str, Check]] = {}

    # Everything that may be remembered of a parameter.
    _remembers: ClassVar[frozenset[str]]

    # Moves one block; see ``kernels.optimizers``. It takes, by name, the arrays that
    # ``_state_names`` lists, and of the options and ``step`` those that it has parameters for.
    _kernel: ClassVar[Callable[..., None]]

    # Whether ``weight_decay`` shrinks the parameters themselves.
    _decoupled: ClassVar[bool] = False

    # Whether ``step`` was called; schedules ask.
    _has_stepped: bool = False

    def _check_options(self, options: Mapping[str, Any]) -> None:
        """Raise TypeError or ValueError for an option that makes no sense."""
        for name, check in self._checks.items():
            check(type(self).__name__, options[name])

    def _state_names(self, group: Group) -> tuple[str, ...]:
        """Return the names of the arrays that a step needs."""
        raise NotImplementedError

    def _start(self, group: Group) -> float:
        """Return what these arrays hold before the first step."""
        return 0.0

    def _age(self, state: Mapping[str, Any]) -> int:
        """Return a number that is equal for parameters which one call can update together.

        One more is the ``step`` that the kernel is told.
        """
        return int(state.get("step", 0))

    # The step.

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop every parameter's gradient, or set it to 0."""
        for group in self.param_groups:
            for param in group["params"]:
                clear_grad(param, set_to_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient.

        Args:
            closure: computes the loss and its gradients anew; called first.

        Returns:
            What ``closure`` returned, or None.

        Raises:
            RuntimeError: a parameter was converted to another shape or dtype. Nothing
                has changed then.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        tracer = TRACER.get()
        if tracer is None:
            self._step()
        else:
            self._traced_step(tracer)
        return loss

    def _traced_step(self, tracer: Tracer) -> None:
        """Take a step, and have every replay take one with the gradients of that time."""
        params = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        tracer.effect(type(self).__name__, TakenStep(self, params), [p.grad for p in params])
        with pausing():
            self._step()

    def _step(self) -> None:
        work = [
            (group, flat)
            for group, flats in zip(self.param_groups, self._flats, strict=True)
            for flat in flats
        ]
        settled = [flat.is_settled() for _, flat in work]
        for (_, flat), done in zip(work, settled, strict=True):
            for i, param in enumerate(() if done else flat.params):
                if param.grad is not None:
                    flat.check(i)
        for (group, flat), done in zip(work, settled, strict=True):
            names = self._state_names(group)
            if not done:
                members = [i for i, param in enumerate(flat.params) if param.grad is not None]
                for i in members:
                    flat.adopt(i)
                flat.gather(members)
            for run in self._runs(flat):
                self._advance(group, flat, run, names)
        self._has_stepped = True

    def _runs(self, flat: Flat) -> Iterator[_Run]:
        """Yield the longest runs of parameters with gradients that one update can serve."""
        first = last = age = -1
        for i, param in enumerate(flat.params):
            if param._grad is None:
                continue
            here = self._age(self.state.get(param, _NO_STATE))
            if first < 0 or (last, age) != (i - 1, here):
                if first >= 0:
                    yield _Run(first, last, age)
                first, age = i, here
            last = i
        if first >= 0:
            yield _Run(first, last, age)

    def _advance(self, group: Group, flat: Flat, run: _Run, names: tuple[str, ...]) -> None:
        members = flat.params[run.first : run.last + 1]
        arrays: dict[str, Array] = {}
        span = flat.span(run.first, run.last)
        states = [self.state.get(param) for param in members]
        new: dict[str, list[Array]] = {}
        for name in names:
            whole, views = flat.state(name)
            arrays[name] = whole[span]
            for state, view in zip(states, views[run.first :], strict=False):
                held = None if state is None else state.get(name)
                if held is not view:  # new, or loaded, or replaced by the user
                    np.copyto(view, self._start(group) if held is None else held)
                    new[name] = views
        kernel = type(self)._kernel
        taken = _parameters(kernel)
        options = {name: _plain(group[name]) for name in self._checks if name in taken}
        if "step" in taken:
            options["step"] = run.age + 1
        quietly().run(
            sweep,
            kernel,
            flat.data[span],
            flat.grad[span],
            arrays,
            flat.work,
            decoupled=self._decoupled,
            **options,
        )
        for i, (param, state) in enumerate(zip(members, states, strict=True), run.first):
            param._shared_version().count += 1
            if state is None and (names or "step" in self._remembers):
                state = self.state.setdefault(param, {})
            if state is None:
                continue
            for name, views in new.items():
                state[name] = views[i]
            if "step" in self._remembers:
                state["step"] = run.age + 1

    # State.

    def state_dict(self) -> dict[str, Any]:
        """Return a snapshot of the state and the options.

        "state" has the arrays (copies) and numbers remembered of each parameter
        that took a step, by its number; "param_groups" has each group's options,
        and under "params" the numbers of its parameters.
        """
        params = [p for group in self.param_groups for p in group["params"]]
        state = {
            i: {name: copy.copy(value) for name, value in self.state[p].items()}
            for i, p in enumerate(params)
            if p in self.state
        }
        groups, start = [], 0
        for group in self.param_groups:
            stop = start + len(group["params"])
            groups.append({**group, "params": list(range(start, stop))})
            start = stop
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over state and options from what ``state_dict`` of such an optimizer returned.

        Parameters are matched by their order. Numbers that became strings, and
        tuples that became lists, on the way through JSON are understood.

        Raises:
            TypeError: not a mapping, or a value of the wrong type.
            ValueError: another number of groups or parameters, shapes that differ, or
                options out of range. Nothing has changed then.
        """
        if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= set(state_dict):
            raise TypeError(
                "load_state_dict: expected a mapping with 'state' and 'param_groups', got "
                f"{type(state_dict).__name__}"
            )
        groups, order = self._matched(state_dict["param_groups"])
        state: dict[Tensor, dict[str, Any]] = {}
        for key, given in state_dict["state"].items():
            if int(key) not in order:
                raise ValueError(f"loaded state dict has state of an unknown parameter {key}")
            param, group = order[int(key)]
            entries = {name: value for name, value in given.items() if value is not None}
            if entries:
                self._check_entries(key, entries, group)
                state[param] = {name: _loaded(name, v, param) for name, v in entries.items()}
        for own, theirs in zip(self.param_groups, groups, strict=True):
            own.clear()
            own.update(theirs)
        self.state.clear()
        self.state.update(state)

    def _matched(self, saved: Any) -> tuple[list[Group], dict[int, tuple[Tensor, Group]]]:
        """Return saved groups with our parameters in them, and which parameter has which number."""
        if len(saved) != len(self.param_groups):
            raise ValueError(
                f"loaded state dict has a different number of parameter groups: {len(saved)}, "
                f"but the optimizer has {len(self.param_groups)}"
            )
        groups: list[Group] = []
        order: dict[int, tuple[Tensor, Group]] = {}
        for own, theirs in zip(self.param_groups, saved, strict=True):
            keys, params = theirs.get("params", ()), own["params"]
            if len(keys) != len(params):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    f"optimizer's group: {len(keys)} parameters instead of {len(params)}"
                )
            options = {k: tuple(v) if isinstance(v, list) else v for k, v in theirs.items()}
            group = {**self.defaults, **options, "params": params}
            self._check_options(group)
            groups.append(group)
            order.update(
                (int(key), (param, group)) for key, param in zip(keys, params, strict=True)
            )
        return groups, order

    def _check_entries(self, key: Any, entries: Mapping[str, Any], group: Group) -> None:
        """Raise unless ``entries`` are what this optimizer remembers of a parameter."""
        unknown = sorted(set(entries) - self._remembers)
        missing = sorted(({*self._state_names(group), "step"} & self._remembers) - set(entries))
        if unknown or missing:
            raise ValueError(
                f"loaded state dict is not one of {type(self).__name__}: the state of parameter "
                f"{key} has unknown {unknown} and lacks {missing}"
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        for name, value in vars(self).items():
            if name != "_flats":
                setattr(twin, name, copy.deepcopy(value, memo))
        twin._flats = [flatten(group["params"]) for group in twin.param_groups]
        return twin

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {k}: {group[k]}\n" for k in sorted(group) if k != "params")
        return text + ")"


def _grouped(params: Any) -> list[Any]:
    """Return what the constructor was given as a list of groups."""
    if isinstance(params, Tensor):
        raise TypeError(
            "params argument given to the optimizer should be an iterable of Tensors or dicts, "
            "but got one Tensor; put it into a list"
        )
    if isinstance(params, set | frozenset):
        raise TypeError(
            "optimizer parameters need an order, and a set has none; use a list instead"
        )
    if not isinstance(params, Iterable) or isinstance(params, str | bytes | dict):
        raise TypeError(
            "params argument given to the optimizer should be an iterable of Tensors or dicts, "
            f"but got {type(params).__name__}"
        )
    listed = list(params)
    if listed and isinstance(listed[0], dict):
        return listed
    return [{"params": listed}] if listed else []


@functools.cache
def _parameters(kernel: Callable[..., Any]) -> frozenset[str]:
    """Return the names of what a kernel takes, with the options that every step needs."""
    return frozenset({*inspect.signature(kernel).parameters, "weight_decay", "maximize"})


def _place(group: int, position: int) -> str:
    """Return where a parameter stands, in words."""
    return f"parameter {position} of group {group}"


def _plain(option: Any) -> Any:
    """Return an option's numbers as Python floats, which promote no array."""
    if type(option) in (bool, float, int):  # the usual ones; integers do not promote either
        return option
    if isinstance(option, tuple | list):
        return tuple(map(_plain, option))
    return float(option) if isinstance(option, numbers.Real) else option


def _loaded(name: str, value: Any, param: Tensor) -> Any:
    """Return one entry of a parameter's state: the step as an int, anything else as an array."""
    if name == "step":
        step = int(value)
        if step != value or step < 0:
            raise ValueError(f"loaded state dict has step {value}, wanted an integer >= 0")
        return step
    array = value.data if isinstance(value, Tensor) else as_array(value, what=f"state {name!r}")
    if array.shape != param.shape:
        raise ValueError(
            f"loaded state dict has {name} of shape {array.shape} for a parameter of shape "
            f"{param.shape}"
        )
    return array.astype(param.dtype)
