"""Following jobs to their end: events, ranks' lines, Ctrl-C, and controllers that come and go."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from windlass.backends.local.logs import Line
from windlass.backends.local.paths import StatePaths
from windlass.cli import job_messages
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_submission import owner_process, submission_context
from windlass.cli.log_tail import LogTail
from windlass.cli.rank_placement import nodes_of_ranks
from windlass.cli.terminal.interrupts import Interrupts
from windlass.cli.terminal.screen import Screen
from windlass.server.cluster_options import ClusterOptions
from windlass.server.discovery import LOST, Connection, find_controller, find_or_start
from windlass.server.errors import ApiError, Code

Json = dict[str, Any]
_QUICK, _SLOW = 0.02, 0.2
"""Seconds between two looks at the logs: while something comes, and when nothing has for a while."""


class EventStream(Protocol):
    """Events of followed jobs."""

    after: int
    """Number of the last event that was returned."""

    def poll(self, timeout: float, /) -> list[Json]:
        """Returns the events that arrived, after at most `timeout` seconds."""

    def close(self) -> None:
        """Ends the stream."""


class JobController(Protocol):
    """The calls that following a job needs, of a daemon, this process or a cluster."""

    @property
    def kind(self) -> str:
        """Returns "up" if jobs outlive this process."""

    @property
    def succeeded(self) -> bool:
        """Whether another process has taken over control of the state folder."""

    def submit(self, submissions: Sequence[Any], **facts: Any) -> list[str]:
        """Submits jobs, all or none; returns their ids."""

    def follow(self, names: str, after: int = 0, /) -> EventStream:
        """Streams the events of jobs (several separated by commas) that come after event `after`."""

    def job(self, name: str, /) -> Json:
        """Returns the details of a job."""

    def act(self, verb: str, name: str, **how: Any) -> Json:
        """Cancels, suspends or resumes a job."""

    def close(self) -> None:
        """Releases the connection."""


class LogSource(Protocol):
    """What the ranks of one job print."""

    def poll(self) -> list[Line]:
        """The lines that have come."""

    def finish(self) -> list[Line]:
        """Everything that is left. For a job that has ended."""


class FollowTarget(Protocol):
    """Where jobs run that are attended."""

    lost: str
    """What to say when whoever decides there has gone; `{}` are the jobs."""
    option: str
    """What to add to a verb, so that it looks there too."""

    def reach(self, hear: Callable[[str], None], *, succeeded: bool = False) -> JobController:
        """Whoever decides there. `hear`: what it complains of in this process; `succeeded`: see `find_or_start`."""

    def find(self) -> JobController | None:
        """The same if it answers now."""

    def told(self, ids: Sequence[str]) -> Sequence[str]:
        """What is to be said of jobs that have just been handed in, a line each."""

    def lines(self, job_id: str) -> LogSource:
        """What a job prints."""

    def logs(self, job_id: str) -> str:
        """Where that is kept; "" if only a verb finds it."""


class LocalTarget:
    """A state folder, and the cluster that is wanted if nobody controls it yet."""

    lost = "the daemon has gone; {} goes on without it. Start it again with: windlass up -d"
    option = ""

    def __init__(self, state: Path, wanted: ClusterOptions) -> None:
        self._paths, self._wanted = StatePaths(state), wanted

    def reach(self, hear: Callable[[str], None], *, succeeded: bool = False) -> Connection:
        """Whoever controls the folder, or this process."""
        return find_or_start(self._paths.root, self._wanted, hear, succeeded=succeeded)

    def find(self) -> Connection | None:
        """Whoever controls the folder now."""
        return find_controller(self._paths.root)

    def told(self, ids: Sequence[str]) -> Sequence[str]:  # noqa: ARG002 - what can never run is refused here
        """Nothing."""
        return ()

    def lines(self, job_id: str) -> LogTail:
        """Its log files."""
        return LogTail(self._paths, job_id)

    def logs(self, job_id: str) -> str:
        """Their folder."""
        return str(self._paths.job_logs(job_id))


class JobFollower:
    """One foreground `run`. It finds or becomes the controller, and does so again when that has gone."""

    def __init__(self, world: FollowTarget, screen: Screen) -> None:
        self._world = world
        self._screen = screen
        self._reach = functools.partial(world.reach, self._hear)
        self._handed_in = False
        self._told_of_reader = False
        self.connection: JobController = self._reach()
        self._heeded = 0
        self._after = 0
        self._generation: dict[str, int] = {}
        self._nodes: dict[str, dict[tuple[int, int], str]] = {}
        self._tails: dict[str, LogSource] = {}
        self._ended: dict[str, Json] = {}

    def run(self, handed: Sequence[Any], interrupts: Interrupts) -> int:
        """Hand jobs in, and follow them to their end. Returns the exit code."""
        ids = self._hand_in(handed)
        self._handed_in = True
        for said in self._world.told(ids):
            self._screen.say(said)
        names = ",".join(ids)
        while True:
            try:
                return self._until_end(names, interrupts)
            except ApiError as error:
                if error.code not in LOST:
                    raise
            if not self._find_again(names, interrupts):
                return self._detach(names)

    def close(self) -> None:
        """Leave the controller, or leave as the controller."""
        self.connection.close()

    @property
    def _outlives_us(self) -> bool:
        return self.connection.kind == "up"

    def _hand_in(self, handed: Sequence[Any]) -> list[str]:
        """Once, however often the controller goes while it is asked."""
        given = submission_context()
        again = False
        while True:
            given["owner"] = "" if self._outlives_us else owner_process()
            try:
                return self.connection.submit(handed, **given, again=again)
            except ApiError as error:
                if error.code not in LOST:
                    raise
            again = True
            self._reach_again()

    def _hear(self, trouble: str) -> None:
        """What a controller in this process complains of. Until the job is in, it is the answer to handing it in."""
        if self._handed_in:
            self._screen.say(trouble)

    def _reach_again(self) -> None:
        self.connection.close()
        self.connection = self._reach(succeeded=self.connection.succeeded)

    def _until_end(self, names: str, interrupts: Interrupts) -> int:
        stream = self.connection.follow(names, self._after)
        try:
            pause = _QUICK
            while True:
                events = stream.poll(pause)
                self._after = stream.after
                for event in events:
                    self._take(event)
                pause = _QUICK if self._show_lines() or events else min(pause * 1.5, _SLOW)
                if any(event["type"] == "all ended" for event in events):
                    return self._finish()
                if self._screen.reader_left and not self._told_of_reader:
                    self._told_of_reader = True
                    interrupts.note("the end of its reader")
                if interrupts.count > self._heeded and self._heed(names, interrupts):
                    return self._detach(names)
        finally:
            stream.close()

    # --- events ------------------------------------------------------------------------------------

    def _take(self, event: Json) -> None:
        match event["type"]:
            case "verdict":
                self._screen.state(job_messages.waiting_line(event["job"]))
            case "transition":
                self._tell(event)
            case "end":
                job = event["job"]
                self._ended[job["id"]] = job

    def _tell(self, event: Json) -> None:
        job_id, after = event["job_id"], event["after"]
        if after == "Admitted" and event["before"] != "Admitted":
            self._tell_of_start(job_id, event["at"])
        elif after == "Restarting" and event["before"] != "Restarting":
            self._show_lines()
            self._screen.say(job_messages.restart_line(job_id, self._generation.get(job_id, 1), event["message"]))
        elif event.get("event") == "Recovered":
            self._show_lines()
            self._screen.say(job_messages.recovery_line(job_id, event["message"]))
        elif after == "Suspended":
            self._screen.state(f"job {job_id} is suspended: {event['message']}")

    def _tell_of_start(self, job_id: str, at: int) -> None:
        """Where it runs, and what its ranks find there. The job may be further on by now, or have ended."""
        story = self.connection.job(job_id)
        generation = self._generation[job_id] = self._generation.get(job_id, 0) + 1
        self._nodes[job_id] = nodes_of_ranks(story)
        nodes = [node for (number, _), node in self._nodes[job_id].items() if node and number == generation]
        if not nodes and story["attempts"] == generation:  # its pods are about to be put there
            nodes = story["nodes"]
        if job_id not in self._tails:
            self._tails[job_id] = self._world.lines(job_id)
        self._screen.say(job_messages.admission_line(job_id, generation, at - story["created_at"], nodes))
        if generation == 1:
            for line in story["surroundings"]:
                self._screen.say(f"  {line}")

    def _finish(self) -> int:
        for job_id, job in sorted(self._ended.items(), key=lambda item: item[1]["number"]):
            tail = self._tails.pop(job_id, None)
            for line in tail.finish() if tail else ():
                self._screen.rank(line, self._nodes.get(job_id, {}), self._label(job_id))
            self._screen.flush()
            for text in job_messages.end_lines(job, self._world.logs(job_id), self._world.option):
                self._screen.say(text)
        return job_messages.exit_code_of(self._ended.values())

    def _show_lines(self) -> bool:
        came = False
        for job_id, tail in self._tails.items():
            for line in tail.poll():
                came = True
                self._screen.rank(line, self._nodes.get(job_id, {}), self._label(job_id))
        if came:
            self._screen.flush()
        return came

    def _label(self, job_id: str) -> str:
        return job_id if len(self._tails) > 1 else ""

    # --- people, and controllers that go -------------------------------------------------------------

    def _heed(self, names: str, interrupts: Interrupts) -> bool:
        """What Ctrl-C means: True to leave the job to its daemon."""
        first, self._heeded = self._heeded == 0, interrupts.count
        if self._outlives_us:
            return True
        by = interrupts.names[-1]
        what = "cancelling {}; once more kills it at once" if first else "killing {}"
        self._screen.say(f"{by}: {what.format(names)}")
        for name in names.split(","):
            try:
                self.connection.act("cancel", name, by=by, now=not first)
            except ApiError as error:
                if error.code is not Code.WRONG_STATE:  # it has just ended by itself
                    raise
        return False

    def _detach(self, names: str) -> int:
        self._screen.say(f"left {names}, which goes on; its end is not waited for")
        for name in names.split(","):
            words = name + self._world.option
            self._screen.say(f"  follow it: windlass logs -f {words}    end it: windlass cancel {words}")
        return ExitCode.CANCELLED

    def _find_again(self, names: str, interrupts: Interrupts) -> bool:
        """Whoever controls the folder next. A daemon's jobs wait for the next daemon; False if nobody wants to wait."""
        if not self._outlives_us:
            self._reach_again()
            return True
        self._screen.say(self._world.lost.format(names))
        while interrupts.count == self._heeded:
            if found := self._world.find():
                self._screen.say("it is back")
                self.connection = found
                return True
            time.sleep(_SLOW)
        return False
