"""Findings of an installation check that depend on the search for other operators."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass.backends.kubernetes.cluster import other_operators
from windlass.deploy.install import installation_check
from windlass.deploy.install.findings import Severity


class Api:
    """An API server with the deployment of an MPI operator, which answers no access review."""

    async def list(self, _resource: object) -> list[dict[str, Any]]:
        pod = {"containers": [{"name": "manager", "image": "mpioperator/mpi-operator:0.8.0"}]}
        about = {"namespace": "kubeflow", "name": "mpi-operator"}
        return [{"metadata": about, "spec": {"replicas": 1, "template": {"spec": pod}}}]

    async def request(self, *_: object, **__: object) -> bytes:
        await asyncio.Event().wait()
        return b""


def test_a_search_for_other_operators_that_does_not_end_is_a_warning_with_its_meaning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(other_operators, "DEADLINE_S", 0.01)
    api: Any = Api()
    (finding,) = asyncio.run(installation_check._others(api, "windlass"))
    assert (finding.about, finding.severity) == ("other operators", Severity.WARNING)
    assert finding.message == (
        "the search for them did not end in 10 s: one may serve MPIJob, and a replica that has just started holds "
        "new jobs of these kinds until its own search ends"
    )
    assert finding.fix == "check again when the API server has less to do"
