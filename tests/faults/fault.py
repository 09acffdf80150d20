"""What a planted fault is, and how the tests that should catch it are named."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["Fault", "Tests", "array_op", "elementwise_op", "named"]

# Arguments of pytest: files, tests, options.
Tests = tuple[str, ...]

_ULP: Final = "tests/crosscheck/test_ulp.py::test_values_and_gradients_of_an_"


class Fault(NamedTuple):
    """One change of a source file that makes it wrong.

    Attributes:
        path: the file.
        old: what stands there, once.
        new: what is put in its place.
        breaks: what is wrong then.
        tests: the everyday tests that are tried first.
    """

    path: str
    old: str
    new: str
    breaks: str
    tests: Tests

    @property
    def kernels(self) -> str:
        """Which kernels the tests are to run on.

        Those of numpy start faster. The everyday suite holds the compiled ones to them, bit for
        bit, so that a fault in either is seen on both.
        """
        return "numba" if self.path == "tensor/kernels/steps.py" else "numpy"

    def applied(self, source: str) -> str:
        """The source with the fault in it.

        Raises:
            LookupError: ``old`` does not stand there exactly once.
        """
        count = source.count(self.old)
        if count != 1:
            raise LookupError(
                f"{self.path}: wanted one place where {self.old!r} stands, found {count}; "
                "write the fault anew for the source as it is now"
            )
        return source.replace(self.old, self.new)


def elementwise_op(*cases: str) -> Tests:
    """The comparison of elementwise ops with 50 digits."""
    name = f"{_ULP}elementwise_op_are_right_to_the_last_places"
    return tuple(f"{name}[{case}]" for case in cases)


def array_op(*names: str) -> Tests:
    """The comparison of ops of arrays with 50 digits."""
    return tuple(f"{_ULP}op_of_arrays_are_right_within_rounding[{name}]" for name in names)


def named(file: str, expression: str = "") -> Tests:
    """A file of tests, or those of its tests whose names match an expression as of pytest's -k."""
    return (f"tests/{file}.py", "-k", expression) if expression else (f"tests/{file}.py",)
