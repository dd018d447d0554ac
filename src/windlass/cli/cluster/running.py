"""`run` and `submit` on a cluster: the objects are made, and what can be told of them at once is told."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence

from windlass.cli.attend import Attendance
from windlass.cli.cluster.cluster import Cluster
from windlass.cli.cluster.handing import Given, Handed, handed
from windlass.cli.cluster.pod_lines import PodLines
from windlass.cli.cluster.warning import of_what_is_missing, outlook
from windlass.cli.exit_codes import ExitCode
from windlass.cli.failures import UsageError
from windlass.cli.interrupts import Interrupts
from windlass.cli.screen import Screen
from windlass.server.errors import ApiError


class There:
    """A cluster, for `Attendance`."""

    lost = "the cluster does not answer; {} goes on there"

    def __init__(self, cluster: Cluster, option: str) -> None:
        self._cluster = cluster
        self.option = option

    def reach(self, _hear: Callable[[str], None], *, succeeded: bool = False) -> Cluster:  # noqa: ARG002 - none is needed
        """The cluster: nobody has to be found or to become anything."""
        return self._cluster

    def find(self) -> Cluster | None:
        """The same, if it answers."""
        try:
            self._cluster.knock()
        except ApiError:
            return None
        return self._cluster

    def told(self, ids: Sequence[str]) -> list[str]:
        """What waits for a larger cluster. What is refused tells so itself, as it ends."""
        return [f"warning: {said}" for said in outlook(self._cluster, ids).doubtful]

    def lines(self, job_id: str) -> PodLines:
        """What a job's pods print."""
        return PodLines(self._cluster.reach, self._cluster.finder.the(job_id)[0])

    def logs(self, _job_id: str) -> str:
        """Nowhere on this machine."""
        return ""


def run_there(context: str, namespace: str, given: Given, *, detach: bool, no_color: bool) -> int:
    """Make the jobs of a command line, and follow them to their end. Returns the exit code."""
    cluster = Cluster.at(context, namespace)
    made = prepared(cluster, given, namespace)
    if detach:
        ids, code = _submitted(cluster, made)
        print(*ids, sep="\n")
        return code
    screen = Screen(no_color=no_color)
    with Interrupts() as interrupts, contextlib.closing(screen):
        attendance = Attendance(There(cluster, option(context)), screen)
        with contextlib.closing(attendance):
            return attendance.run(made.manifests, interrupts)


def submit_there(context: str, namespace: str, given: Given) -> tuple[list[str], int]:
    """Make the jobs of a command line. Returns their ids, and the exit code: what can never run is told at once."""
    cluster = Cluster.at(context, namespace)
    return _submitted(cluster, prepared(cluster, given, namespace))


def _submitted(cluster: Cluster, made: Handed) -> tuple[list[str], int]:
    """The jobs' ids. What can never run is told on stderr; what has ended for it makes the exit code."""
    ids = cluster.submit(made.manifests)
    found = outlook(cluster, ids)
    for said in (*found.refused, *found.doubtful):
        print(f"warning: {said}", file=sys.stderr)
    return ids, ExitCode.REFUSED if found.refused else ExitCode.OK


def prepared(cluster: Cluster, given: Given, namespace: str = "") -> Handed:
    """The objects of a command line; what is to be told of them is told on stderr. Raises UsageError.

    `namespace`: the one that the command line says, "" if it says none.
    """
    made = handed(given, cluster.finder)
    cluster.strict = made.strict
    for about in (each["metadata"] for each in made.manifests):
        if namespace and about["namespace"] != namespace:
            raise UsageError(
                f"{about['name']} is in namespace {about['namespace']} by its manifest, and the command line says "
                f"{namespace}\nleave one of them out"
            )
    for note in made.notes:
        print(f"windlass: {note}", file=sys.stderr)
    for said in (*made.warnings, *of_what_is_missing(cluster, made.manifests)):
        print(f"warning: {said}", file=sys.stderr)
    return made


def option(context: str) -> str:
    """What verbs need to look here again, where neither the environment nor the config file says it."""
    from windlass.cli.config_file import configured  # noqa: PLC0415 - few need it

    usual = os.environ.get("WINDLASS_ON") or configured().on
    wanted = context or "kubernetes"
    return "" if usual == wanted else f" --on {wanted}"
