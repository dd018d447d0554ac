"""Follows submitted jobs to their end: events, output of ranks, Ctrl-C, and controllers that stop and come back."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from windlass.backends.local.logs import LogLine
from windlass.backends.local.paths import StatePaths
from windlass.cli import job_messages
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_submission import owner_process, submission_context
from windlass.cli.log_tail import LogTail
from windlass.cli.queue_limit import QueueLimit
from windlass.cli.rank_placement import nodes_of_ranks
from windlass.cli.terminal.interrupts import Interrupts
from windlass.cli.terminal.screen import Screen
from windlass.cli.verdict_wait import with_verdicts
from windlass.server.cluster_options import ClusterOptions
from windlass.server.discovery import LOST, Connection, find_controller, find_or_start
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]
_MIN_POLL_S, _MAX_POLL_S = 0.02, 0.2
"""Seconds between two reads of the logs: the minimum after new output, the maximum after a while without any."""


class EventStream(Protocol):
    """Events of followed jobs."""

    after: int
    """Number of the last event that was returned."""

    def poll(self, timeout: float, /) -> list[Json]:
        """Returns the events that arrived, after at most `timeout` seconds."""

    def close(self) -> None:
        """Ends the stream."""


class JobController(Protocol):
    """The calls of a daemon, of a controller in this process or of a cluster that following a job needs."""

    @property
    def kind(self) -> str:
        """Returns "up" if jobs outlive this process."""

    @property
    def succeeded(self) -> bool:
        """Whether this process has handed its state folder over to another controller."""

    def submit(self, submissions: Sequence[Any], **facts: Any) -> list[str]:
        """Submits jobs, all or none; returns their ids."""

    def follow(self, names: str, after: int = 0, /) -> EventStream:
        """Streams the events of jobs (names separated by commas) that come after event `after`."""

    def job(self, name: str, /) -> Json:
        """Returns the details of a job."""

    def explain(self, name: str, what_if: str = "", /) -> Json:
        """Returns why a job waits."""

    def act(self, verb: str, name: str, **how: Any) -> Json:
        """Cancels, suspends or resumes a job."""

    def close(self) -> None:
        """Releases the connection."""


class FollowedLogs(Protocol):
    """Output of the ranks of one job."""

    def poll(self) -> list[LogLine]:
        """Returns the new lines."""

    def finish(self) -> list[LogLine]:
        """Returns the remaining lines of a job that has ended."""


class FollowTarget(Protocol):
    """The target on which followed jobs run: this machine or a cluster."""

    lost: str
    """Message for a lost controller; `{}` is replaced by the names of the jobs."""
    option: str
    """Option that makes other verbs look at the same target, such as " --on kubernetes"."""

    def connect(self, on_error: Callable[[str], None], *, succeeded: bool = False) -> JobController:
        """Returns the controller. `on_error` receives errors of a controller in this process; see `find_or_start`."""

    def find(self) -> JobController | None:
        """Returns the controller if it answers now."""

    def warnings(self, ids: Sequence[str]) -> Sequence[str]:
        """Returns warnings about jobs that were just submitted, a line each."""

    def log_source(self, job_id: str) -> FollowedLogs:
        """Returns the output of a job."""

    def log_location(self, job_id: str) -> str:
        """Returns the folder of the logs; "" if only `windlass logs` reaches them."""


class LocalTarget:
    """A state folder of this machine, and the nodes to use if no controller runs there yet."""

    lost = "the daemon stopped; {} keeps running without it. Restart it with: windlass up -d"
    option = ""

    def __init__(self, state: Path, wanted: ClusterOptions) -> None:
        self._paths, self._wanted = StatePaths(state), wanted

    def connect(self, on_error: Callable[[str], None], *, succeeded: bool = False) -> Connection:
        """Returns the controller of the folder, or one in this process."""
        return find_or_start(self._paths.root, self._wanted, on_error, succeeded=succeeded)

    def find(self) -> Connection | None:
        """Returns the controller of the folder if there is one."""
        return find_controller(self._paths.root)

    def warnings(self, ids: Sequence[str]) -> Sequence[str]:  # noqa: ARG002 - the protocol's signature
        """Returns none: a local controller refuses impossible jobs."""
        return ()

    def log_source(self, job_id: str) -> LogTail:
        """Returns the log files of a job."""
        return LogTail(self._paths, job_id)

    def log_location(self, job_id: str) -> str:
        """Returns the folder of a job's log files."""
        return str(self._paths.job_logs(job_id))


