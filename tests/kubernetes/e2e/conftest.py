"""Two real nodes with the operator on them, and a namespace for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from e2e.operators import deployed
from e2e.user import User, inside
from windlass.controlplane.real_nodes import RealCluster

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="package")
def operated(real_nodes: RealCluster) -> Iterator[RealCluster]:
    with deployed(real_nodes):
        yield real_nodes


@pytest.fixture
def user(operated: RealCluster) -> Iterator[User]:
    with inside(operated, f"team-{next(_NUMBERS)}") as somebody:
        yield somebody
