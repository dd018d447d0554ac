"""A real Slurm of two nodes, shared by the tests of a module."""

from collections.abc import Callable, Iterator

import pytest
from slurm_cluster import SlurmCluster, slurm_cluster

from windlass.cli.entry import main


@pytest.fixture(scope="module")
def running_slurm() -> Iterator[SlurmCluster]:
    with slurm_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def accounted_slurm() -> Iterator[SlurmCluster]:
    """A Slurm with accounting, whose controller forgets ended jobs after seconds."""
    with slurm_cluster(accounting=True) as cluster:
        yield cluster


@pytest.fixture
def windlass(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs a command line and returns its exit code and output."""

    def windlass(*words: str) -> tuple[int, str]:
        code = main([*words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return windlass


@pytest.fixture
def slurm(running_slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """A Slurm without jobs, which commands of the test find by SLURM_CONF."""
    monkeypatch.setenv("SLURM_CONF", running_slurm.environment["SLURM_CONF"])
    yield running_slurm
    running_slurm.cancel_all()
