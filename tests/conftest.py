"""Settings and fixtures that every test has."""

from __future__ import annotations

import os

# Read by the libraries when they are loaded, so set before that. One thread per process: the
# suite runs in several processes, and no result may depend on how many threads shared a sum.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.isolation import isolated

# The same examples in every run: a red run means that the code has changed. To look for new
# counter-examples: HYPOTHESIS_PROFILE=search make test
settings.register_profile("everyday", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=2_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "everyday"))


@pytest.fixture(autouse=True)
def no_leaked_state() -> Iterator[None]:
    """Fail the test that changes global state, and put the state back for the others."""
    with isolated():
        yield
