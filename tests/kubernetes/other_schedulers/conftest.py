"""A control plane with kube-scheduler's own gangs, Kueue and the controller of JobSets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from planes.fixtures import serve

from windlass.controlplane import kueue
from windlass.controlplane.cluster import ControlPlane, Settings

from .kueue_queues import with_kueue

GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"


@pytest.fixture(scope="session")
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Skips without the programs of Kueue, which `make test` does not build."""
    if lacking := kueue.lacking():
        pytest.skip(lacking)
    flags = (GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true")
    settings = Settings(controllers=True, node_grace=600, apiserver_flags=flags, scheduler_flags=(GATES,))
    for plane in serve(request, settings):
        with with_kueue(plane):
            yield plane
