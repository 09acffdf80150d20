"""Tensor: an ndarray, the gradient that belongs to it, and where it came from.

Names, defaults and errors follow PyTorch's Tensor. The ops themselves live in
``ops/``; those that are also methods are attached there.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from . import interchange
from .composite import Composite
from .dtypes import as_array, as_dtype, float32, float64
from .errors import ShapeError
from .graph import Array, Edge, Node, Version
from .inplace import InPlace
from .methods import recorded
from .tracing import TRACER, record_details

if TYPE_CHECKING:
    import builtins

    from .functions import Extremum
    from .optim._flat import Slot

__all__ = ["Handle", "Tensor", "from_numpy"]

_new = object.__new__


@functools.cache
def _engine() -> Any:
    """Return the module ``engine``, which imports this one."""
    from . import engine

    return engine


class Handle:
    """What ``register_hook`` returns: ``remove()`` takes the hook away again."""

    def __init__(self, hooks: dict[object, Callable[[Tensor], Tensor | None]], key: object) -> None:
        self._hooks = hooks
        self._key = key

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        self._hooks.pop(self._key, None)


class Tensor(InPlace, Composite):
    """A multi-dimensional array of numbers that can be differentiated.

    Args:
        data: numbers, nested sequences of them, an ndarray or another Tensor.
            Always copied, so that later writes to the original change nothing
            here; ``from_numpy`` shares memory instead.
        dtype: bool, an integer dtype, float16, float32 or float64. By default
            an ndarray keeps its own, and Python floats become float32.
        requires_grad: whether gradients are to be collected in ``grad``.
        label: a name for drawings and messages.

    Attributes:
        data: the ndarray. Writing into it directly is invisible to the
            version check; the in-place methods and ``copy_`` are not.
        node: the record of the op that made this Tensor; None for a leaf.

    Raises:
        TypeError: complex, string, object or masked data.
        RuntimeError: ``requires_grad`` for a dtype that is not floating.
    """

    # Defaults on the class keep the construction of results short.
    node: Node | None = None
    _label: str | None = None
    _requires_grad: bool = False
    _grad: Tensor | None = None
    _slot: Slot | None = None  # where an optimizer wants the gradient
    _version: Version | None = None
    _source: tuple[Tensor, str, Mapping[str, Any]] | None = None  # of a view: base, op, attributes
    _hooks: dict[object, Callable[[Tensor], Tensor | None]] | None = None

    _array: Array  # not _data, which masked arrays would read past the checks

    def __init__(
        self,
        data: Any,
        dtype: Any = None,
        requires_grad: builtins.bool = False,
        *,
        label: str | None = None,
    ) -> None:
        if isinstance(data, Tensor):
            data = data.data
        typed = isinstance(data, (np.ndarray, np.generic))
        array = as_array(data)
        if dtype is not None:
            wanted = as_dtype(dtype)
        elif not typed and array.dtype == float64:
            wanted = float32
        else:
            wanted = array.dtype
        with np.errstate(all="ignore"):  # what the dtype cannot hold becomes inf
            self._array = np.array(array, dtype=wanted, order="C")
        if requires_grad:
            self.requires_grad_()
        self.label = label

    @classmethod
    def _wrap(cls, array: Array, node: Node | None = None) -> Self:
        """Return a Tensor around ``array`` itself, unchecked and uncopied."""
        tensor = _new(cls)
        tensor._array = array
        if node is not None:
            tensor.node = node
        return tensor

    def _shared_version(self) -> Version:
        version = self._version
        if version is None:
            version = self._version = Version()
        return version

    def _share(self, view: Tensor, op: str, attrs: Mapping[str, Any]) -> None:
        """Note that ``view``, the result of an op, shares this Tensor's memory."""
        version = self._version or self._shared_version()
        view._version = version
        view._source = (self, op, attrs)
        version.add_view(view)

    # The record, as drawings and traces see it.

    @property
    def data(self) -> Array:
        """The ndarray. Setting it to an ndarray or to another Tensor shares that one's memory."""
        return self._array

    @data.setter
    def data(self, value: Tensor | Array) -> None:
        if not isinstance(value, (Tensor, np.ndarray)):
            raise TypeError(
                f"data must be set to an ndarray or a Tensor, got {type(value).__name__}; "
                "wrap it in Tensor(...), or use copy_ or fill_ to change the elements"
            )
        array = value._array if isinstance(value, Tensor) else as_array(value, what="data")
        if self.requires_grad and array.dtype.kind != "f":
            raise RuntimeError(
                f"data of a Tensor that requires grad must be floating, got {array.dtype}; "
                "convert it first"
            )
        self._array, self._source = array, None
        # The memory is another's now, and so is the count of its changes.
        self._version = value._shared_version() if isinstance(value, Tensor) else None

    @property
    def label(self) -> str | None:
        """A name for drawings and messages; the label of a result names its node too."""
        return self._label

    @label.setter
    def label(self, value: str | None) -> None:
        self._label = value
        if self.node is not None:
            self.node.label = value

    @property
    def op(self) -> str:
        """The name of the op that made this Tensor, or "" for a leaf."""
        return "" if self.node is None else self.node.op

    @property
    def symbol(self) -> str:
        """What a drawing writes in the op's place."""
        return "" if self.node is None else self.node.symbol

    @property
    def inputs(self) -> tuple[Edge, ...]:
        """Where the operands came from, in order, repeats kept."""
        return () if self.node is None else self.node.inputs

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes of the op that made this Tensor."""
        return MappingProxyType({}) if self.node is None else self.node.attrs

    record_details = staticmethod(record_details)

    @property
    def module(self) -> str:
        """The name of the module that made this Tensor, if it was made in ``record_details()``."""
        return "" if self.node is None else self.node.module

    def partials(self) -> tuple[Any, ...]:
        """Return the derivative by each operand, where all are single numbers: for drawings."""
        return () if self.node is None else self.node.partials()

    def scalars(self, g: Any = None, limit: int | None = None) -> Any:
        """Return this result as an ndarray of micro's Values: see ``tensor.expansions.opening``.

        Raises:
            RuntimeError: this Tensor is a leaf.
        """
        if self.node is None:
            raise RuntimeError("scalars: the Tensor is a leaf, which no recorded op has made")
        return self.node.scalars(g, limit)

    @property
    def is_leaf(self) -> builtins.bool:
        """Whether no recorded op made this Tensor."""
        return self.node is None

    @property
    def version(self) -> int:
        """How often this Tensor's memory was changed in place."""
        return 0 if self._version is None else self._version.count

    # Gradients.

    @property
    def requires_grad(self) -> builtins.bool:
        """Whether a gradient flows to this Tensor."""
        return self.node is not None or self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: builtins.bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: builtins.bool = True) -> Self:
        """Set whether a leaf collects gradients; return it.

        Raises:
            RuntimeError: the dtype is not floating, or the Tensor is not a leaf.
        """
        if requires_grad and self.data.dtype.kind != "f":
            raise RuntimeError(
                f"only Tensors of floating point dtype can require gradients, got {self.dtype}; "
                "convert it with .to('float32') first"
            )
        if self.node is not None and not requires_grad:
            raise RuntimeError(
                f"requires_grad of a Tensor made by {self.op} cannot be switched off; "
                "use .detach() for one without history"
            )
        if self.node is None:
            self._requires_grad = bool(requires_grad)
        return self

    @property
    def grad(self) -> Tensor | None:
        """The gradient collected by backward passes, of this Tensor's shape and dtype.

        An intermediate has one only where ``retain_grad`` asks for it: otherwise a UserWarning
        says so.
        """
        if self._grad is None and self.node is not None and self.node.retains is None:
            warnings.warn(
                f"the grad of a Tensor that is not a leaf is being accessed: it was made by "
                f"{self.op}, and backward() sets no grad of it; call retain_grad() on it before, "
                "or access the leaf's",
                stacklevel=2,
            )
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad must be a Tensor or None, got {type(value).__name__}")
            if value.shape != self.shape:
                raise ShapeError(f"grad has shape {value.shape}, but the Tensor has {self.shape}")
            if value.dtype != self.dtype:
                raise RuntimeError(f"grad has dtype {value.dtype}, but the Tensor has {self.dtype}")
        tracer = TRACER.get()
        if tracer is not None:
            tracer.cleared.add(id(self))
        self._grad = value

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: builtins.bool | None = None,
        create_graph: builtins.bool = False,
        inputs: Sequence[Tensor] | Tensor | None = None,
    ) -> None:
        """Add the gradient of this Tensor to ``grad`` of every leaf it was computed from.

        See ``tensor.backward``, which this calls.
        """
        _engine().backward(self, gradient, retain_graph, create_graph, inputs)

    def trace_backward(self, observe: Callable[..., object]) -> list[tuple[Tensor, Array]]:
        """Run a backward pass to be watched: see ``tensor.watch.trace_backward``."""
        from .watch import trace_backward

        return trace_backward(self, observe)

    def retain_grad(self) -> None:
        """Have backward passes set ``grad`` of this Tensor too, though it is not a leaf.

        Raises:
            RuntimeError: the Tensor does not require grad.
        """
        if not self.requires_grad:
            raise RuntimeError("retain_grad: the Tensor does not require grad")
        if self.node is not None:
            self.node.retains = weakref.ref(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Handle:
        """Call ``hook(grad)`` when this Tensor's gradient is complete.

        The hook may return a Tensor of the same shape to take the gradient's place.

        Returns:
            A handle whose ``remove()`` takes the hook away.

        Raises:
            RuntimeError: the Tensor does not require grad.
        """
        if not self.requires_grad:
            raise RuntimeError("register_hook: the Tensor does not require grad")
        if not callable(hook):
            raise TypeError(f"register_hook: hook must be callable, got {type(hook).__name__}")
        owner: Any = self if self.node is None else self.node
        name = "_hooks" if self.node is None else "hooks"
        hooks = getattr(owner, name)
        if hooks is None:
            hooks = {}
            setattr(owner, name, hooks)
        key = object()
        hooks[key] = hook
        return Handle(hooks, key)

    def detach(self) -> Tensor:
        """Return a Tensor that shares this one's memory but not its history."""
        detached = Tensor._wrap(self.data)
        detached._version = self._shared_version()
        return detached

    # Shape and dtype.

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every dimension."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype of the elements."""
        return self._array.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.data.ndim

    def to(self, dtype: Any) -> Tensor:
        """Return this Tensor converted to ``dtype``; itself if it has that already."""
        wanted = as_dtype(dtype)
        return self if wanted == self.dtype else recorded("cast")(self, wanted)

    def float(self) -> Tensor:
        """Return this Tensor as float32."""
        return self.to(np.float32)

    def double(self) -> Tensor:
        """Return this Tensor as float64."""
        return self.to(np.float64)

    def half(self) -> Tensor:
        """Return this Tensor as float16."""
        return self.to(np.float16)

    def long(self) -> Tensor:
        """Return this Tensor as int64."""
        return self.to(np.int64)

    def bool(self) -> Tensor:
        """Return this Tensor as bool."""
        return self.to(np.bool_)

    # In a form of their own: along a dimension they say where, too.

    @overload
    def max(self, dim: None = None, keepdim: builtins.bool = False) -> Tensor: ...
    @overload
    def max(self, dim: int, keepdim: builtins.bool = False) -> Extremum: ...
    def max(self, dim: int | None = None, keepdim: builtins.bool = False) -> Any:
        """Return the largest element, or ``(values, indices)`` of the largest along ``dim``."""
        from .functions import max

        return max(self, dim, keepdim)

    @overload
    def min(self, dim: None = None, keepdim: builtins.bool = False) -> Tensor: ...
    @overload
    def min(self, dim: int, keepdim: builtins.bool = False) -> Extremum: ...
    def min(self, dim: int | None = None, keepdim: builtins.bool = False) -> Any:
        """Return the smallest element, or ``(values, indices)`` of the smallest along ``dim``."""
        from .functions import min

        return min(self, dim, keepdim)

    # numpy.

    def numpy(self) -> Array:
        """Return the ndarray itself. Writes to it are invisible to the version check.

        Raises:
            RuntimeError: the Tensor requires grad.
        """
        if self.requires_grad:
            raise RuntimeError(
                "cannot call numpy() on a Tensor that requires grad; use tensor.detach().numpy()"
            )
        self._ask("numpy")
        return self.data

    # matplotlib asks for this name; what has none it takes for a list of rows.
    to_numpy = numpy

    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> Array:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: builtins.bool | None = None,
    ) -> Any:
        """Return this Tensor's memory as a DLPack capsule, for ``torch.from_dlpack`` and others.

        Versioned from ``max_version`` (1, 0) on, unversioned below it or without it. What the
        other library writes to the memory is invisible to the version check.

        Raises:
            BufferError: the Tensor requires grad; a stream, or another device than the CPU, is
                asked for; without ``copy=True``, memory that is read-only or runs backwards.
        """
        return interchange.capsule(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the CPU, (1, 0)."""
        return interchange.CPU

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return recorded(interchange.op_of(ufunc, method, kwargs))(*inputs)

    def item(self) -> Any:
        """Return the only element as a Python number.

        Raises:
            ShapeError: there is not exactly one.
        """
        if self.data.size != 1:
            raise ShapeError(
                f"item: a Tensor with {self.data.size} elements (shape {self.shape}) "
                "cannot be converted to a number; index it or reduce it first"
            )
        self._ask("item")
        return self.data.item()

    def _ask(self, name: str) -> None:
        """Raise if a traced function asks for numbers that a replay would not ask for again."""
        tracer = TRACER.get()
        if tracer is not None and tracer.knows(self):
            raise RuntimeError(
                f"{name}: a traced function asks for the value of a Tensor of shape {self.shape} "
                "that depends on its arguments; a replay would not ask again. Return the Tensor "
                "and ask outside, or choose between results with where()"
            )

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        self._ask("tolist")
        return self.data.tolist()

    # Python.

    def __repr__(self) -> str:
        text = np.array2string(self.data, separator=", ", prefix="Tensor(", threshold=1000)
        parts = [text]
        if self.data.dtype not in (float32, np.dtype(np.int64), np.dtype(np.bool_)):
            parts.append(f"dtype={self.dtype}")
        elif self.data.size == 0:
            parts.append(f"shape={self.shape}, dtype={self.dtype}")
        if self.node is not None:
            parts.append(f"op={self.op}")
        elif self._requires_grad:
            parts.append("requires_grad=True")
        if self.label:
            parts.append(f"label={self.label!r}")
        return f"{'Tensor' if type(self) is Tensor else type(self).__name__}({', '.join(parts)})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.data.ndim == 0 else format(repr(self), spec)

    def __len__(self) -> int:
        if self.data.ndim == 0:
            raise TypeError("len() of a 0-d Tensor, which has one element and no length")
        return len(self.data)

    def __iter__(self) -> Iterator[Tensor]:
        if self.data.ndim == 0:
            raise TypeError("iteration over a 0-d Tensor; use .item() for its number")
        return (self[i] for i in range(len(self.data)))

    def __getitem__(self, index: Any) -> Tensor:
        return recorded("getitem")(self, index)

    def __bool__(self) -> builtins.bool:
        self._ask("bool")
        if self.data.size != 1:
            raise ShapeError(
                f"bool: the value of a Tensor with {self.data.size} elements (shape {self.shape}) "
                "is ambiguous; compare numbers, or reduce it first"
            )
        return bool(self.data.item())

    def __float__(self) -> builtins.float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        self._ask("index")
        if self.data.dtype.kind not in "iu" or self.data.size != 1:
            raise TypeError(
                f"only an integer Tensor of one element can be an index, got {self.dtype} "
                f"of shape {self.shape}"
            )
        return int(self.data.item())

    def __hash__(self) -> int:
        return id(self)

    def __copy__(self) -> Tensor:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if self.node is not None:
            raise RuntimeError(
                "only leaf Tensors can be copied with the copy module; "
                f"this one was made by {self.op}: use .clone() or .detach()"
            )
        tensor = type(self)._wrap(self.data.copy())
        tensor._requires_grad = self._requires_grad
        tensor.label = self.label
        if self._grad is not None:
            tensor._grad = Tensor._wrap(self._grad.data.copy())
        return tensor

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "a Tensor is not pickled, because loading a pickle runs what it says; "
            "save tensor.detach().numpy() with numpy.save or safetensors"
        )


def from_numpy(array: Array) -> Tensor:
    """Return a Tensor that shares memory with ``array``: nothing is copied.

    Whoever writes to the array writes to the Tensor, and the version check
    cannot see it: do not, between a forward pass and its backward.

    Raises:
        TypeError: not an ndarray, or one that would have to be converted.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: expected an ndarray, got {type(array).__name__}")
    plain = as_array(array, what="from_numpy")
    if not array.dtype.isnative:
        raise TypeError(f"from_numpy: dtype {array.dtype} would need a copy; use Tensor(array)")
    return Tensor._wrap(plain)
