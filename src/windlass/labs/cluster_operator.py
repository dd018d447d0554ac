"""The operator on the cluster of the workshop: `python -m windlass.labs.cluster_operator FOLDER`.

It installs Windlass in the cluster of the folder, then becomes `windlass operator run` with the rights of an installed
operator. The objects that stand for a running operator in pods are left out, because this process is the operator.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from windlass.backends.kubernetes.client.access import from_kubeconfig
from windlass.backends.kubernetes.client.connection import Connection
from windlass.controlplane import kubeconfig
from windlass.controlplane.api import Api
from windlass.controlplane.cluster import account_access
from windlass.controlplane.cluster_folder import ClusterError, ClusterFolder, Running, read_facts
from windlass.controlplane.images import OPERATOR as IMAGE
from windlass.controlplane.processes import free_port
from windlass.deploy.install.installer import apply
from windlass.deploy.install.readiness import wait_until_admitted
from windlass.deploy.install.resources import job_kinds
from windlass.deploy.installation import installation_objects
from windlass.deploy.operator import Setup
from windlass.jobs.kubernetes import query_api
from windlass.jobs.kubernetes.operator_names import NAMESPACE

PROGRAM = (sys.executable, "-c", "import sys; from windlass.cli.entry import main; sys.exit(main())")
_LOOPBACK = "127.0.0.1"
_ACCOUNT = "windlass-operator"
_TOKEN_S = 30 * 24 * 3600
"""Seconds for which the operator's token is valid: as long as the certificates of the cluster."""
_PROCESS = ("Deployment", "PodDisruptionBudget", "Service")
"""Kinds of an installation that stand for the operator in pods."""


def main(root: Path) -> None:
    """Installs Windlass and becomes its operator."""
    folder = ClusterFolder(root)
    running = read_facts(folder)
    if running is None:
        raise ClusterError(f"there is no cluster in {root}")
    queries_port = free_port()
    asyncio.run(install(folder, running, queries_port))
    command = operator_command(folder, running, queries_port)
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


async def install(folder: ClusterFolder, running: Running, queries_port: int) -> None:
    """Applies the objects of an installation, and writes the kubeconfig of the operator's account."""
    objects = [each for each in installation_objects(Setup(IMAGE, replicas=1)) if each["kind"] not in _PROCESS]
    if not running.real:
        api_service = next(each for each in objects if each["kind"] == "APIService")
        api_service["spec"]["service"]["port"] = queries_port
    admin = kubeconfig.read(folder.kubeconfig)
    async with Connection(from_kubeconfig(str(folder.kubeconfig))) as connection:
        async for _ in apply(connection, objects):
            pass
        await wait_until_admitted(connection, NAMESPACE, job_kinds(objects))
    async with Api(admin) as api:
        for place, made in query_objects(running, queries_port):
            await api.patch(place, made, "apply", fieldManager="windlass-labs", force="true")
    kubeconfig.write(_operator_kubeconfig(folder), await account_access(admin, NAMESPACE, _ACCOUNT, _TOKEN_S))


def query_objects(running: Running, port: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Objects with their paths by which the API server finds the operator's port of queries.

    An API server beside real nodes connects to the addresses behind a Service, and these may not be loopback ones. One
    beside fake nodes connects to the external name of a Service, at the port that the APIService names.
    """
    about = {"name": query_api.SERVICE, "namespace": NAMESPACE}
    ports = [{"name": "queries", "port": query_api.PORT, "targetPort": port}]
    external: dict[str, object] = {"type": "ExternalName", "externalName": _LOOPBACK}
    spec: dict[str, object] = {"ports": ports} if running.real else external
    service: dict[str, object] = {"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": spec}
    yield f"/api/v1/namespaces/{NAMESPACE}/services/{query_api.SERVICE}", service
    if running.real:
        labels = {"kubernetes.io/service-name": query_api.SERVICE}
        kind = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
        behind = {"endpoints": [{"addresses": [running.host_address]}], "ports": [{"name": "queries", "port": port}]}
        place = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{query_api.SERVICE}"
        yield place, {**kind, "metadata": {**about, "labels": labels}, **behind}


def operator_command(folder: ClusterFolder, running: Running, queries_port: int) -> list[str]:
    """The command line of the operator: the API server reaches its queries, and agents of real nodes reach it."""
    options = [
        "--kubeconfig",
        str(_operator_kubeconfig(folder)),
        "--history",
        f"sqlite:///{folder.servers}/history.sqlite",  # it ends with the cluster
    ]
    options += ["--metrics-host", running.host_address or _LOOPBACK, "--metrics-port", "0"]
    options += ["--queries-port", str(queries_port), "--agent-image", IMAGE]
    agents_port = free_port() if running.real else 0
    if running.real:
        options += ["--agents-address", f"{running.host_address}:{agents_port}"]
    return [*PROGRAM, "operator", "run", *options, "--agents-port", str(agents_port)]


def _operator_kubeconfig(folder: ClusterFolder) -> Path:
    return folder.root / "operator.kubeconfig"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
