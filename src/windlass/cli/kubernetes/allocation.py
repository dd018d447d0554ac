"""`windlass alloc` on a cluster: holds idle pods while a command runs inside the first of them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from windlass.cli import job_messages
from windlass.cli.kubernetes.client import ClusterClient
from windlass.cli.kubernetes.pod_exec import execute_in_pod
from windlass.cli.kubernetes.run import prepare_objects
from windlass.cli.kubernetes.submission import SubmitRequest
from windlass.cli.terminal.interrupts import Interrupts
from windlass.cli.terminal.screen import Screen
from windlass.core.lifecycle.events import Diagnosed
from windlass.jobs.description.options import RunOptions
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]
_POLL_S = 0.2


def allocate_pods(
    where: tuple[str, str],
    options: RunOptions,
    holder: Sequence[str],
    command: Sequence[str],
    ship: str,
    screen: Screen,
) -> int:
    """Waits for the pods, runs the command and releases the pods. `where`: context and namespace.

    Returns the exit code of the command.
    """
    cluster = ClusterClient.at(*where)
    held = replace(options, restarts=0)
    job_id = cluster.submit(prepare_objects(cluster, SubmitRequest(held, holder, None, ship)).manifests)[0]
    try:
        with Interrupts() as interrupts:
            line = _wait(cluster, job_id, interrupts, screen)
        if line["phase"] != "Running":
            screen.say(job_messages.end_lines(line, "")[0])
            return job_messages.exit_code_of([line])
        waited = line["admitted_at"] - line["created_at"]
        screen.say(f"{job_messages.admission_line(job_id, 1, waited, line['nodes'])}; exit releases them")
        return execute_in_pod(cluster.session, cluster.running_pod(job_id, 0), command or ["sh"])
    finally:
        with contextlib.suppress(ApiError):  # it has ended by itself
            cluster.act("cancel", job_id, by="windlass alloc", now=True)


def _wait(cluster: ClusterClient, job_id: str, interrupts: Interrupts, screen: Screen) -> Json:
    """Waits until the job runs or has ended; returns its line. Ctrl-C cancels it."""
    handled = 0
    with contextlib.closing(cluster.follow(job_id)) as stream:
        while True:
            for event in stream.poll(_POLL_S):
                if event["type"] == "verdict":
                    screen.state(job_messages.waiting_line(event["job"]))
                elif event["type"] == "end":
                    return dict(event["job"])
                elif event.get("after") == "Running":
                    return cluster.job(job_id)
                elif event.get("event") == Diagnosed.__name__:
                    screen.say(job_messages.diagnosis_line(job_id, event["message"]))
            if interrupts.count > handled:
                handled = interrupts.count
                _cancel(cluster, job_id, interrupts.names[-1])


def _cancel(cluster: ClusterClient, job_id: str, by: str) -> None:
    try:
        cluster.act("cancel", job_id, by=by)
    except ApiError as error:
        if error.code is not ErrorCode.WRONG_STATE:
            raise
