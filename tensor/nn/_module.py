"""Module: a function with parameters, found by looking at its attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from ..dtypes import as_array, as_dtype, float16, float32, float64
from ..gradients import clear_grad
from ..graph import Array
from ..modes import ACTIVE, no_grad
from ..tensor import Tensor
from ..tracing import calling, record_details
from ._parameter import Buffer, Parameter

__all__ = ["IncompatibleKeys", "Module", "boxed", "indented"]

T = TypeVar("T")


class IncompatibleKeys(NamedTuple):
    """Where a state dict and a module differ in names."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """A part of a model: a ``forward`` and whatever it has for attributes.

    Nothing is registered. A ``Parameter``, ``Buffer`` or ``Module`` that is an
    attribute belongs to the module, in the order of the attributes, and a
    subclass need not call ``super().__init__()``. Modules and parameters inside
    a plain list, tuple or dict would be overlooked, so that is an error:
    ``ModuleList`` and ``ModuleDict`` hold them.

    >>> class Affine(Module):
    ...     def __init__(self):
    ...         self.scale, self.shift = Parameter([2.0]), Parameter([1.0])
    ...     def forward(self, x):
    ...         return x * self.scale + self.shift
    >>> [name for name, _ in Affine().named_parameters()]
    ['scale', 'shift']
    >>> Affine()(Tensor([3.0])).tolist()
    [7.0]
    """

    training: bool = True

    # What a drawing of a call asks for.
    record_details = staticmethod(record_details)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's output; every subclass has its own."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if ACTIVE.get() is None:  # nobody writes down what runs
            return self.forward(*args, **kwargs)
        with calling(self):
            return self.forward(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        old = vars(self).get(name)
        if isinstance(old, Buffer) and isinstance(value, Tensor):
            # Recomputing a buffer leaves it a buffer.
            if not isinstance(value, Buffer | Parameter):
                value = old._succeeded_by(value)
        elif isinstance(old, Parameter) and not isinstance(value, Parameter | None):
            raise TypeError(
                f"cannot assign {type(value).__name__} as parameter {name!r} "
                "(Parameter or None expected); wrap it in Parameter(...), or copy_ it in"
            )
        elif isinstance(old, Module) and not isinstance(value, Module | None):
            raise TypeError(
                f"cannot assign {type(value).__name__} as child module {name!r} "
                "(Module or None expected)"
            )
        super().__setattr__(name, value)

    def add_module(self, name: str, module: Module) -> None:
        """Make ``module`` the attribute ``name``, which need not be a Python identifier.

        Raises:
            TypeError: ``module`` is not a Module, or ``name`` not a string.
            KeyError: ``name`` is empty, has a dot in it, or is an attribute of another kind.
        """
        if not isinstance(module, Module):
            raise TypeError(f"{type(self).__name__}: {type(module).__name__} is not a Module")
        if not isinstance(name, str):
            raise TypeError(f"a module's name must be a string, got {type(name).__name__}")
        if name == "" or "." in name:
            raise KeyError(f"a module's name can't be empty or contain '.', got {name!r}")
        if hasattr(self, name) and not isinstance(vars(self).get(name), Module):
            raise KeyError(f"attribute {name!r} already exists")
        setattr(self, name, module)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Make ``param`` the attribute ``name``, as an assignment does.

        Raises:
            TypeError: ``param`` is neither a Parameter nor None.
        """
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"{name}: {type(param).__name__} is not a Parameter or None")
        self._register(name, param)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Make ``tensor`` the attribute ``name``, as a buffer.

        Args:
            name: an identifier that is not an attribute yet.
            tensor: what a Buffer is made of; copied unless it is one; or None.
            persistent: whether it is part of ``state_dict()``.
        """
        if tensor is not None and not isinstance(tensor, Buffer):
            tensor = Buffer(tensor, persistent=persistent)
        self._register(name, tensor)

    def _register(self, name: str, member: Any) -> None:
        if name == "" or "." in name:
            raise KeyError(f"a member's name can't be empty or contain '.', got {name!r}")
        if hasattr(self, name):
            raise KeyError(f"attribute {name!r} already exists")
        setattr(self, name, member)

    # What belongs to the module.

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules that are attributes, each once, with their names."""
        seen: set[int] = set()
        for name, child in self._own(Module):
            if id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> Iterator[Module]:
        """Yield the modules that are attributes, each once."""
        return (child for _, child in self.named_children())

    def named_modules(
        self, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield this module and all within it, each before its children, with dotted names.

        Raises:
            TypeError: modules or parameters in a plain list, tuple, set or dict.
            RuntimeError: duplicates are wanted and a module lies within itself.
        """
        seen: set[int] = set()
        stack: list[tuple[str, Module, tuple[int, ...]]] = [(prefix, self, ())]
        while stack:
            name, module, within = stack.pop()
            if remove_duplicate and id(module) in seen:
                continue
            if id(module) in within:
                raise RuntimeError(f"the module {name!r} lies within itself")
            seen.add(id(module))
            yield name, module
            module._refuse_overlooked()
            inside = (*within, id(module))
            children = [(_joined(name, n), child, inside) for n, child in module._own(Module)]
            stack.extend(reversed(children))

    def modules(self) -> Iterator[Module]:
        """Yield this module and all within it, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their dotted names; a tied one once, under its first name.

        Sets ``label`` of a parameter that has none, or that has one from a
        smaller part of the same model.
        """
        for name, parameter in self._named(Parameter, prefix, recurse, remove_duplicate):
            if parameter.label is None or name.endswith("." + parameter.label):
                parameter.label = name
            yield name, parameter

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, a tied one once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Buffer]]:
        """Yield the buffers with their dotted names."""
        return self._named(Buffer, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Buffer]:
        """Yield the buffers."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _own(self, kind: type[T]) -> list[tuple[str, T]]:
        return [(name, value) for name, value in vars(self).items() if isinstance(value, kind)]

    def _named(
        self, kind: type[T], prefix: str, recurse: bool, unique: bool
    ) -> Iterator[tuple[str, T]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix, unique) if recurse else iter([(prefix, self)])
        for place, module in modules:
            for name, member in module._own(kind):
                if not (unique and id(member) in seen):
                    seen.add(id(member))
                    yield _joined(place, name), member

    def _refuse_overlooked(self) -> None:
        """Raise if an attribute is a plain container of modules or parameters of its own."""
        for name, value in vars(self).items():
            if not isinstance(value, list | tuple | set | dict):
                continue
            held = {id(member) for member in _members(value)}
            # A container may well list what attributes hold already.
            if held and not held <= self._reached():
                raise TypeError(
                    f"{type(self).__name__}.{name} is a {type(value).__name__} with modules or "
                    "parameters in it, which would not be trained or saved; make it a ModuleList "
                    "or ModuleDict, or give each of them an attribute"
                )

    def _reached(self) -> set[int]:
        reached: set[int] = set()
        stack: list[Module] = [self]
        while stack:
            module = stack.pop()
            reached.add(id(module))
            reached.update(id(tensor) for _, tensor in module._own(Parameter))
            reached.update(id(tensor) for _, tensor in module._own(Buffer))
            stack += [child for _, child in module._own(Module) if id(child) not in reached]
        return reached

    # What is done to all of it.

    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call ``function`` with every module, children before their parents; return self."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set ``training`` of every module, which Dropout heeds; return self.

        Raises:
            ValueError: ``mode`` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be boolean, got {mode!r}")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Leave training mode; return self."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether the parameters collect gradients; return self."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop every parameter's gradient, or set it to 0."""
        for parameter in self.parameters():
            clear_grad(parameter, set_to_none)

    def to(self, dtype: Any) -> Self:
        """Convert every floating parameter and buffer, gradients included; return self.

        Convert before making an optimizer: it keeps state of the parameters' dtype.

        Raises:
            TypeError: ``dtype`` is not float16, float32 or float64.
        """
        wanted = as_dtype(dtype)
        if wanted.kind != "f":
            raise TypeError(f"to: a module's parameters must be floating, got dtype {wanted}")
        for tensor in [*self.parameters(), *self.buffers()]:
            if tensor.dtype.kind == "f" and tensor.dtype != wanted:
                gradient = tensor.grad
                tensor.grad = None
                tensor.data = tensor.data.astype(wanted)
                if gradient is not None:
                    tensor.grad = gradient.detach().to(wanted)
        return self

    def float(self) -> Self:
        """Convert to float32; return self."""
        return self.to(float32)

    def double(self) -> Self:
        """Convert to float64; return self."""
        return self.to(float64)

    def half(self) -> Self:
        """Convert to float16; return self."""
        return self.to(float16)

    # State.

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of the parameters and persistent buffers, by name.

        A tied parameter stands under each of its names. The copies are a
        snapshot: later training does not change them. (PyTorch's share memory
        with the model; here an optimizer may move a parameter to other memory,
        so that such sharing could not be relied upon.)
        """
        return {name: Tensor(tensor.data) for name, tensor in self._state()}

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        for place, module in self.named_modules(remove_duplicate=False):
            for name, parameter in module._own(Parameter):
                yield _joined(place, name), parameter
            for name, buffer in module._own(Buffer):
                if buffer.persistent:
                    yield _joined(place, name), buffer

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True
    ) -> IncompatibleKeys:
        """Copy Tensors or arrays into the parameters and buffers of the same names.

        The copy is made in place: memory is not replaced, and an optimizer goes
        on with the new values. Other floating dtypes are converted.

        Args:
            state_dict: what ``state_dict()`` returned.
            strict: whether missing and unexpected names are an error.

        Returns:
            The names that are missing and those that are unexpected.

        Raises:
            TypeError: ``state_dict`` is not a mapping.
            RuntimeError: names that differ, shapes that differ, values that cannot
                be stored; all of them are listed and nothing has changed.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"state_dict must be a mapping, got {type(state_dict).__name__}")
        own = dict(self._state())
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        problems: list[str] = []
        if strict and missing:
            problems.append(f"Missing key(s) in state_dict: {_quoted(missing)}.")
        if strict and unexpected:
            problems.append(f"Unexpected key(s) in state_dict: {_quoted(unexpected)}.")
        arrays: dict[str, Array] = {}
        for name, tensor in own.items():
            if name in state_dict:
                try:
                    arrays[name] = _fitting(name, tensor, state_dict[name])
                except (TypeError, ValueError) as error:
                    problems.append(str(error))
        if problems:
            listed = "\n\t".join(problems)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}"
            )
        with no_grad():
            for name, array in arrays.items():
                own[name].copy_(array)
        return IncompatibleKeys(missing, unexpected)

    # Text.

    def extra_repr(self) -> str:
        """Return what ``repr`` shows of the module besides its children."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {indented(repr(child))}" for name, child in self._own(Module)]
        if len(lines) == 1 and not children:
            return f"{type(self).__name__}({extra})"
        return boxed(type(self).__name__, lines + children)


def indented(text: str) -> str:
    """Return ``text`` with every line but the first indented by two."""
    return text.replace("\n", "\n  ")


def boxed(name: str, lines: list[str]) -> str:
    """Return ``name(...)`` with one indented line for each of ``lines``."""
    return f"{name}(" + "".join(f"\n  {line}" for line in lines) + ("\n)" if lines else ")")


def _joined(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _members(container: Any) -> Iterator[Module | Parameter | Buffer]:
    """Yield the modules, parameters and buffers in nested plain containers."""
    stack = [container]
    seen: set[int] = set()
    while stack:
        item = stack.pop()
        if isinstance(item, Module | Parameter | Buffer):
            yield item
        elif isinstance(item, list | tuple | set | dict) and id(item) not in seen:
            seen.add(id(item))
            stack.extend(item.values() if isinstance(item, dict) else item)


def _fitting(name: str, tensor: Tensor, value: Any) -> Array:
    """Return ``value`` as an array that can be copied into ``tensor``."""
    array = value.data if isinstance(value, Tensor) else as_array(value, what=name)
    if array.shape != tensor.shape:
        raise ValueError(
            f"size mismatch for {name}: copying a param with shape {array.shape} from "
            f"state_dict, the shape in current model is {tensor.shape}."
        )
    if not np.can_cast(array.dtype, tensor.dtype, "same_kind"):
        raise TypeError(
            f"dtype mismatch for {name}: {array.dtype} cannot be stored in {tensor.dtype}."
        )
    if not tensor.data.flags.writeable:
        raise ValueError(f"the memory of {name} in current model is read-only.")
    return array
