"""Check of an installation: API server, kinds, permissions, operator, leader, other operators, nodes, queues."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from time import time
from typing import Any

from windlass import __version__
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection, find_object, list_if_served
from windlass.backends.kubernetes.client.resources import (
    API_SERVICES,
    DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    NODES,
)
from windlass.backends.kubernetes.client.reviews import review_self
from windlass.backends.kubernetes.cluster.admission_guard import read_guard
from windlass.backends.kubernetes.cluster.cluster_settings import read_settings
from windlass.backends.kubernetes.cluster.cluster_state import POLICIES, QUEUES, RESERVATIONS
from windlass.backends.kubernetes.cluster.other_operators import DEADLINE_S, OtherOperator, RivalSearch
from windlass.deploy.crds import definitions
from windlass.deploy.install.findings import Finding, failure, ok, warning
from windlass.deploy.install.permission_check import check_permissions
from windlass.deploy.install.readiness import NO_REASON, condition_of, describe_pods, is_ready
from windlass.deploy.install.resources import resource_of
from windlass.deploy.install.runtime_check import check_runtimes
from windlass.deploy.install.scheduler_check import check_schedulers
from windlass.deploy.install.webhook_check import check_webhooks
from windlass.deploy.labels import VERSION, is_ours
from windlass.deploy.pod_policy import POD_POLICY, pod_policies
from windlass.jobs.kubernetes.job_admission import POLICY, is_same_spec
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.operator_names import NAMESPACE, OPERATOR
from windlass.jobs.kubernetes.pods.pod_requests import core_name
from windlass.jobs.kubernetes.query_api import API_SERVICE
from windlass.jobs.kubernetes.status.status_times import milliseconds

_OLDEST = (1, 30)
"""First version whose API server has CEL with all functions that the rules use, and ValidatingAdmissionPolicies."""
_MAX_SKEW_S = 5.0
"""Maximum difference of two clocks, in seconds; leases last three times as long."""
_QUERIES = "queries"
_NAMED_NODES = 5
"""Maximum number of nodes that a finding names."""

Check = Callable[[Connection, str], Awaitable[list[Finding]]]


async def check_installation(connection: Connection, namespace: str, *, whole: bool = False) -> list[Finding]:
    """Findings in the order in which the parts depend on each other. Raises Unreachable.

    If nothing is installed, that is one finding; with `whole` there is a finding for each missing part.
    """
    # 1. The API server, on which all other checks depend.
    server = await _server(connection)
    # 2. The installed parts, their permissions and their state.
    parts: Sequence[Check] = (
        _kinds,
        check_permissions,
        _admission,
        _deployment,
        _leader,
        _queries,
        _declared,
        check_runtimes,
        check_schedulers,
    )
    if not whole and await _is_bare(connection, namespace):
        parts = (_nothing,)
    checks = (_clock, *parts, _others, check_webhooks, _nodes)
    results = await asyncio.gather(*(run_check(check, connection, namespace) for check in checks))
    return [*server, *(finding for findings in results for finding in findings)]


async def run_check(check: Check, connection: Connection, namespace: str) -> list[Finding]:
    """Findings of one check; an error of the API server becomes a finding."""
    try:
        return await check(connection, namespace)
    except ApiError as error:
        about = check.__name__.strip("_").replace("findings_of_", "")
        return [warning(about, f"could not be checked: {error}", "check as a user with the permission")]


async def _server(connection: Connection) -> list[Finding]:
    version = json.loads(await connection.request("GET", "/version"))
    message = f"{connection.access.server} runs Kubernetes {version['gitVersion']}"
    numbers = tuple(int("".join(filter(str.isdigit, version[part])) or 0) for part in ("major", "minor"))
    if numbers < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        return [
            failure("API server", message, f"upgrade it: {oldest} is the first that evaluates the admission policies")
        ]
    return [ok("API server", message)]


async def _clock(connection: Connection, _namespace: str) -> list[Finding]:
    """Compares this clock with the creation time that the API server writes, in whole seconds."""
    before = time()
    there = datetime.fromisoformat((await review_self(connection)).created).timestamp()
    apart = max(before - there - 1, there - time(), 0.0)
    if apart > _MAX_SKEW_S:
        return [
            warning("clock", f"this machine's clock and the API server's are {apart:.0f} s apart", "set both by NTP")
        ]
    return [ok("clock", "this machine's and the API server's agree")]


async def _is_bare(connection: Connection, namespace: str) -> bool:
    """Whether the cluster contains nothing of Windlass; False if that cannot be read."""
    try:
        there = {each["metadata"]["name"]: each for each in await connection.list(DEFINITIONS)}
        deployment = await find_object(connection, DEPLOYMENTS, namespace, OPERATOR)
    except ApiError:
        return False
    return deployment is None and not any(is_ours(there[each.name]) for each in definitions() if each.name in there)


async def _nothing(_connection: Connection, namespace: str) -> list[Finding]:
    message = f"is not installed here: neither its kinds nor an operator in {namespace} (-v lists all missing parts)"
    where = "" if namespace == NAMESPACE else f" -n {namespace}"
    return [failure("Windlass", message, f"windlass operator install{where}")]


async def _kinds(connection: Connection, _namespace: str) -> list[Finding]:
    there = {each["metadata"]["name"]: each for each in await connection.list(DEFINITIONS)}
    results = [_kind(each.name, [v.name for v in each.versions], there.get(each.name)) for each in definitions()]
    troubled = [each for each in results if each is not None]
    if troubled:
        return troubled
    return [ok("kinds", f"all {len(results)} are served, and of release {__version__}")]


def _kind(name: str, versions: Iterable[str], there: Manifest | None) -> Finding | None:
    if there is None:
        return failure("kinds", f"{name} is not defined", "windlass operator install")
    if condition_of(there, "Established").get("status") != "True":
        return failure("kinds", f"{name} is not served", f"kubectl describe crd {name}")
    served = {each["name"] for each in there["spec"]["versions"] if each["served"]}
    foreign, take_over = not is_ours(there), "windlass operator install --take-over"
    if missing := set(versions) - served:
        fix = f"{take_over}, once that operator is gone" if foreign else "windlass operator install"
        by = " and is of another operator" if foreign else ""
        return warning("kinds", f"{name} lacks {' and '.join(sorted(missing))}{by}", fix)
    if foreign:
        fix = f"none while that operator runs its jobs; then {take_over}"
        return warning("kinds", f"{name} is of another operator and has its rules", fix)
    release = there["metadata"]["labels"].get(VERSION)
    if release != __version__:
        return warning("kinds", f"{name} is of release {release}, not {__version__}", "windlass operator install")
    return None


async def _admission(connection: Connection, _namespace: str) -> list[Finding]:
    guard = await read_guard(connection)
    if guard.since is None:
        message = f"the ValidatingAdmissionPolicy {POLICY} {guard.fault}: all jobs of a namespace count as one user's"
        return [warning("admission", message, "windlass operator install")]
    for expected in pod_policies():
        found = await find_object(connection, resource_of(expected), None, POD_POLICY)
        if not is_same_spec((found or {}).get("spec") or {}, expected["spec"]):
            message = f"the {expected['kind']} {POD_POLICY} is missing or differs: pods of others may name any queue"
            return [warning("admission", f"{message} that is open to their namespace", "windlass operator install")]
    return [ok("admission", f"the policies {POLICY} and {POD_POLICY} guard the users of jobs, and the use of queues")]


async def _deployment(connection: Connection, namespace: str) -> list[Finding]:
    deployment = await find_object(connection, DEPLOYMENTS, namespace, OPERATOR)
    if deployment is None:
        return [failure("operator", f"is not deployed in {namespace}", "windlass operator install")]
    replicas = deployment["spec"]["replicas"]
    ready = deployment.get("status", {}).get("readyReplicas", 0)
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    message = f"{ready} of {replicas} replicas of {image} are ready"
    if not is_ready(deployment):
        why = await describe_pods(connection, namespace)
        return [
            (failure if ready == 0 else warning)("operator", f"{message}: {why}", f"kubectl -n {namespace} get pods")
        ]
    if replicas < 2:
        return [warning("operator", message, "a second replica would take over when this one is lost")]
    return [ok("operator", message)]


async def _leader(connection: Connection, namespace: str) -> list[Finding]:
    lease = await find_object(connection, LEASES, namespace, OPERATOR)
    holder = (lease or {}).get("spec", {}).get("holderIdentity")
    if lease is None or not holder:
        return [failure("leader", "there is no leader", f"kubectl -n {namespace} logs deployment/{OPERATOR}")]
    age, lasts = _age(lease, time()), lease["spec"]["leaseDurationSeconds"]
    if age > lasts + _MAX_SKEW_S:
        message = f"{holder} has not renewed its lease for {age:.0f} s"
        return [failure("leader", message, f"kubectl -n {namespace} logs deployment/{OPERATOR}")]
    return [ok("leader", f"{holder} leads, renewed {max(age, 0):.0f} s ago")]


def _age(lease: Manifest, now: float) -> float:
    """Seconds since a lease was renewed; infinite if it never was."""
    at = milliseconds(lease["spec"].get("renewTime"))
    return float("inf") if at is None else now - at / 1000


async def _queries(connection: Connection, _namespace: str) -> list[Finding]:
    """While the API server cannot reach the API of the queries, it ends no namespace of the cluster."""
    service = await find_object(connection, API_SERVICES, None, API_SERVICE)
    if service is None:
        return [failure(_QUERIES, f"{API_SERVICE} is not registered", "windlass operator install")]
    available = condition_of(service, "Available")
    if available.get("status") == "True":
        return [ok(_QUERIES, f"{API_SERVICE} is available")]
    why = available.get("message") or NO_REASON
    message = f"{API_SERVICE} is not available, and no namespace can be deleted meanwhile: {why}"
    return [failure(_QUERIES, message, f"let the operator lead, or kubectl delete apiservice {API_SERVICE}")]


async def _others(connection: Connection, _namespace: str) -> list[Finding]:
    found = await RivalSearch(connection).run()
    about = "other operators"
    findings = [_rival(about, each) for each in found.operators]
    if found.unknown:
        message = (
            f"the search for them did not end in {DEADLINE_S:.0f} s: one may serve {', '.join(sorted(found.unknown))}, "
            "and a replica that has just started holds new jobs of these kinds until its own search ends"
        )
        findings.append(warning(about, message, "check again when the API server has less to do"))
    return findings or [ok(about, "no other operator or batch scheduler was found")]


def _rival(about: str, rival: OtherOperator) -> Finding:
    if not rival.serves:
        return warning(about, f"{rival} runs beside Windlass", "none, if every pod names its scheduler")
    message = f"{rival} serves {', '.join(rival.serves)} as well: both would create a job's pods"
    return failure(about, message, "scale it to 0")


async def _nodes(connection: Connection, _namespace: str) -> list[Finding]:
    nodes = await connection.list(NODES)
    gpus = sum(_gpus(node) for node in nodes)
    message = f"{len(nodes)} nodes with {gpus} GPUs"
    if not nodes:
        return [failure("nodes", "there are none", "join one to the cluster")]
    if silent := [node["metadata"]["name"] for node in nodes if condition_of(node, "Ready").get("status") != "True"]:
        names = ", ".join(silent[:_NAMED_NODES]) + (", ..." if len(silent) > _NAMED_NODES else "")
        lacking = f"{message}; {len(silent)} of them not ready and without new pods: {names}"
        report = failure if len(silent) == len(nodes) else warning
        return [report("nodes", lacking, f"kubectl describe node {silent[0]}")]
    if not gpus:
        return [warning("nodes", message, "install the device plugin of their GPUs, if they have any")]
    return [ok("nodes", message)]


def _gpus(node: Manifest) -> int:
    allocatable: dict[str, Any] = node.get("status", {}).get("allocatable", {})
    return sum(int(count) for name, count in allocatable.items() if core_name(name) == "gpu")


async def _declared(connection: Connection, _namespace: str) -> list[Finding]:
    """Checks queues, the policy and reservations as the scheduler reads them. Another check reports missing kinds."""
    queues, policies, reservations, nodes = await asyncio.gather(
        *(list_if_served(connection, kind) for kind in (QUEUES, POLICIES, RESERVATIONS, NODES))
    )
    read = read_settings(queues, policies, reservations, [node["metadata"]["name"] for node in nodes])
    names = ", ".join(queue.name for queue in read.queues)
    faults = [
        failure("queues", f"{key.kind} {key.name}: {fault}", f"kubectl edit {key.kind.lower()} {key.name}")
        for key, fault in sorted(read.faults.items())
    ]
    return faults or [ok("queues", f"{names}; {len(reservations)} reservations")]
