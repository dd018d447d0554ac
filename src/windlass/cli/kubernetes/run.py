"""The verbs `run` and `submit` on a cluster: create the objects, print warnings about them, follow the jobs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_follower import JobFollower
from windlass.cli.job_submission import current_folder
from windlass.cli.kubernetes.client import ClusterClient
from windlass.cli.kubernetes.pod_logs import PodLogs
from windlass.cli.kubernetes.schedules import schedule_creation
from windlass.cli.kubernetes.submission import (
    SubmitObjects,
    SubmitRequest,
    build_objects,
    objects_of_jobs,
    ship_code,
)
from windlass.cli.kubernetes.submit_warnings import check_prospects, missing_object_warnings
from windlass.cli.terminal.interrupts import Interrupts
from windlass.cli.terminal.screen import Screen
from windlass.jobs.description.submission import Submission
from windlass.server.errors import ApiError


class ClusterTarget:
    """A cluster as the target of `JobFollower`."""

    lost = "the cluster does not answer; {} keeps running there"

    def __init__(self, cluster: ClusterClient, option: str) -> None:
        self._cluster = cluster
        self.option = option

    def connect(self, on_error: Callable[[str], None], *, succeeded: bool = False) -> ClusterClient:  # noqa: ARG002
        """Returns the client; it has no controller to find or to become."""
        return self._cluster

    def find(self) -> ClusterClient | None:
        """Returns the client if the API server answers."""
        try:
            self._cluster.ping_api_server()
        except ApiError:
            return None
        return self._cluster

    def warnings(self, ids: Sequence[str]) -> list[str]:
        """Returns a warning for each job that fits no state of this cluster. A refused job reports that as its end."""
        return [f"warning: {text}" for text in check_prospects(self._cluster, ids).unplaceable]

    def log_source(self, job_id: str) -> PodLogs:
        """Returns the output of a job's pods."""
        return PodLogs(self._cluster.session, self._cluster.finder.get(job_id)[0])

    def log_location(self, job_id: str) -> str:  # noqa: ARG002 - the protocol's signature
        """Returns "": the logs are not on this machine."""
        return ""


def run_on_cluster(context: str, namespace: str, request: SubmitRequest, *, detach: bool, no_color: bool) -> int:
    """Creates the jobs of a command line and follows them to their end. Returns the exit code."""
    cluster = ClusterClient.at(context, namespace)
    objects = prepare_objects(cluster, request, namespace)
    if detach:
        ids, code = _submit(cluster, objects)
        print(*ids, sep="\n")
        return code
    screen = Screen(no_color=no_color)
    with Interrupts() as interrupts, contextlib.closing(screen):
        follower = JobFollower(ClusterTarget(cluster, target_option(context)), screen)
        with contextlib.closing(follower):
            follower.submit(objects.manifests)
            return follower.follow(interrupts)


def submit_to_cluster(context: str, namespace: str, request: SubmitRequest) -> tuple[list[str], int]:
    """Creates the jobs of a command line. Returns their ids and the exit code, REFUSED if one can never run."""
    cluster = ClusterClient.at(context, namespace)
    objects = prepare_objects(cluster, replace(request, schedules=True), namespace)
    if any(each["kind"] in schedule_creation.KINDS for each in objects.manifests):
        return schedule_creation.create_schedules(cluster.session, objects.manifests), ExitCode.OK
    return _submit(cluster, objects)


def submit_read_jobs(context: str, namespace: str, jobs: Sequence[Submission]) -> tuple[list[str], int]:
    """Creates jobs that another file describes, with the current folder as theirs. Returns as `submit_to_cluster`."""
    cluster = ClusterClient.at(context, namespace)
    with_images, code = ship_code(jobs, "", Path(current_folder()))
    objects = objects_of_jobs(with_images, code, cluster.finder)
    _print_remarks(cluster, objects)
    return _submit(cluster, objects)


def _submit(cluster: ClusterClient, objects: SubmitObjects) -> tuple[list[str], int]:
    """Creates the objects and warns of jobs that can never run. Returns the jobs' ids and the exit code."""
    ids = cluster.submit(objects.manifests)
    prospects = check_prospects(cluster, ids)
    for text in (*prospects.refused, *prospects.unplaceable):
        print(f"warning: {text}", file=sys.stderr)
    return ids, ExitCode.REFUSED if prospects.refused else ExitCode.OK


def prepare_objects(cluster: ClusterClient, request: SubmitRequest, namespace: str = "") -> SubmitObjects:
    """Returns the objects of a command line and prints warnings about them on stderr. Raises UsageError.

    `namespace`: that of the command line, "" if it names none.
    """
    objects = build_objects(request, cluster.finder)
    cluster.strict = objects.strict
    for metadata in (each["metadata"] for each in objects.manifests):
        if namespace and metadata["namespace"] != namespace:
            raise UsageError(
                f"the manifest of {metadata['name']} names the namespace {metadata['namespace']}, the command line "
                f"names {namespace}\nremove one of them"
            )
    _print_remarks(cluster, objects)
    return objects


def _print_remarks(cluster: ClusterClient, objects: SubmitObjects) -> None:
    for note in objects.notes:
        print(f"windlass: {note}", file=sys.stderr)
    for text in (*objects.warnings, *missing_object_warnings(cluster, objects.manifests)):
        print(f"warning: {text}", file=sys.stderr)


def target_option(context: str) -> str:
    """Returns the --on option of this cluster for other verbs, "" if it is the default by environment or config."""
    from windlass.cli.config_file import configured  # noqa: PLC0415 - rarely needed

    default = os.environ.get("WINDLASS_ON") or configured().on
    target = context or "kubernetes"
    return "" if default == target else f" --on {target}"
