"""A control plane of its own, with every kind that Windlass takes: its servers are killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from controlplane.cluster import ControlPlane, Settings
from controlplane.fixtures import serve
from external.conftest import NATIVE, define

SETTINGS = Settings(controllers=True, node_grace=600, eviction_after=300, apiserver_flags=NATIVE)
"""Nodes are marked by the fault alone, and pods tolerate an unreachable node for as long as Kubernetes lets them."""


@pytest.fixture(scope="session")
def campaign_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    for plane in serve(request, SETTINGS):
        asyncio.run(define(plane))
        yield plane
