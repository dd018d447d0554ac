"""One cluster for each module of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubeflow_clients.user_cluster import UserCluster, user_cluster
from windlass.controlplane.cluster import ControlPlane


@pytest.fixture(scope="module")
def cluster(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserCluster]:
    with user_cluster(apiserver, tmp_path_factory.mktemp("history")) as found:
        yield found
