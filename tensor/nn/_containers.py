"""Modules that hold modules, in a chain, a list or a dict, or parameters, in a list."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, SupportsIndex, overload

from ..tensor import Tensor
from ..tracing import called
from . import functional
from ._activations import ReLU, Sigmoid, Tanh
from ._linear import Linear
from ._module import Module, boxed, indented
from ._parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterList", "Sequential"]


def _position(owner: str, index: Any, count: int) -> int:
    """Return where ``index``, from the end if it is negative, stands among ``count``."""
    if not isinstance(index, SupportsIndex):
        raise TypeError(f"{owner}: an index must be an integer or a slice, got {index!r}")
    position = index.__index__()
    if not -count <= position < count:
        raise IndexError(f"index {position} is out of range for {owner} of {count}")
    return position % count


class _Numbered(Module):
    """Children under the names "0", "1", ... (or, in a Sequential, names of the user's)."""

    def _chain(self) -> list[Module]:
        return [child for child in vars(self).values() if isinstance(child, Module)]

    def _names(self) -> list[str]:
        return [name for name, _ in self._own(Module)]

    def _name_at(self, index: int) -> str:
        names = self._names()
        return names[_position(type(self).__name__, index, len(names))]

    def _renumber(self, children: Iterable[Module]) -> None:
        """Make ``children`` the only ones, numbered from 0."""
        listed = list(children)
        for name in self._names():
            delattr(self, name)
        for i, child in enumerate(listed):
            self.add_module(str(i), child)

    def __len__(self) -> int:
        return len(self._chain())

    def __iter__(self) -> Iterator[Module]:
        return iter(self._chain())

    def __setitem__(self, index: int, module: Module) -> None:
        self.add_module(self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        doomed = self._names()[index] if isinstance(index, slice) else [self._name_at(index)]
        self._renumber([child for name, child in self._own(Module) if name not in doomed])

    def append(self, module: Module) -> Self:
        """Add a module at the end; return self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add several modules at the end; return self."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before position ``index``; return self."""
        children = self._chain()
        children.insert(index, module)
        self._renumber(children)
        return self


# The activations that ``linear`` can apply itself, to the same bits.
_FUSED: Mapping[type[Module], str] = {ReLU: "relu", Tanh: "tanh", Sigmoid: "sigmoid"}


def _plain(module: Module, kind: type[Module]) -> bool:
    """Whether ``module`` does what its class does and nothing else."""
    return type(module) is kind and "forward" not in vars(module)


class Sequential(_Numbered):
    """A chain: each module is called with the result of the one before.

    A ``Linear`` followed by ``ReLU``, ``Tanh`` or ``Sigmoid`` runs as one op,
    with the same values and gradients to the last bit.

    Args:
        *modules: the modules in order, or one OrderedDict that names them.

    An index gives a module, a slice a Sequential that shares its modules.
    """

    def __init__(self, *modules: Module | OrderedDict[str, Module]) -> None:
        for i, module in enumerate(modules):
            if isinstance(module, OrderedDict):
                if len(modules) > 1:
                    raise TypeError("Sequential: an OrderedDict must be the only argument")
                for name, named in module.items():
                    self.add_module(name, named)
            else:
                self.add_module(str(i), module)

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> Module:
        if isinstance(index, slice):
            return type(self)(OrderedDict(self._own(Module)[index]))
        child: Module = getattr(self, self._name_at(index))
        return child

    def forward(self, input: Any) -> Any:
        """Return the last module's result."""
        chain = iter(self._chain())
        layer = next(chain, None)
        while layer is not None:
            following = next(chain, None)
            if isinstance(layer, Linear) and _plain(layer, Linear) and following is not None:
                activation = _FUSED.get(type(following))
                if activation is not None and _plain(following, type(following)):
                    operands = (input, layer.weight, layer.bias, activation)
                    input = called(layer, functional.linear, *operands)
                    layer = next(chain, None)
                    continue
            input = layer(input)
            layer = following
        return input


class ModuleList(_Numbered):
    """A list of modules; it has no ``forward``.

    An index gives a module, a slice a ModuleList that shares its modules.
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.extend(modules)

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    def __getitem__(self, index: int | slice) -> Module:
        if isinstance(index, slice):
            return type(self)(self._chain()[index])
        child: Module = getattr(self, self._name_at(index))
        return child

    def __repr__(self) -> str:
        runs: list[tuple[int, int, str]] = []  # first, last, text of equal neighbours
        for i, child in enumerate(self):
            text = repr(child)
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        lines = [
            f"({first}): {indented(text)}"
            if first == last
            else f"({first}-{last}): {last - first + 1} x {indented(text)}"
            for first, last, text in runs
        ]
        return boxed(type(self).__name__, lines)


class ModuleDict(Module):
    """A dict of modules; it has no ``forward``.

    Keys are strings without dots that are not attributes of a module otherwise.
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        self.update(modules or {})

    def __getitem__(self, key: str) -> Module:
        child = vars(self).get(key)
        if not isinstance(child, Module):
            raise KeyError(key)
        return child

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        self[key]
        delattr(self, key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and isinstance(vars(self).get(key), Module)

    def __len__(self) -> int:
        return len(self._own(Module))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> list[str]:
        """Return the names, in order."""
        return [name for name, _ in self._own(Module)]

    def values(self) -> list[Module]:
        """Return the modules, in order."""
        return [child for _, child in self._own(Module)]

    def items(self) -> list[tuple[str, Module]]:
        """Return names and modules, in order."""
        return self._own(Module)

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add or replace modules by name."""
        for name, module in modules.items():
            self[name] = module


class ParameterList(Module):
    """A list of parameters; it has no ``forward``. Tensors are made parameters.

    An index gives a parameter, a slice a ParameterList that shares its parameters.
    """

    def __init__(self, values: Iterable[Tensor] = ()) -> None:
        self.extend(values)

    def _chain(self) -> list[Parameter]:
        return [parameter for _, parameter in self._own(Parameter)]

    def __len__(self) -> int:
        return len(self._chain())

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._chain())

    @overload
    def __getitem__(self, index: int) -> Parameter: ...
    @overload
    def __getitem__(self, index: slice) -> ParameterList: ...
    def __getitem__(self, index: int | slice) -> Parameter | ParameterList:
        chain = self._chain()
        if isinstance(index, slice):
            return type(self)(chain[index])
        return chain[_position("ParameterList", index, len(chain))]

    def __setitem__(self, index: int, value: Tensor) -> None:
        self._set(_position("ParameterList", index, len(self)), value)

    def _set(self, position: int, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"ParameterList: {type(value).__name__} is not a Tensor")
        parameter = value if isinstance(value, Parameter) else Parameter(value.detach())
        setattr(self, str(position), parameter)

    def append(self, value: Tensor) -> Self:
        """Add a parameter at the end; return self."""
        self._set(len(self), value)
        return self

    def extend(self, values: Iterable[Tensor]) -> Self:
        """Add several parameters at the end; return self."""
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Return every parameter's dtype and shape, one a line."""
        lines = []
        for i, parameter in enumerate(self):
            shape = "x".join(map(str, parameter.shape))
            lines.append(f"  ({i}): Parameter containing: [{parameter.dtype} of size {shape}]")
        return "\n".join(lines)