class _JobOutput:
    """Output of the ranks of followed jobs."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._sources: dict[str, FollowedLogs] = {}
        self._nodes: dict[str, dict[tuple[int, int], str]] = {}
        """For each job the node of each (generation, rank)."""

    def add(self, job_id: str, nodes: dict[tuple[int, int], str], open_source: Callable[[str], FollowedLogs]) -> None:
        """Prints the output of a job from now on; for a job that has started again, updates its nodes."""
        self._nodes[job_id] = nodes
        if job_id not in self._sources:
            self._sources[job_id] = open_source(job_id)

    def print_new(self) -> bool:
        """Prints the new lines of all ranks; returns whether there were any."""
        printed = [self._print(job_id, source.poll()) for job_id, source in self._sources.items()]
        if any(printed):
            self._screen.flush()
        return any(printed)

    def finish(self, job_id: str) -> None:
        """Prints the remaining lines of a job that has ended."""
        source = self._sources.pop(job_id, None)
        self._print(job_id, source.finish() if source else ())
        self._screen.flush()

    def _print(self, job_id: str, lines: Sequence[LogLine]) -> bool:
        label = job_id if len(self._sources) > 1 else ""
        for line in lines:
            self._screen.rank(line, self._nodes.get(job_id, {}), label)
        return bool(lines)


def _in_order_of_submission(jobs: Iterable[Json], submitted: Sequence[str]) -> list[Json]:
    """Returns jobs in the order of their submission, and members of an array in the order of their indexes.

    `submitted`: ids of jobs and of arrays. In a cluster an id begins with the namespace, the array of a line does not.
    """
    positions = {name: position for position, name in enumerate(submitted)}

    def place(job: Json) -> tuple[int, int]:
        namespace, slash, _ = job["id"].rpartition("/")
        name = f"{namespace}{slash}{job['array']}" if job["array"] else job["id"]
        return positions.get(name, len(positions)), job["index"] or 0

    return sorted(jobs, key=place)


class JobFollower:
    """One foreground `run`. Finds or becomes the controller, and does so again when that controller stops."""

    def __init__(
        self,
        target: FollowTarget,
        screen: Screen,
        *,
        always_cancels: bool = False,
        queue_limit: QueueLimit | None = None,
    ) -> None:
        self._target = target
        self._queue_limit = queue_limit
        self._always_cancels = always_cancels
        """Whether an interrupt cancels jobs of a daemon or a cluster, too."""
        self._screen = screen
        self._connect = functools.partial(target.connect, self._on_error)
        self._names = ""
        """Ids of the submitted jobs, separated by commas."""
        self._noted_broken_pipe = False
        self.connection: JobController = self._connect()
        self._handled_interrupts = 0
        self._after = 0
        self._unhandled: list[Json] = []
        """Events that a stream returned, and whose handling a lost controller interrupted."""
        self._generation: dict[str, int] = {}
        self.nodes: list[str] = []
        """Nodes of the generation that started last."""
        self._output = _JobOutput(screen)
        self._ended: dict[str, Json] = {}

    def submit(self, submissions: Sequence[Any]) -> None:
        """Submits jobs once, however often the controller is lost meanwhile: the key makes repeats idempotent."""
        context = submission_context()
        ids: list[str] = []
        again = False
        while not ids:
            context["owner"] = "" if self._jobs_outlive_us else owner_process()
            try:
                ids = self.connection.submit(submissions, **context, again=again)
            except ApiError as error:
                if error.code not in LOST:
                    raise
                again = True
                self._reconnect()
        self._names = ",".join(ids)
        if self._queue_limit:
            self._queue_limit.begin()
        for warning in self._target.warnings(ids):
            self._screen.say(warning)

    def follow(self, interrupts: Interrupts) -> int:
        """Follows the submitted jobs to their end. Returns the exit code. Raises QueueTimeoutError."""
        while True:
            try:
                return self._until_end(self._names, interrupts)
            except ApiError as error:
                if error.code not in LOST:
                    raise
            if not self._find_again(self._names, interrupts):
                return self._detach(self._names)

    def close(self) -> None:
        """Disconnects from the controller, or stops the controller in this process."""
        self.connection.close()

    @property
    def job_id(self) -> str:
        """The id of the only submitted job."""
        return self._names

    @property
    def _jobs_outlive_us(self) -> bool:
        return self.connection.kind == "up"

    def _on_error(self, message: str) -> None:
        """Prints an error of a controller in this process; before submission, `submit` raises the error itself."""
        if self._names:
            self._screen.say(message)

    def _reconnect(self) -> None:
        self.connection.close()
        self.connection = self._connect(succeeded=self.connection.succeeded)

    def _until_end(self, names: str, interrupts: Interrupts) -> int:
        stream = self.connection.follow(names, self._after)
        try:
            pause = _MIN_POLL_S
            while True:
                self._unhandled += stream.poll(pause)
                self._after = stream.after
                events = self._handle_events()
                pause = _MIN_POLL_S if self._output.print_new() or events else min(pause * 1.5, _MAX_POLL_S)
                if any(event["type"] == "all ended" for event in events):
                    return self._finish(interrupts)
                if self._queue_limit and self._queue_limit.is_over():
                    late = self._queue_limit.error(names, self.connection)
                    self._cancel(names, by="--timeout", now=False)
                    raise late
                if self._screen.reader_left and not self._noted_broken_pipe:
                    self._noted_broken_pipe = True
                    interrupts.note("closed output pipe")
                if interrupts.count > self._handled_interrupts and self._handle_interrupt(names, interrupts):
                    return self._detach(names)
        finally:
            stream.close()

    # --- events ------------------------------------------------------------------------------------

    def _handle_events(self) -> list[Json]:
        """Handles and returns the waiting events. One whose handling raises ApiError is the first of the next call."""
        handled = []
        while self._unhandled:
            self._handle_event(self._unhandled[0])
            handled.append(self._unhandled.pop(0))
        return handled

    def _handle_event(self, event: Json) -> None:
        match event["type"]:
            case "verdict":
                self._report_wait(event["job"])
            case "transition":
                self._report_transition(event)
            case "end":
                job = event["job"]
                self._ended[job["id"]] = job

    def _report_wait(self, job: Json) -> None:
        explanation = self._queue_limit.explain(job, self.connection) if self._queue_limit else ""
        if explanation:
            self._screen.say(explanation)
        else:
            self._screen.state(job_messages.waiting_line(job))

    def _report_transition(self, event: Json) -> None:
        job_id, after = event["job_id"], event["after"]
        if self._queue_limit:
            self._queue_limit.note_transition(event)
        if after == "Admitted" and event["before"] != "Admitted":
            self._report_start(job_id, event["at"])
        elif after == "Restarting" and event["before"] != "Restarting":
            self._output.print_new()
            self._screen.say(job_messages.restart_line(job_id, self._generation.get(job_id, 1), event["message"]))
        elif event.get("event") == "Diagnosed" and after not in ("Failed", "Succeeded"):
            self._screen.say(job_messages.diagnosis_line(job_id, event["message"]))
        elif event.get("event") == "Recovered":
            self._output.print_new()
            self._screen.say(job_messages.recovery_line(job_id, event["message"]))
        elif after == "Suspended":
            self._screen.state(f"job {job_id} is suspended: {event['message']}")

    def _report_start(self, job_id: str, at: int) -> None:
        """Prints the nodes of a started job and its environment notes. The job may be in a later state already."""
        details = self.connection.job(job_id)
        generation = self._generation[job_id] = self._generation.get(job_id, 0) + 1
        nodes_by_rank = nodes_of_ranks(details)
        nodes = [node for (number, _), node in nodes_by_rank.items() if node and number == generation]
        if not nodes and details["attempts"] == generation:  # its pods are not bound yet
            nodes = details["nodes"]
        self.nodes = nodes
        self._output.add(job_id, nodes_by_rank, self._target.log_source)
        self._screen.say(job_messages.admission_line(job_id, generation, at - details["created_at"], nodes))
        if generation == 1:
            for line in details["rank_resources"]:
                self._screen.say(f"  {line}")

    def _finish(self, interrupts: Interrupts) -> int:
        self._output.print_new()
        ended = with_verdicts(self._ended, self.connection.job, lambda: interrupts.count > self._handled_interrupts)
        in_order = _in_order_of_submission(ended.values(), self._names.split(","))
        for job in in_order:
            self._output.finish(job["id"])
            for text in job_messages.end_lines(job, self._target.log_location(job["id"]), self._target.option):
                self._screen.say(text)
        return job_messages.exit_code_of(in_order)

    # --- interrupts and lost controllers -------------------------------------------------------------

    def _handle_interrupt(self, names: str, interrupts: Interrupts) -> bool:
        """Cancels jobs that this process controls or always cancels; returns True to detach from jobs of a daemon."""
        first, self._handled_interrupts = self._handled_interrupts == 0, interrupts.count
        if self._jobs_outlive_us and not self._always_cancels:
            return True
        by = interrupts.names[-1]
        action = "cancelling {}; repeat to kill it at once" if first else "killing {}"
        self._screen.say(f"{by}: {action.format(names)}")
        self._cancel(names, by=by, now=not first)
        return False

    def _cancel(self, names: str, *, by: str, now: bool) -> None:
        for name in names.split(","):
            try:
                self.connection.act("cancel", name, by=by, now=now)
            except ApiError as error:
                if error.code is not ErrorCode.WRONG_STATE:  # it has just ended by itself
                    raise

    def _detach(self, names: str) -> int:
        self._screen.say(f"detached from {names}, which keeps running")
        for name in names.split(","):
            words = name + self._target.option
            self._screen.say(f"  follow: windlass logs -f {words}    cancel: windlass cancel {words}")
        return ExitCode.CANCELLED

    def _find_again(self, names: str, interrupts: Interrupts) -> bool:
        """Connects to the next controller. Jobs of a daemon wait for its restart; False if the user interrupts that."""
        if not self._jobs_outlive_us:
            self._reconnect()
            return True
        self._screen.say(self._target.lost.format(names))
        while interrupts.count == self._handled_interrupts:
            if found := self._target.find():
                self._screen.say("reconnected")
                self.connection = found
                return True
            time.sleep(_MAX_POLL_S)
        return False
