"""Evidence of a job on a cluster, with the rights of the user: logs, states of pods and containers, events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.api_errors import ApiError as Refusal
from windlass.backends.kubernetes.client.pod_events import REPORTER
from windlass.backends.kubernetes.client.pod_log import read_log_end, read_log_start
from windlass.cli.kubernetes.api_session import REQUEST_TIMEOUT_S
from windlass.cli.kubernetes.client import ClusterClient
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.cli.kubernetes.pod_ranks import PodRank, ranks_of_pods
from windlass.server.diagnosis.evidence_request import MAX_EXCERPT_BYTES, EvidenceRequest, LoggedText
from windlass.server.diagnosis.job_record import record_texts
from windlass.server.errors import ApiError

Json = Mapping[str, Any]

_AT_ONCE = 16
_MAX_LOG_BYTES, _MIN_LOG_BYTES = 2 << 20, 16 << 10
_BYTES_PER_LINE = 100
"""Estimate by which a number of lines follows from a number of bytes: the API counts the end of a log in lines."""
_MAX_EVENTS = 2_000


def cluster_job_evidence(cluster: ClusterClient, details: Json, attempt: int) -> EvidenceRequest:
    """Returns the evidence of one attempt of a job. Raises ApiError."""
    texts, unseen, ranks = record_texts(details, attempt), [], None
    for job in cluster.finder.find(details["id"]):
        pods = cluster.finder.pods(job)
        here = [(pod, rank) for pod, rank in _with_ranks(job, pods) if rank.generation == attempt]
        is_rank_per_pod = all(role.procs == 1 for role in job.state().job.roles)
        ranks = len(here) if here and is_rank_per_pod else None
        for pod, rank in here:
            texts += _state_texts(pod, rank)
        logs, gaps = cluster.session.run(_read_logs(cluster, here, with_rank=is_rank_per_pod))
        texts += logs
        events, missing = _event_texts(cluster, job, pods)
        texts, unseen = texts + events, [*gaps, *missing]
    texts += _recorded_logs(cluster, details["id"], attempt, {text.name for text in texts})
    return EvidenceRequest(attempt=attempt, texts=texts, expected_ranks=ranks, unseen=unseen)


def _with_ranks(job: JobObject, pods: Sequence[Json]) -> Iterator[tuple[Json, PodRank]]:
    by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
    return ((by_uid[rank.uid], rank) for rank in ranks_of_pods(job, pods))


# --- pods and their containers ---------------------------------------------------------------------------


def _state_texts(pod: Json, rank: PodRank) -> Iterator[LoggedText]:
    """Yields the state of a pod: its reason, conditions that are false, and the ends and waits of its containers."""
    status = pod.get("status") or {}
    lines = [f"Status: {status['phase']}, Reason: {status['reason']}"] if status.get("reason") else []
    lines += [str(status["message"])] if status.get("message") else []
    for each in status.get("conditions") or ():
        if each.get("message") and (each.get("status") == "False" or each.get("type") == "DisruptionTarget"):
            lines.append(f"{each.get('reason', '')}: {each['message']}")
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(field) or ():
            lines += _container_lines(container)
    if lines:
        yield LoggedText(f"state of pod {rank.name}", "\n".join(lines) + "\n", None, rank.node or None)


def _container_lines(container: Json) -> Iterator[str]:
    name = container.get("name", "")
    for state in (container.get("lastState") or {}, container.get("state") or {}):
        ended, waits = state.get("terminated"), state.get("waiting")
        if ended and (ended.get("exitCode") or ended.get("reason") not in ("Completed", "", None)):
            yield f"container {name} terminated: {ended.get('reason') or 'Error'}, exit code {ended.get('exitCode')}"
            if ended.get("message"):
                yield str(ended["message"])
        if waits and waits.get("reason") not in ("ContainerCreating", "PodInitializing", None):
            yield f"container {name} waiting: {waits['reason']}: {waits.get('message') or ''}"


# --- logs ------------------------------------------------------------------------------------------------


async def _read_logs(
    cluster: ClusterClient, pods: Sequence[tuple[Json, PodRank]], *, with_rank: bool
) -> tuple[list[LoggedText], list[str]]:
    """Returns the logs of pods, those before a container's restart included, and what cannot be read."""
    size = max(_MIN_LOG_BYTES, min(_MAX_LOG_BYTES, MAX_EXCERPT_BYTES // max(1, len(pods))))
    room = asyncio.Semaphore(_AT_ONCE)

    async def read(rank: PodRank, container: str, *, previous: bool) -> LoggedText | str:
        params = {"container": container, "timestamps": "true"} | ({"previous": "true"} if previous else {})
        try:
            async with room:
                text, is_whole = await _read_both_ends(cluster, rank, params, size)
        except (Refusal, BackendError) as error:
            return f"log of pod {rank.name}: {error}"
        name = f"pod {rank.name} {container}{' before its restart' if previous else ''}"
        rank_of_log = rank.rank if with_rank else None
        return LoggedText(name, text, rank_of_log, rank.node or None, is_whole)

    reads = [read(rank, name, previous=previous) for pod, rank in pods for name, previous in _logs_of(pod, rank)]
    answers = await asyncio.gather(*reads)
    logs = [each for each in answers if isinstance(each, LoggedText)]
    cut = [f"{each.name}: the lines between its first and its last ones" for each in logs if not each.is_complete]
    return logs, [*(each for each in answers if isinstance(each, str)), *cut]


async def _read_both_ends(
    cluster: ClusterClient, rank: PodRank, params: Mapping[str, str], size: int
) -> tuple[str, bool]:
    """Returns the end of a log, with its start if it is longer than `size`, and whether that is all of it."""
    where, lines = (cluster.session.connection, rank.namespace, rank.name), size // _BYTES_PER_LINE
    end = await read_log_end(*where, {**params, "tailLines": str(lines)}, size, REQUEST_TIMEOUT_S)
    text = end.decode(errors="replace")
    if len(end) < size and end.count(b"\n") < lines:
        return text, True
    start = await read_log_start(*where, params, size // 2, REQUEST_TIMEOUT_S)
    return start.joined(text), start.is_all


def _logs_of(pod: Json, rank: PodRank) -> Iterator[tuple[str, bool]]:
    """Yields container and whether its previous log: the main container, and every other one that has failed."""
    status = pod.get("status") or {}
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        ended = (each.get("state") or {}).get("terminated") or {}
        has_log = ended or (each.get("state") or {}).get("running")
        if has_log and (each.get("name") == rank.container or ended.get("exitCode")):
            yield str(each["name"]), False
        if each.get("restartCount"):
            yield str(each["name"]), True


def _recorded_logs(cluster: ClusterClient, job_id: str, attempt: int, known: Collection[str]) -> Iterator[LoggedText]:
    """Yields the recorded log ends of deleted pods; none where the operator does not answer."""
    try:
        logs = cluster.stored_logs(job_id)
    except ApiError:
        return
    for log in logs:
        is_read = any(name.startswith(f"pod {log['pod']} ") for name in known)
        if log["generation"] == attempt and log["text"] and not is_read:
            yield LoggedText(f"recorded log of pod {log['pod']}", log["text"], None, log["node"], is_complete=False)


# --- events ----------------------------------------------------------------------------------------------


def _event_texts(cluster: ClusterClient, job: JobObject, pods: Sequence[Json]) -> tuple[list[LoggedText], list[str]]:
    """Returns the warnings about the job and its pods, or why they cannot be listed.

    Events that Windlass writes are left out: they repeat the record of the job, and the verdicts on it.
    """
    uids = {job.manifest["metadata"]["uid"], *(pod["metadata"]["uid"] for pod in pods)}
    where = f"/api/v1/namespaces/{job.namespace}/events"
    params = {"fieldSelector": "type=Warning", "limit": str(_MAX_EVENTS)}
    try:
        listed = json.loads(cluster.session.run(cluster.session.connection.request("GET", where, params=params)))
    except ApiError as error:
        return [], [f"events of namespace {job.namespace}: {error.message}"]
    found = [each for each in listed.get("items") or () if (each.get("involvedObject") or {}).get("uid") in uids]
    lines = [_event_line(each) for each in found if not _is_own(each)]
    return ([LoggedText(f"events of {job.id}", "\n".join(lines) + "\n")] if lines else []), []


def _is_own(event: Json) -> bool:
    return REPORTER in (event.get("reportingComponent"), (event.get("source") or {}).get("component"))


def _event_line(event: Json) -> str:
    at = event.get("lastTimestamp") or event.get("eventTime") or ""
    return f"{at} {event.get('type')} {event.get('reason')} {event.get('message')}".strip()
