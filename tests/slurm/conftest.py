"""A real Slurm of two nodes, shared by the tests of a module."""

from collections.abc import Iterator

import pytest
from slurm_cluster import SlurmCluster, slurm_cluster


@pytest.fixture(scope="module")
def running_slurm() -> Iterator[SlurmCluster]:
    with slurm_cluster() as cluster:
        yield cluster


@pytest.fixture
def slurm(running_slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """A Slurm without jobs, which commands of the test find by SLURM_CONF."""
    monkeypatch.setenv("SLURM_CONF", running_slurm.environment["SLURM_CONF"])
    yield running_slurm
    running_slurm.cancel_all()
