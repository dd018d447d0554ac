"""`windlass notebook` on a cluster: a job with one pod, a Secret with its token, and a forwarded port."""

from __future__ import annotations

import http.client
import secrets
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from windlass.backends.kubernetes.client.resources import SECRETS
from windlass.cli import job_messages
from windlass.cli.current_user import current_user
from windlass.cli.errors import UsageError
from windlass.cli.job_submission import current_folder
from windlass.cli.kubernetes.api_user import api_user
from windlass.cli.kubernetes.client import ClusterClient
from windlass.cli.kubernetes.notebook_objects import (
    PORT,
    in_pod,
    is_of_user,
    kept_files,
    secret_of,
    server_command,
    token_in,
    token_secret,
)
from windlass.cli.kubernetes.pod_ranks import PodRank
from windlass.cli.kubernetes.port_forward import wait_for_port
from windlass.cli.kubernetes.submission import NO, objects_of_jobs, ship_code
from windlass.cli.notebook_page import NotebookPage, refuse_ended
from windlass.cli.terminal.screen import Screen
from windlass.core.model.status import TERMINAL
from windlass.jobs.description.options import RunOptions, from_options
from windlass.server.errors import ApiError, ErrorCode

_POLL_S = 0.5
_START_S = 120
"""Seconds for which JupyterLab may start in a pod that runs."""
_ANSWER_S = 5.0
_MAX_REASON = 1000
_NO_KUBECTL = "the notebook of a pod is reached by kubectl, which is not installed\ninstall it, and try again"


@dataclass(frozen=True, slots=True)
class PodNotebook:
    """The wanted notebook of a cluster. `context`: of the kubeconfig; `claim`: volume claim for its files, or ""."""

    context: str
    options: RunOptions
    idle_ms: int
    claim: str


def open_notebook(
    cluster: ClusterClient, wanted: PodNotebook, screen: Screen, show: Callable[[NotebookPage], None]
) -> None:
    """Starts the notebook, or finds the one that runs, and forwards a port. Raises ApiError, UsageError."""
    program = shutil.which("kubectl")
    if program is None:
        raise UsageError(_NO_KUBECTL)
    # 1. A notebook of this name that has not ended goes on; without one, a job is submitted.
    job_id, token = _running(cluster, wanted) or _submit(cluster, wanted)
    # 2. Wait for the pod.
    pod = _await_pod(cluster, job_id, screen)
    screen.say(f"{job_id} runs in {pod.name}: {kept_files(wanted.claim, wanted.idle_ms)}")
    screen.say(f"Ctrl-C ends the forwarding, and the notebook goes on; end it with: windlass cancel {job_id}")
    # 3. Forward a port to it.
    context = ["--context", wanted.context] if wanted.context else []
    command = [program, *context, "port-forward", "-n", pod.namespace, f"pod/{pod.name}", f":{PORT}"]
    _forward(command, token, show)


def _running(cluster: ClusterClient, wanted: PodNotebook) -> tuple[str, str] | None:
    """Returns id and token of the user's notebook that waits or runs.

    Raises UsageError if another job has its name, also a notebook of another user: its page is that user's.
    """
    for job in cluster.finder.find(wanted.options.name or ""):
        if cluster.job(job.id)["phase"] in TERMINAL:
            continue
        secret = secret_of(job.manifest)
        if not secret:
            raise UsageError(f"{job.id} is no notebook and has its name\nchoose another one: --name NAME")
        user = cluster.session.run(api_user(cluster.session.connection))
        if not is_of_user(job.manifest, user):
            raise UsageError(
                f"{job.id} is a notebook of another user and has its name\nchoose another one: --name NAME"
            )
        found = cluster.session.run(cluster.session.connection.get(SECRETS, job.namespace, secret))
        return job.id, token_in(found)
    return None


def _submit(cluster: ClusterClient, wanted: PodNotebook) -> tuple[str, str]:
    """Creates the job and the Secret that its pod waits for; returns the job's id and the token."""
    secret, token = f"windlass-notebook-{secrets.token_hex(5)}", secrets.token_urlsafe(32)
    options = replace(wanted.options, procs=1)  # one server, whatever its GPUs
    made = from_options(options, server_command(wanted.idle_ms), cwd=current_folder(), user=current_user())
    (notebook,), code = ship_code([made], NO, Path(current_folder()))
    objects = objects_of_jobs([in_pod(notebook, secret, wanted.claim)], code, cluster.finder)
    (job_id,) = cluster.submit(objects.manifests)
    (job,) = cluster.finder.get(job_id)
    cluster.session.run(cluster.session.connection.create(SECRETS, token_secret(secret, job.manifest, token)))
    return job_id, token


def _await_pod(cluster: ClusterClient, job_id: str, screen: Screen) -> PodRank:
    """Waits until the pod of a job runs. Raises ApiError if the job ends first."""
    while True:
        job = cluster.job(job_id)
        if job["phase"] == "Running":
            return cluster.running_pod(job_id, 0)
        refuse_ended(job)
        screen.state(job_messages.waiting_line(job))
        time.sleep(_POLL_S)


def _forward(command: list[str], token: str, show: Callable[[NotebookPage], None]) -> None:
    """Forwards a port until kubectl ends. `show` gets the page once JupyterLab answers. Raises ApiError."""
    until = time.monotonic() + _START_S
    with tempfile.TemporaryDirectory(prefix="windlass-notebook-") as folder:
        while not _forward_once(command, lambda port: show(NotebookPage(port, token, Path(folder, "open.html")))):
            if time.monotonic() > until:
                message = f"JupyterLab has not answered for {_START_S} s"
                raise ApiError(ErrorCode.NO_DAEMON, message, "see its output: windlass logs NAME")
            time.sleep(_POLL_S)


def _forward_once(command: list[str], show: Callable[[int], None]) -> bool:
    """Forwards a port until kubectl ends; False if nothing answers on it: a refused connection ends kubectl."""
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            port = _forwarded_port(process.stdout, errors)
            if not _answers(port):
                return False
            show(port)
            for _ in process.stdout:
                pass  # a full pipe would stop kubectl
        finally:
            process.terminate()
    return True


def _forwarded_port(lines: Iterable[str], errors: TextIO) -> int:
    """Returns the port that kubectl forwards. Raises ApiError with the reason of kubectl if it ends first."""
    fix = "forwarding needs create on pods/portforward, and get on pods, in its namespace"
    try:
        return wait_for_port(lines, "kubectl does not forward a port to the notebook", fix)
    except ApiError as error:
        errors.seek(0)
        reason = errors.read(_MAX_REASON).strip() or "it prints no reason"
        raise ApiError(error.code, f"{error.message}: {reason}", fix) from None


def _answers(port: int) -> bool:
    """Whether a server answers on a port of this machine, with whatever status."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=_ANSWER_S):
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, http.client.HTTPException):
        return False
