"""Which kernels run: numpy's, or their twins that numba has compiled.

A kernel that is marked ``@accelerated`` may have a twin of the same name in one of ``TWINS``. The
twin is looked up at every call, so that the choice can be changed at any time, and numba is
imported by the first call that needs it. Operands that a twin is not made for are left
to numpy: it returns ``NotImplemented`` then, and has changed nothing.
"""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar

__all__ = ["KERNELS", "accelerated", "give_up", "kernels_in_use", "use_kernels"]

P = ParamSpec("P")
R = TypeVar("R")

KERNELS: Final = ("numpy", "numba")

# The modules that hold twins.
TWINS: Final = ("gemm", "jit", "rows", "special_loops", "steps")

# The names of all kernels that may have a twin.
_accelerated: list[str] = []

# What is called first, by name; empty under numpy.
_twins: dict[str, Callable[..., Any]] = {}


def accelerated(function: Callable[P, R]) -> Callable[P, R]:
    """Have a kernel's twin called first, where there is one and it takes the operands."""
    name = function.__name__
    _accelerated.append(name)

    @functools.wraps(function)
    def chosen(*args: P.args, **kwargs: P.kwargs) -> R:
        twin = _twins.get(name)
        if twin is not None:
            try:
                result = twin(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - numba raises all kinds
                give_up(error)
            else:
                if result is not NotImplemented:
                    return result  # type: ignore[no-any-return]
        return function(*args, **kwargs)

    return chosen


def _first(name: str, *args: Any, **kwargs: Any) -> Any:
    """Import the twins, put them in place, and call the one that was wanted."""
    modules = [importlib.import_module(f"{__package__}.{module}") for module in TWINS]
    found = {twin: getattr(module, twin) for module in modules for twin in module.__all__}
    if _twins:  # nobody has chosen numpy meanwhile
        _twins.update(found)
    return found[name](*args, **kwargs)


def _choose(name: str) -> None:
    if name == "numpy":
        _twins.clear()
    elif not _twins:
        _twins.update({known: functools.partial(_first, known) for known in _accelerated})


def give_up(error: Exception) -> None:
    """Go on with numpy, since numba cannot be imported, or cannot compile."""
    _choose("numpy")
    problem = f"{type(error).__name__}: {error}".partition("\n")[0]
    warnings.warn(
        f"the numba kernels failed ({problem}); going on with numpy's, which are slower. "
        "tensor.use_kernels('numpy') chooses them from the start",
        RuntimeWarning,
        stacklevel=3,
    )


def kernels_in_use() -> str:
    """Return the name of the kernels that run: "numpy" or "numba"."""
    return "numba" if _twins else "numpy"


class use_kernels:
    """Run numpy's kernels, or those that numba compiles: "numpy" or "numba".

    Holds from now on for the whole process, in every thread; as a context manager, until the end
    of the block. Where numba can be imported it is the default, unless the environment variable
    ``SMOLGRAD_KERNELS`` says otherwise. Elementwise results are equal bit for bit; products of
    matrices, and sums of float32, may be added up in another order. What numba has compiled is
    kept on disk. Should it fail to compile, there is one warning, and numpy's kernels run.

    Raises:
        ValueError: another name.
        ImportError: numba is not installed.
    """

    def __init__(self, name: str) -> None:
        if name not in KERNELS:
            raise ValueError(f"use_kernels: kernels must be one of {KERNELS}, got {name!r}")
        if name == "numba" and not _is_installed(name):
            raise ImportError(
                "use_kernels: numba is not installed; pip install 'smolgrad[fast]', or use 'numpy'"
            )
        self._before = kernels_in_use()
        _choose(name)

    def __enter__(self) -> None:
        """Everything is done already."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Go back to the kernels of before."""
        _choose(self._before)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # a finder that refuses
        return False


def use_default() -> None:
    """Choose what is to run if nobody says anything."""
    use_kernels(
        os.environ.get("SMOLGRAD_KERNELS") or ("numba" if _is_installed("numba") else "numpy")
    )
