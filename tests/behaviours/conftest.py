"""The mirror that the tests of data have."""

from __future__ import annotations

from tests.tensor.data.conftest import no_data_of_the_users, server

__all__ = ["no_data_of_the_users", "server"]
