"""`run` and `submit` on a cluster: the objects are made, and what can be told of them at once is told."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_follower import JobFollower
from windlass.cli.kubernetes.client import ClusterClient
from windlass.cli.kubernetes.pod_logs import PodLogs
from windlass.cli.kubernetes.submission import SubmitObjects, SubmitRequest, build_objects
from windlass.cli.kubernetes.submit_warnings import check_prospects, missing_object_warnings
from windlass.cli.terminal.interrupts import Interrupts
from windlass.cli.terminal.screen import Screen
from windlass.server.errors import ApiError


class ClusterTarget:
    """A cluster, for `Attendance`."""

    lost = "the cluster does not answer; {} goes on there"

    def __init__(self, cluster: ClusterClient, option: str) -> None:
        self._cluster = cluster
        self.option = option

    def reach(self, _hear: Callable[[str], None], *, succeeded: bool = False) -> ClusterClient:  # noqa: ARG002 - none is needed
        """The cluster: nobody has to be found or to become anything."""
        return self._cluster

    def find(self) -> ClusterClient | None:
        """The same, if it answers."""
        try:
            self._cluster.knock()
        except ApiError:
            return None
        return self._cluster

    def told(self, ids: Sequence[str]) -> list[str]:
        """What waits for a larger cluster. What is refused tells so itself, as it ends."""
        return [f"warning: {said}" for said in check_prospects(self._cluster, ids).doubtful]

    def lines(self, job_id: str) -> PodLogs:
        """What a job's pods print."""
        return PodLogs(self._cluster.reach, self._cluster.finder.the(job_id)[0])

    def logs(self, _job_id: str) -> str:
        """Nowhere on this machine."""
        return ""


def run_on_cluster(context: str, namespace: str, given: SubmitRequest, *, detach: bool, no_color: bool) -> int:
    """Make the jobs of a command line, and follow them to their end. Returns the exit code."""
    cluster = ClusterClient.at(context, namespace)
    made = prepare_objects(cluster, given, namespace)
    if detach:
        ids, code = _submitted(cluster, made)
        print(*ids, sep="\n")
        return code
    screen = Screen(no_color=no_color)
    with Interrupts() as interrupts, contextlib.closing(screen):
        attendance = JobFollower(ClusterTarget(cluster, target_option(context)), screen)
        with contextlib.closing(attendance):
            return attendance.run(made.manifests, interrupts)


def submit_to_cluster(context: str, namespace: str, given: SubmitRequest) -> tuple[list[str], int]:
    """Make the jobs of a command line. Returns their ids, and the exit code: what can never run is told at once."""
    cluster = ClusterClient.at(context, namespace)
    return _submitted(cluster, prepare_objects(cluster, given, namespace))


def _submitted(cluster: ClusterClient, made: SubmitObjects) -> tuple[list[str], int]:
    """The jobs' ids. What can never run is told on stderr; what has ended for it makes the exit code."""
    ids = cluster.submit(made.manifests)
    found = check_prospects(cluster, ids)
    for said in (*found.refused, *found.doubtful):
        print(f"warning: {said}", file=sys.stderr)
    return ids, ExitCode.REFUSED if found.refused else ExitCode.OK


def prepare_objects(cluster: ClusterClient, given: SubmitRequest, namespace: str = "") -> SubmitObjects:
    """The objects of a command line; what is to be told of them is told on stderr. Raises UsageError.

    `namespace`: the one that the command line says, "" if it says none.
    """
    made = build_objects(given, cluster.finder)
    cluster.strict = made.strict
    for about in (each["metadata"] for each in made.manifests):
        if namespace and about["namespace"] != namespace:
            raise UsageError(
                f"{about['name']} is in namespace {about['namespace']} by its manifest, and the command line says "
                f"{namespace}\nleave one of them out"
            )
    for note in made.notes:
        print(f"windlass: {note}", file=sys.stderr)
    for said in (*made.warnings, *missing_object_warnings(cluster, made.manifests)):
        print(f"warning: {said}", file=sys.stderr)
    return made


def target_option(context: str) -> str:
    """What verbs need to look here again, where neither the environment nor the config file says it."""
    from windlass.cli.config_file import configured  # noqa: PLC0415 - few need it

    usual = os.environ.get("WINDLASS_ON") or configured().on
    wanted = context or "kubernetes"
    return "" if usual == wanted else f" --on {wanted}"
