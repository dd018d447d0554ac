"""Submits the ranks of a network test as a job, on this machine or a cluster, and collects what they measure."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from windlass.cli.current_user import current_user
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_follower import FollowedLogs, FollowTarget, JobController, JobFollower, LocalTarget
from windlass.cli.job_submission import for_this_machine
from windlass.cli.queue_limit import QueueLimit
from windlass.cli.terminal.interrupts import Interrupts
from windlass.cli.terminal.screen import Screen
from windlass.diagnose.network import sweep_worker
from windlass.diagnose.network.measurements import Sweep, take_event
from windlass.diagnose.network.sweep_worker import MARK
from windlass.jobs.description.options import RunOptions, from_options

if TYPE_CHECKING:
    from windlass.backends.local.logs import LogLine
    from windlass.server.cluster_options import ClusterOptions

_WORKER = Path(sweep_worker.__file__)
_LABEL = {"windlass-network-test": "rank"}
_APART = {"labelSelector": {"matchLabels": _LABEL}, "topologyKey": "kubernetes.io/hostname"}
_ON_NODES_OF_THEIR_OWN = {
    "labels": _LABEL,
    "pod": {"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_APART]}}}},
}
"""Fields of the job on a cluster: no two of its pods share a node, where pods of others may run."""
_OTHER_TIME_S = 900
"""Time for everything but waits for other ranks: images, imports, measurements."""


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """A test: `sizes` in bytes, `timeout_s` of each wait, and options of its job."""

    nodes: int
    gpus: int
    sizes: tuple[int, ...]
    timeout_s: float
    options: RunOptions

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of each rank."""
        return ("--sizes", ",".join(map(str, self.sizes)), "--timeout", f"{self.timeout_s:g}")


def job_options(nodes: int, gpus: int, timeout_s: float, **more: Any) -> RunOptions:
    """Returns the options of the job of a test. Only plain ranks need a launcher: torchrun starts several in a pod."""
    return RunOptions(
        name="network-test",
        nodes=str(nodes),
        gpus=gpus or None,
        time=f"{int(4 * timeout_s) + _OTHER_TIME_S}s",
        **{name: value for name, value in more.items() if value},
    )


@dataclass(frozen=True, slots=True)
class SweepRun:
    """A test that has ended: measurements, the events that they come from, and the nodes of its job.

    `cluster`: address of the API server, "" for this machine.
    """

    sweep: Sweep
    events: Sequence[str]
    nodes: Sequence[str]
    is_cancelled: bool
    cluster: str = ""


class _CollectedLogs:
    """Logs of a job without the lines of measurements, which go to `take`, and without other output of its ranks."""

    def __init__(self, source: FollowedLogs, take: Callable[[str], None]) -> None:
        self._source, self._take = source, take

    def poll(self) -> list[LogLine]:
        """Returns the new lines of standard error."""
        return self._kept(self._source.poll())

    def finish(self) -> list[LogLine]:
        """Returns the remaining ones of a job that has ended."""
        return self._kept(self._source.finish())

    def _kept(self, lines: Sequence[LogLine]) -> list[LogLine]:
        for line in lines:
            _, mark, text = line.text.partition(MARK)
            if mark:
                self._take(text)
        return [line for line in lines if MARK not in line.text and line.file.stream == "stderr"]


class _CollectingTarget:
    """A target whose logs are collected; everything else is that of the target within."""

    def __init__(self, target: FollowTarget, take: Callable[[str], None]) -> None:
        self._target, self._take = target, take
        self.lost, self.option = target.lost, target.option

    def connect(self, on_error: Callable[[str], None], *, succeeded: bool = False) -> JobController:
        """Returns the controller."""
        return self._target.connect(on_error, succeeded=succeeded)

    def find(self) -> JobController | None:
        """Returns the controller if it answers now."""
        return self._target.find()

    def warnings(self, ids: Sequence[str]) -> Sequence[str]:
        """Returns warnings about the jobs."""
        return self._target.warnings(ids)

    def log_source(self, job_id: str) -> FollowedLogs:
        """Returns the logs of a job without measurements."""
        return _CollectedLogs(self._target.log_source(job_id), self._take)

    def log_location(self, job_id: str) -> str:
        """Returns the folder of the logs."""
        return self._target.log_location(job_id)


def sweep_here(
    request: SweepRequest, state: Path, wanted: ClusterOptions, screen: Screen, limit: QueueLimit
) -> SweepRun:
    """Runs the test on nodes of this machine. Raises UsageError without torch, QueueTimeoutError without nodes."""
    if find_spec("torch") is None:
        fix = "pip install 'windlass-train[train]'"
        raise UsageError(f"the ranks of the test need torch, which is not installed\n{fix}")
    command = (sys.executable, str(_WORKER), *request.arguments)
    submission = from_options(request.options, command, cwd="/", user=current_user())
    return _follow(LocalTarget(state, wanted), for_this_machine([submission]), screen, limit)


def sweep_on_cluster(
    request: SweepRequest, context: str, namespace: str, screen: Screen, limit: QueueLimit
) -> SweepRun:
    """Runs the test on nodes of a cluster: the file of a rank is sent along, and the image has Python and torch.

    Raises QueueTimeoutError.
    """
    from windlass.cli.kubernetes.client import ClusterClient  # noqa: PLC0415 - loads a cluster's libraries
    from windlass.cli.kubernetes.run import ClusterTarget, prepare_objects, target_option  # noqa: PLC0415
    from windlass.cli.kubernetes.submission import SubmitRequest  # noqa: PLC0415

    cluster = ClusterClient.at(context, namespace)
    program = "torchrun" if request.gpus > 1 else "python"
    with tempfile.TemporaryDirectory(prefix="windlass-network-") as folder:
        shutil.copy(_WORKER, folder)
        job_file = Path(folder, "job.yaml")
        job_file.write_text(json.dumps(_ON_NODES_OF_THEIR_OWN), encoding="utf-8")
        words = (program, _WORKER.name, *request.arguments)
        objects = prepare_objects(cluster, SubmitRequest(request.options, words, str(job_file), ship=folder), namespace)
    target = cast("FollowTarget", ClusterTarget(cluster, target_option(context)))
    return replace(_follow(target, objects.manifests, screen, limit), cluster=cluster.session.access.server)


def _follow(target: FollowTarget, submissions: Sequence[Any], screen: Screen, limit: QueueLimit) -> SweepRun:
    """Submits a job, follows it to its end, and returns what its ranks have measured."""
    sweep, events = Sweep(), []

    def take(text: str) -> None:
        events.append(text)
        take_event(sweep, text)

    with Interrupts() as interrupts, contextlib.closing(screen):
        follower = JobFollower(_CollectingTarget(target, take), screen, always_cancels=True, queue_limit=limit)
        with contextlib.closing(follower):
            follower.submit(submissions)
            code = follower.follow(interrupts)
    nodes = dict.fromkeys((*follower.nodes, *sweep.nodes))
    return SweepRun(sweep, events, list(nodes), code == ExitCode.CANCELLED)
